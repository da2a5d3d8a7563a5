"""Where the files of a run lie: the judge prepares them, the worker fills them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Run:
    """The files of one run, in a folder of its own."""

    folder: Path

    @property
    def lessons(self) -> Path:
        return self.folder / "lessons"

    @property
    def events(self) -> Path:
        return self.folder / "events.jsonl"

    @property
    def hang(self) -> Path:
        """Where the frames are written when time is up."""
        return self.folder / "hang.txt"

    @property
    def crash(self) -> Path:
        """Where the frames are written on a fatal signal."""
        return self.folder / "crash.txt"

    @property
    def output(self) -> Path:
        return self.folder / "output.txt"

    @property
    def home(self) -> Path:
        return self.folder / "home"
