"""Find what each participant handed in: the lessons' own files, and nothing else of the folder.

A submission is a folder, or a zip archive of one. The lessons are in it directly or under
``lessons/``, at most one folder deeper. Only files that are called like a lesson are read, so a
submission's ``tests/``, ``conftest.py``, ``solutions/`` or ``pytest.ini`` never reaches a run.

Whatever is wrong with a submission is that person's alone: it has a row, and its note says why.

A flag names a file or a line that an instructor should look at. It isn't a verdict.
"""

from __future__ import annotations

import ast
import os
import re
import unicodedata
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from kata.arguments import UsageError
from kata.paths import CORES
from kata.stubs import is_stub
from lessons import NAMES

LARGEST_FILE = 512 * 1024
LARGEST_ARCHIVE = 64 * 2**20
DEEPEST = 4
LONGEST_NAME = 100
MOST_FLAGS = 20
# A sentence may speak of solutions; an import, or a path, has a word right after it.
REFERENCE = re.compile(r"import solutions|\bsolutions[./]\w|['\"]solutions['\"]")
# Folders of the repository whose files have the names of lessons.
OTHER_ROOMS = {"given", "solutions", "tests", "docs", "examples"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
Opener = Callable[[], IO[bytes]]
# A folder or an archive: what opens each of its files, by the path in it.
Members = dict[PurePosixPath, Opener]


class UnreadableError(Exception):
    """A submission, or a file in it, cannot be read; the message says why."""


@dataclass(frozen=True)
class Submission:
    """What one participant handed in.

    Attributes:
        name: The folder's or the archive's name, made printable.
        files: What the lessons' files hold, by lesson.
        unreadable: The lessons whose file cannot be read.
        notes: Files that were left out, and why.
    """

    name: str
    files: dict[str, bytes]
    unreadable: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    def is_touched(self, lesson: str) -> bool:
        """Return whether there is a file of the lesson, and it isn't the stub."""
        return lesson in self.files and not is_stub(lesson, self.files[lesson])


def find_submissions(folder: Path) -> list[Submission]:
    """Read every submission in the folder, in the order of their names."""
    if not folder.is_dir():
        raise UsageError(f"{folder} isn't a folder: name one with a folder per person")
    entries = sorted(folder.resolve().iterdir(), key=lambda path: path.name.casefold())
    found = [read_submission(path) for path in entries if not path.name.startswith((".", "__"))]
    if not found:
        raise UsageError(f"{folder} is empty: it should hold one folder (or zip) per person")
    return found


def read_submission(path: Path) -> Submission:
    """Read one submission; what cannot be read is left out, with a note."""
    name = printable(path.stem if path.suffix.lower() == ".zip" else path.name)
    try:
        return contents(name, members_of(path))
    # An archive can be damaged in more ways than zipfile has errors for.
    except Exception as error:
        return Submission(name, {}, frozenset(NAMES), (f"cannot be read: {words(error)}",))


def members_of(path: Path) -> Members:
    """The files in an entry of the folder, if it is one that can be read."""
    if path.is_symlink():
        raise UnreadableError("it is a link")
    if path.is_dir():
        return dict(in_folder(path))
    if not path.is_file() or path.suffix.lower() != ".zip":
        raise UnreadableError("it is neither a folder nor a zip archive")
    if path.stat().st_size > LARGEST_ARCHIVE:
        raise UnreadableError(f"it is larger than {LARGEST_ARCHIVE // 2**20} MiB")
    return dict(in_archive(zipfile.ZipFile(path)))


def in_folder(top: Path) -> Iterator[tuple[PurePosixPath, Opener]]:
    """The files at most a few folders deep; hidden folders and links aren't entered."""
    for folder, folders, files in os.walk(top, onerror=refuse):
        here = PurePosixPath(Path(folder).relative_to(top).as_posix())
        deep = len(here.parts) >= DEEPEST - 1
        folders[:] = [] if deep else [each for each in folders if not each.startswith(".")]
        yield from ((here / file, partial(regular, Path(folder, file))) for file in files)


def refuse(error: OSError) -> None:
    raise error


def regular(file: Path) -> IO[bytes]:
    """Open a file that is one: no link, no pipe."""
    if file.is_symlink():
        raise UnreadableError("it is a link")
    if not file.is_file():
        raise UnreadableError("it isn't a regular file")
    return file.open("rb")


def in_archive(archive: zipfile.ZipFile) -> Iterator[tuple[PurePosixPath, Opener]]:
    """The files inside; Windows may have spelt their folders with backslashes."""
    for member in archive.infolist():
        path = PurePosixPath(member.filename.replace("\\", "/"))
        if not path.is_absolute() and ".." not in path.parts and len(path.parts) <= DEEPEST:
            yield path, partial(archive.open, member)


def contents(name: str, members: Members) -> Submission:
    """The lessons' files that a folder or an archive holds."""
    root = lessons_root(sorted(members))
    files, unreadable, notes = {}, set(), []
    for path in sorted(members):
        if path.parent == root and is_lesson(path):
            try:
                files[path.stem] = limited(members[path])
            except Exception as error:
                unreadable.add(path.stem)
                notes.append(f"{printable(str(path))} was left out: {words(error)}")
    return Submission(name, files, frozenset(unreadable), tuple(notes))


def is_lesson(path: PurePosixPath) -> bool:
    return path.suffix == ".py" and path.stem in NAMES


def lessons_root(paths: list[PurePosixPath]) -> PurePosixPath:
    """The folder with a submission's lessons.

    A clone of the whole repository holds files of the same names elsewhere; ``lessons`` wins.
    """
    files = filter(is_lesson, paths)
    own = [path.parent for path in files if not OTHER_ROOMS & {*path.parts}]
    near = [root for root in own if len(root.parts) <= 1 or root.name == "lessons"]
    if not near:
        held = ", ".join(map(str, paths)) or "nothing"
        raise UnreadableError(f"no lesson's file is where it belongs; it holds {held}")
    return min(near, key=lambda root: (root.name != "lessons", len(root.parts), root))


def limited(opened: Opener) -> bytes:
    """Return what a file holds, if that isn't too much."""
    with opened() as stream:
        data = stream.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise UnreadableError(f"it is larger than {LARGEST_FILE // 1024} KiB")
    return data


def words(error: Exception) -> str:
    return printable(str(error) or type(error).__name__)


def printable(text: str) -> str:
    """A name without control characters, of a bearable length, in Unicode that can be encoded."""
    text = os.fsencode(text).decode("utf-8", "replace")
    shown = "".join("�" if unicodedata.category(each)[0] == "C" else each for each in text)
    return shown if len(shown) <= LONGEST_NAME else shown[: LONGEST_NAME - 1] + "…"


def flags_of(submissions: list[Submission]) -> list[list[str]]:
    """Return for each submission where it takes or is the reference, and its equal files."""
    equal = equal_files(submissions)
    return [
        [*lines_of(submission), *copies_in(submission), *equal[number]][:MOST_FLAGS]
        for number, submission in enumerate(submissions)
    ]


def lines_of(submission: Submission) -> Iterator[str]:
    """The lines that take the reference."""
    for lesson, data in sorted(submission.files.items()):
        for number, line in enumerate(data.decode(errors="replace").splitlines(), start=1):
            if REFERENCE.search(line):
                yield f"lessons/{lesson}.py:{number}: the reference"


def copies_in(submission: Submission) -> Iterator[str]:
    """The files that are the reference, apart from comments, docstrings and layout."""
    for lesson, data in sorted(submission.files.items()):
        if meaning(data) == meaning((CORES / f"{lesson}.py").read_bytes()):
            yield f"lessons/{lesson}.py: the same as the reference"


def equal_files(submissions: list[Submission]) -> dict[int, list[str]]:
    """For each submission, by its position, the files that somebody else has handed in as well."""
    holders: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, submission in enumerate(submissions):
        for lesson, data in submission.files.items():
            if not is_stub(lesson, data):
                holders[lesson, meaning(data)].append(number)
    found: dict[int, list[str]] = defaultdict(list)
    for (lesson, _), numbers in holders.items():
        for number in numbers if len(numbers) > 1 else ():
            others = ", ".join(submissions[other].name for other in numbers if other != number)
            found[number].append(f"lessons/{lesson}.py: the same as that of {others}")
    return found


def meaning(data: bytes) -> str:
    """Return a file's syntax tree without its docstrings, or else its text."""
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(data)
        for node in ast.walk(tree):
            if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
                del node.body[0]
        return ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return data.decode(errors="replace")
