"""What is asked of a run: which lesson, whose files, which tests, how much time and memory."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kata.stubs import STUBS

GIGABYTE = 2**30


@dataclass(frozen=True)
class Request:
    """One run of one lesson's tests.

    Attributes:
        lesson: the lesson's name.
        folder: where the lessons to judge lie; a copy of it is judged.
        marks: pytest's ``-m``: which tests run.
        first: node ids of tests to run before the others.
        options: further words for pytest's command line.
        seconds: how long a test may take, or the import of the lesson.
        total: how long the whole run may take; ``None`` for as long as its tests do.
        memory: how many bytes the run may take beyond what torch takes; 0 for no limit.
    """

    lesson: str
    folder: Path = STUBS
    marks: str = "not slow"
    first: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    seconds: float = 10.0
    total: float | None = None
    memory: int = 4 * GIGABYTE

    def on(self, folder: Path) -> Request:
        """The same request on another folder."""
        return replace(self, folder=folder)

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "folder": str(self.folder)})

    @classmethod
    def from_json(cls, text: str) -> Request:
        content = json.loads(text)
        content["folder"] = Path(content["folder"])
        content.update({name: tuple(content[name]) for name in ("first", "options")})
        return cls(**content)
