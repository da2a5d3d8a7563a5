"""Where the learner's files lie, and where the runner keeps what it remembers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kata.stubs import ROOT, STUBS


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
