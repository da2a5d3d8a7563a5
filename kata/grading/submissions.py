"""Find what each participant handed in: the lessons' own files, and nothing else of the folder.

A submission is a folder, or a zip archive of one. The lessons lie in it directly or under
``lessons/``, at most one folder deeper. Only files that have a place among the stubs are read, so
a submission's ``tests/``, ``conftest.py``, ``solutions/`` or ``pytest.ini`` never reaches a run.
"""

from __future__ import annotations

import os
import unicodedata
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kata.stubs import stubs
from lessons import LESSONS

NAMES = tuple(lesson.name for lesson in LESSONS)
LARGEST_FILE = 512 * 1024
MOST_FILES = 200
DEEPEST = 4
LONGEST_NAME = 100
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class GradingError(Exception):
    """Nothing can be graded; the message says what is missing and what to do."""


@dataclass(frozen=True)
class Submission:
    """What one participant handed in.

    Attributes:
        name: the folder's or the archive's name, made printable.
        files: the lessons' files, by their path below ``lessons/``.
        notes: what was left out, and why.
    """

    name: str
    files: dict[PurePosixPath, bytes]
    notes: tuple[str, ...] = ()

    def of(self, lesson: str) -> dict[PurePosixPath, bytes]:
        """The files of one lesson: its module, or what lies in its package."""
        return {path: data for path, data in self.files.items() if lesson_of(path) == lesson}


def find_submissions(folder: Path) -> list[Submission]:
    """Read every submission in the folder, in the order of their names.

    Raises:
        GradingError: there is no such folder, or no submission in it.
    """
    if not folder.is_dir():
        raise GradingError(f"{folder} is no folder: give the one that holds a folder per person")
    entries = sorted(folder.iterdir(), key=lambda path: path.name.casefold())
    found = [read_submission(path) for path in entries if is_submission(path)]
    if not found:
        raise GradingError(f"{folder} is empty: it should hold one folder (or zip) per person")
    return found


def is_submission(path: Path) -> bool:
    if path.name.startswith(".") or path.is_symlink():
        return False
    return path.is_dir() or path.suffix.lower() == ".zip"


def read_submission(path: Path) -> Submission:
    """Read one submission; what cannot be read is left out, with a note."""
    source = Folder(path) if path.is_dir() else Archive(path)
    name = printable(path.name if path.is_dir() else path.stem)
    try:
        names = sorted(source.names())[: MOST_FILES * len(NAMES)]
        root = lessons_root(names)
    except (OSError, zipfile.BadZipFile) as error:
        return Submission(name, {}, (f"cannot be read: {error}",))
    if root is None:
        return Submission(name, {}, ("holds no file of a lesson",))
    wanted = [each for each in names if each.is_relative_to(root) and lesson_of(each, root)]
    return with_contents(name, source, wanted[:MOST_FILES], root)


def with_contents(
    name: str, source: Folder | Archive, wanted: list[PurePosixPath], root: PurePosixPath
) -> Submission:
    files, notes = {}, []
    for path in wanted:
        try:
            data = source.read(path)
        except (OSError, RuntimeError, ValueError, zipfile.BadZipFile) as error:
            notes.append(f"{printable(str(path))} was left out: {error}")
        else:
            files[path.relative_to(root)] = like_the_stub(path.relative_to(root), data)
    return Submission(name, files, tuple(notes))


def like_the_stub(path: PurePosixPath, data: bytes) -> bytes:
    """The bytes handed in; a stub that an editor saved with other line ends is a stub again."""
    plain = data.removeprefix(BYTE_ORDER_MARK).replace(b"\r\n", b"\n")
    return plain if plain == pristine().get(path) else data


def lessons_root(names: list[PurePosixPath]) -> PurePosixPath | None:
    """The folder in which a submission's lessons lie, or ``None`` where there are none.

    A clone of the whole repository holds files of the same names in other rooms; ``lessons`` wins.
    """
    roots = {root for name in names for root in name.parents if lesson_of(name, root)}
    own = [root for root in roots if not set(root.parts) & {"solutions", "tests", "docs"}]
    near = [root for root in own if len(root.parts) <= 1 or root.name == "lessons"]
    return min(near, key=lambda root: (root.name != "lessons", len(root.parts), root), default=None)


