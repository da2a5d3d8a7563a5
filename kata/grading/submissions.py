"""Find what each participant handed in: the lessons' own files, and nothing else of the folder.

A submission is a folder, or a zip archive of one. The lessons lie in it directly or under
``lessons/``, at most one folder deeper. Only files that have a place among the stubs are read, so
a submission's ``tests/``, ``conftest.py``, ``solutions/`` or ``pytest.ini`` never reaches a run.

Whatever is wrong with a submission is that person's alone: it has a row, and its note says why.
"""

from __future__ import annotations

import os
import unicodedata
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from kata.naming import NAMES
from kata.stubs import stubs

LARGEST_FILE = 512 * 1024
LARGEST_ARCHIVE = 64 * 2**20
MOST_FILES = 200
DEEPEST = 4
LONGEST_NAME = 100
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class GradingError(Exception):
    """Nothing can be graded; the message says what is missing and what to do."""


class UnreadableError(Exception):
    """A submission, or a file in it, cannot be read; the message says why."""


@dataclass(frozen=True)
class Submission:
    """What one participant handed in.

    Attributes:
        name: the folder's or the archive's name, made printable.
        files: the lessons' files, by their path below ``lessons/``.
        unreadable: the lessons of which something cannot be read.
        notes: what was left out, and why.
    """

    name: str
    files: dict[PurePosixPath, bytes]
    unreadable: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def of(self, lesson: str) -> dict[PurePosixPath, bytes]:
        """The files of one lesson: its module, or what lies in its package."""
        return {path: data for path, data in self.files.items() if lesson_of(path) == lesson}

    def is_untouched(self, lesson: str) -> bool:
        """Whether the lesson's files are the stubs, byte for byte, or aren't there at all."""
        return all(pristine().get(path) == data for path, data in self.of(lesson).items())


def find_submissions(folder: Path) -> list[Submission]:
    """Read every submission in the folder, in the order of their names.

    Raises:
        GradingError: there is no such folder, or nothing in it.
    """
    if not folder.is_dir():
        raise GradingError(f"{folder} is no folder: give the one that holds a folder per person")
    entries = sorted(folder.resolve().iterdir(), key=lambda path: path.name.casefold())
    found = [read_submission(path) for path in entries if not path.name.startswith((".", "__"))]
    if not found:
        raise GradingError(f"{folder} is empty: it should hold one folder (or zip) per person")
    return found


def read_submission(path: Path) -> Submission:
    """Read one submission; what cannot be read is left out, with a note."""
    name = printable(path.stem if path.suffix.lower() == ".zip" else path.name)
    try:
        return contents(name, source_of(path))
    # An archive can be damaged in more ways than zipfile has errors for.
    except Exception as error:
        return Submission(name, {}, frozenset(NAMES), (f"cannot be read: {words(error)}",))


def source_of(path: Path) -> Folder | Archive:
    """How an entry of the room's folder is read."""
    if path.is_symlink():
        raise UnreadableError("it is a link")
    if path.is_dir():
        return Folder(path)
    if not path.is_file() or path.suffix.lower() != ".zip":
        raise UnreadableError("it is neither a folder nor a zip archive")
    if path.stat().st_size > LARGEST_ARCHIVE:
        raise UnreadableError(f"it is larger than {LARGEST_ARCHIVE // 2**20} MiB")
    return Archive(path)


def contents(name: str, source: Folder | Archive) -> Submission:
    """The lessons' files that a folder or an archive holds."""
    names = sorted(source.names())[: MOST_FILES * len(NAMES)]
    root = lessons_root(names)
    if root is None:
        raise UnreadableError("it holds no file of a lesson")
    wanted = [each for each in names if each.is_relative_to(root) and lesson_of(each, root)]
    files, unreadable, notes = {}, set(), []
    for path in wanted[:MOST_FILES]:
        place = path.relative_to(root)
        try:
            files[place] = like_the_stub(place, source.read(path))
        except Exception as error:
            unreadable.add(lesson_of(place) or "")
            notes.append(f"{printable(str(path))} was left out: {words(error)}")
    return Submission(name, files, frozenset(unreadable), tuple(notes))


