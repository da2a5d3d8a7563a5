"""What is asked of a run: which lesson, whose files, which tests, within which limits."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from kata.paths import STUBS

GIGABYTE = 2**30


@dataclass(frozen=True)
class Request:
    """One run of one lesson's tests.

    Attributes:
        lesson: The lesson's name.
        folder: Where the lessons to judge are; a copy of it is judged.
        yours: The siblings that the lesson is judged with; the reference lends the others. ``None``
            for all that have been written.
        marks: Pytest's ``-m``: which tests run.
        first: Node ids of tests to run before the others.
        step: The number of the step whose tests alone run; 0 for all of them.
        seconds: How long a test, or the import of the lesson, may compute or wait.
        total: How long the whole run may compute; ``None`` for as long as its tests do.
        memory: How many bytes the run may take beyond what torch takes; 0 for no limit.
        may_execute: Whether the run may start programs.
        kernels: A folder for what it compiles, shared with other runs of the same person; ``None``
            for one of its own.
    """

    lesson: str
    folder: Path = STUBS
    yours: tuple[str, ...] | None = None
    marks: str = "not slow"
    first: tuple[str, ...] = ()
    step: int = 0
    seconds: float = 10.0
    total: float | None = None
    memory: int = 4 * GIGABYTE
    may_execute: bool = True
    kernels: Path | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Request:
        content = json.loads(text)
        content.update(folder=Path(content["folder"]), first=tuple(content["first"]))
        content["kernels"] = content["kernels"] and Path(content["kernels"])
        content["yours"] = None if content["yours"] is None else tuple(content["yours"])
        return cls(**content)


class RunFiles:
    """The files of one run, in a folder of its own: the judge prepares them, the worker fills them.

    Attributes:
        folder: Holds all of them, and is all that the run may write to.
        lessons: A copy of the lessons.
        events: A line of JSON per event.
        frames: Where the code was when time was up, or on a fatal signal.
        output: What the code wrote outside of the tests.
        home: Its home and its temporary files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lessons = folder / "lessons"
        self.events = folder / "events.jsonl"
        self.frames = folder / "frames.txt"
        self.output = folder / "output.txt"
        self.home = folder / "home"
