"""A learner's files: where they lie, what is there, and where the runner remembers things."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kata.paths import ROOT, STUBS
from kata.stubs import is_stub
from lessons import TOGETHER


@dataclass(frozen=True)
class Workspace:
    """A learner's folders.

    Attributes:
        lessons: The files the learner writes.
        memory: What the runner keeps: a copy per lesson, hints shown, results. git ignores it.
    """

    lessons: Path
    memory: Path


HERE = Workspace(STUBS, ROOT / ".kata")


def shown(path: Path) -> str:
    """A path as the learner knows it: relative to the repository, if it is inside."""
    root = HERE.memory.parent
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def file_of(lesson: str) -> Path:
    return HERE.lessons / f"{lesson}.py"


def yours(lesson: str) -> bytes:
    """Return what the lesson's file holds now; nothing where it is missing."""
    file = file_of(lesson)
    return file.read_bytes() if file.is_file() else b""


def is_pristine(lesson: str) -> bool:
    """Return whether the lesson's file, or one that the finale or the chain needs, is a stub."""
    return bool(unwritten(lesson))


def unwritten(lesson: str) -> list[str]:
    """Return which of a lesson's files are their stubs: its own, or those that the finale needs."""
    files = TOGETHER[lesson].needs if lesson in TOGETHER else (lesson,)
    return [each for each in files if is_stub(each, yours(each))]


def write(target: Path, content: bytes) -> None:
    """Write a file, and the folders that it needs."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