def words(error: Exception) -> str:
    return printable(str(error) or type(error).__name__)


def like_the_stub(path: PurePosixPath, data: bytes) -> bytes:
    """The bytes handed in; a stub that an editor saved with other line ends is a stub again."""
    plain = data.removeprefix(BYTE_ORDER_MARK).replace(b"\r\n", b"\n")
    return plain if plain == pristine().get(path) else data


def lessons_root(names: list[PurePosixPath]) -> PurePosixPath | None:
    """The folder in which a submission's lessons lie, or ``None`` where there are none.

    A clone of the whole repository holds files of the same names elsewhere; ``lessons`` wins.
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
        for folder, folders, files in os.walk(self.path, onerror=self.refuse):
            here = PurePosixPath(Path(folder).relative_to(self.path).as_posix())
            deep = len(here.parts) >= DEEPEST - 1
            folders[:] = [] if deep else [each for each in folders if not each.startswith(".")]
            yield from (here / file for file in files if file.endswith(".py"))

    def refuse(self, error: OSError) -> None:
        raise error

    def read(self, path: PurePosixPath) -> bytes:
        """A file's bytes.

        Raises:
            UnreadableError: it is a link, no regular file, or too large.
        """
        file = self.path / path
        if any(each.is_symlink() for each in (file, *file.parents[: len(path.parts) - 1])):
            raise UnreadableError("it is a link")
        if not file.is_file():
            raise UnreadableError("it is no regular file")
        with file.open("rb") as stream:
            return limited(stream.read(LARGEST_FILE + 1))


class Archive:
    """A submission that is a zip archive; nothing is unpacked to the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> Iterator[PurePosixPath]:
        """The Python files inside; Windows may have spelt their folders with backslashes."""
        with zipfile.ZipFile(self.path) as archive:
            self.members = {spelt(each.filename): each for each in archive.infolist()}
        for path in self.members:
            inside = not path.is_absolute() and ".." not in path.parts
            if inside and path.suffix == ".py" and len(path.parts) <= DEEPEST:
                yield path

    def read(self, path: PurePosixPath) -> bytes:
        with zipfile.ZipFile(self.path) as archive, archive.open(self.members[path]) as stream:
            return limited(stream.read(LARGEST_FILE + 1))


def spelt(name: str) -> PurePosixPath:
    return PurePosixPath(name.replace("\\", "/"))


def limited(data: bytes) -> bytes:
    if len(data) > LARGEST_FILE:
        raise UnreadableError(f"it is larger than {LARGEST_FILE // 1024} KiB")
    return data


@cache
def pristine() -> dict[PurePosixPath, bytes]:
    """The instructor's own stubs, as bytes."""
    return {PurePosixPath(path): text.encode() for path, text in stubs().items()}


def stage(submission: Submission, folder: Path) -> None:
    """Write a folder of lessons to judge: the instructor's stubs, the submission's files on top."""
    handed_in = {lesson_of(path) for path in submission.files}
    packages = {path.parts[0] for path in submission.files if len(path.parts) > 1}
    own = {
        path: data
        for path, data in pristine().items()
        # The steps that a lesson of several files came without are stubs, too.
        if lesson_of(path) not in handed_in or path.parts[0] in packages
    }
    for path, data in {**own, **submission.files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def printable(text: str) -> str:
    """A name without control characters, of a bearable length, in Unicode that can be encoded."""
    text = os.fsencode(text).decode("utf-8", "replace")
    shown = "".join("�" if unicodedata.category(each)[0] == "C" else each for each in text)
    return shown if len(shown) <= LONGEST_NAME else shown[: LONGEST_NAME - 1] + "…"
