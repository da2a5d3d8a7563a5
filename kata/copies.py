"""A learner's files as bytes: what is there, the pristine stubs, and copies kept of yours.

No command writes over a file of yours without a copy. A copy is a folder
``.kata/copies/<lesson>/<number>-<time>-<why>/`` with the files as they lay in ``lessons/``. A file
that was missing is missing in the copy too, and again when the copy is restored.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from kata import places
from kata.stubs import modules_of

# The files of a lesson by their paths below lessons/; what is missing there is missing here.
Files = dict[Path, bytes]


class Copy(NamedTuple):
    """One kept copy of a lesson's files.

    Attributes:
        number: counted from 1; the latest has the highest.
        label: when it was made, and before what.
        files: the lesson's files as they were.
    """

    number: int
    label: str
    files: Files


def yours(lesson: str) -> Files:
    """The lesson's files as they are now."""
    return files_in(places.HERE.lessons, lesson)


def pristine(lesson: str) -> Files:
    """The lesson's files as stubs of today's reference."""
    return {module.stub: module.stub_text(lesson).encode() for module in modules_of(lesson)}


def files_in(folder: Path, lesson: str) -> Files:
    stubs = [module.stub for module in modules_of(lesson)]
    return {stub: (folder / stub).read_bytes() for stub in stubs if (folder / stub).is_file()}


def put(lesson: str, files: Files) -> list[Path]:
    """Make the lesson's files be ``files``; return the paths that were written or removed."""
    present = yours(lesson)
    changed = [path for path in {**present, **files} if present.get(path) != files.get(path)]
    for path in changed:
        target = places.HERE.lessons / path
        if path in files:
            write(target, files[path])
        else:
            target.unlink()
    return changed


def write(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


def keep(lesson: str, why: str) -> Path:
    """Keep a copy of the lesson's files as they are now; return its folder."""
    folder = new_folder(lesson, why)
    for path, content in yours(lesson).items():
        write(folder / path, content)
    return folder


def new_folder(lesson: str, why: str) -> Path:
    """Make the folder of the next copy; another process may be making one too."""
    number = max((copy.number for copy in copies_of(lesson)), default=0)
    while True:
        number += 1
        name = f"{number:04}-{time.strftime('%Y-%m-%d-%H%M%S')}-{why}"
        try:
            (folder_of(lesson) / name).mkdir(parents=True)
        except FileExistsError:
            continue
        return folder_of(lesson) / name


def copies_of(lesson: str) -> list[Copy]:
    """The copies kept of a lesson, the latest first."""
    folders = folder_of(lesson).glob("[0-9]*-*")
    return sorted((read_copy(folder, lesson) for folder in folders), reverse=True)


def read_copy(folder: Path, lesson: str) -> Copy:
    number, _, label = folder.name.partition("-")
    return Copy(int(number), label, files_in(folder, lesson))


def folder_of(lesson: str) -> Path:
    return places.HERE.memory / "copies" / lesson