def lesson_of(path: PurePosixPath, root: PurePosixPath | None = None) -> str | None:
    """The lesson to which a Python file belongs by its place below ``root``, if to any."""
    parts = path.relative_to(root).parts if root else path.parts
    if path.suffix != ".py" or not parts:
        return None
    name = parts[0] if len(parts) > 1 else path.stem
    return name if name in NAMES else None


class Folder:
    """A submission that is a folder: regular files, no links, not too large."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> Iterator[PurePosixPath]:
        """The Python files at most a few folders deep; hidden folders aren't entered."""
        for folder, folders, files in os.walk(self.path):
            here = PurePosixPath(Path(folder).relative_to(self.path).as_posix())
            deep = len(here.parts) >= DEEPEST - 1
            folders[:] = [] if deep else [each for each in folders if not each.startswith(".")]
            yield from (here / file for file in files if file.endswith(".py"))

    def read(self, path: PurePosixPath) -> bytes:
        file = self.path / path
        if any(each.is_symlink() for each in (file, *file.parents[: len(path.parts) - 1])):
            raise ValueError("it is a link")
        if not file.is_file():
            raise ValueError("it is no regular file")
        with file.open("rb") as stream:
            return limited(stream.read(LARGEST_FILE + 1))


class Archive:
    """A submission that is a zip archive; nothing is unpacked to the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> Iterator[PurePosixPath]:
        with zipfile.ZipFile(self.path) as archive:
            for name in archive.namelist():
                path = PurePosixPath(name)
                inside = not path.is_absolute() and ".." not in path.parts
                if inside and path.suffix == ".py" and len(path.parts) <= DEEPEST:
                    yield path

    def read(self, path: PurePosixPath) -> bytes:
        with zipfile.ZipFile(self.path) as archive, archive.open(str(path)) as stream:
            return limited(stream.read(LARGEST_FILE + 1))


def limited(data: bytes) -> bytes:
    if len(data) > LARGEST_FILE:
        raise ValueError(f"it is larger than {LARGEST_FILE // 1024} KiB")
    return data


def pristine() -> dict[PurePosixPath, bytes]:
    """The instructor's own stubs, as bytes."""
    if not _PRISTINE:
        _PRISTINE.update({PurePosixPath(path): text.encode() for path, text in stubs().items()})
    return _PRISTINE


def is_untouched(submission: Submission, lesson: str) -> bool:
    """Whether a lesson's files are the stubs, byte for byte, or aren't there at all."""
    return all(pristine().get(path) == data for path, data in submission.of(lesson).items())


def stage(submission: Submission, folder: Path) -> None:
    """Write a folder of lessons to judge: the instructor's stubs, the submission's files on top."""
    handed_in = {lesson_of(path) for path in submission.files}
    stand_ins = {
        path: data for path, data in pristine().items() if lesson_of(path) not in handed_in
    }
    for path, data in {**stand_ins, **missing_steps(submission), **submission.files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def missing_steps(submission: Submission) -> dict[PurePosixPath, bytes]:
    """The stubs of the steps that a lesson of several files came without."""
    packages = {path.parts[0] for path in submission.files if len(path.parts) > 1}
    return {path: data for path, data in pristine().items() if path.parts[0] in packages}


def printable(text: str) -> str:
    """A name without control characters, of a bearable length, in Unicode that can be encoded."""
    text = os.fsencode(text).decode("utf-8", "replace")
    shown = "".join("�" if unicodedata.category(each)[0] == "C" else each for each in text)
    return shown if len(shown) <= LONGEST_NAME else shown[: LONGEST_NAME - 1] + "…"


_PRISTINE: dict[PurePosixPath, bytes] = {}
