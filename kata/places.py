"""Where the learner's files lie, and where the runner keeps what it remembers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kata.stubs import ROOT, STUBS


@dataclass(frozen=True)
class Place:
    """A learner's folders.

    Attributes:
        lessons: the files the learner writes.
        memory: what the runner keeps: copies, hints shown, results. No git, no editor looks here.
    """

    lessons: Path
    memory: Path


HERE = Place(STUBS, ROOT / ".kata")
