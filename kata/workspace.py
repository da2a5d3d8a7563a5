"""A learner's files: where they lie, what is there, the pristine stubs, and what is remembered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kata.stubs import ROOT, STUBS, modules_of


@dataclass(frozen=True)
class Workspace:
    """A learner's folders.

    Attributes:
        lessons: the files the learner writes.
        memory: what the runner keeps: a copy per lesson, hints shown, results. git ignores it.
    """

    lessons: Path
    memory: Path


def shown(path: Path) -> str:
    """A path as the learner knows it: below the repository, where it lies there."""
    root = HERE.memory.parent
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


HERE = Workspace(STUBS, ROOT / ".kata")

# The files of a lesson by their paths below lessons/; what is missing there is missing here.
Files = dict[Path, bytes]


def yours(lesson: str) -> Files:
    """The lesson's files as they are now."""
    return files_in(HERE.lessons, lesson)


def pristine(lesson: str) -> Files:
    """The lesson's files as stubs of today's reference."""
    return {module.stub: module.stub_text(lesson).encode() for module in modules_of(lesson)}


def files_in(folder: Path, lesson: str) -> Files:
    """The lesson's files below a folder."""
    stubs = [module.stub for module in modules_of(lesson)]
    return {stub: (folder / stub).read_bytes() for stub in stubs if (folder / stub).is_file()}


def put(lesson: str, files: Files) -> list[Path]:
    """Make the lesson's files be ``files``; return the paths that were written or removed."""
    present = yours(lesson)
    changed = [path for path in {**present, **files} if present.get(path) != files.get(path)]
    for path in changed:
        target = HERE.lessons / path
        if path in files:
            write(target, files[path])
        else:
            target.unlink()
    return changed


def write(target: Path, content: bytes) -> None:
    """Write a file, and the folders that it needs."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
