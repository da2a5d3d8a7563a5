"""Write what a run finds as it finds it: one JSON line per event, for the runner in ``kata``.

A line that is written stays, whatever the judged code does to its process next. The events:

- ``plan``: the tests in the order in which they run;
- ``lent``: the lesson is imported; these pieces came from the reference, and these it took;
- ``begin``: a test begins; a process that ends without another line died in it;
- ``report``: a test's outcome, and the text that its learner reads;
- ``finish``: pytest came to its own end, with its exit code.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import TextIO

import pytest
import torch

from kata.paths import CORES
from kata.steps import unwritten
from kata.stubs import stub
from tests.suite.plugin import LOADER, lesson_of
from tests.suite.scoreboard import content_of, sentence

# Whose code a learner's lesson may have taken.
OWNERS = {"the reference's own": CORES, "torch's own": Path(torch.__file__).parent}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--reports`` and ``--first``."""
    group = parser.getgroup("fx-kata")
    group.addoption("--reports", metavar="FILE", help="write one JSON line per event into FILE")
    group.addoption(
        "--first",
        metavar="NODEID",
        action="append",
        default=[],
        help="run this test before the others (may be given several times)",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where events are written: the core before the rest, and in each what is asked for first."""
    if not config.getoption("--reports"):
        return
    first = {nodeid: rank for rank, nodeid in enumerate(config.getoption("--first"))}
    items.sort(key=lambda item: (is_stretch(item), first.get(item.nodeid, len(first))))


def is_stretch(item: pytest.Item) -> bool:
    """Return whether a test asks for more than the core."""
    return any(item.get_closest_marker(name) for name in ("stretch", "beyond"))


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--reports")
    if file:
        # Opened once, before the judged code runs: it need not be opened again.
        out = Path(file).open("a", encoding="utf-8", buffering=1)
        config.pluginmanager.register(Events(out, config), "fx-kata-events")


@dataclass(frozen=True)
class Events:
    """The plugin of one run: it appends its events to a file."""

    out: TextIO
    config: pytest.Config

    def write(self, event: str, **content: object) -> None:
        self.out.write(json.dumps({"event": event, **content}) + "\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        tests = [
            {"nodeid": item.nodeid, "sentence": sentence(item), "is_stretch": is_stretch(item)}
            for item in session.items
        ]
        # Before the import, which is the learner's code already and may not come back.
        self.write("plan", tests=tests)
        self.write_provenance(session)

    def write_provenance(self, session: pytest.Session) -> None:
        lessons = {lesson_of(item) for item in session.items} - {None}
        lent, borrowed = self.provenance(sorted(filter(None, lessons)))
        self.write("lent", pieces=lent, borrowed=borrowed)

    def provenance(self, lessons: list[str]) -> tuple[list[str], list[str]]:
        """The pieces that the reference lends, and those that aren't the learner's own."""
        lent: set[str] = set()
        pieces: list[str] = []
        for lesson in lessons:
            # The lessons are imported to know them. An error is told by the tests, each of which
            # imports the lesson again.
            with contextlib.suppress(BaseException):
                implementation = self.config.stash[LOADER](lesson)
                lent.update(implementation.lent)
                pieces += of_other_steps(implementation.completed)
                pieces += borrowed(lesson, implementation.module, implementation.completed)
        return sorted(lent), pieces

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.write("begin", nodeid=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.write("report", **content_of(report))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        self.write_provenance(session)  # once more: a function may have imported a sibling
        self.write("finish", code=int(exitstatus))


def of_other_steps(lent: tuple[str, ...]) -> list[str]:
    """A line that names the functions that the reference lends for other steps, if it does."""
    return [f"of other steps, the reference's: {', '.join(lent)}"] if lent else []


def borrowed(lesson: str, module: ModuleType, lent: tuple[str, ...]) -> list[str]:
    """A line per owner, with the steps of the lesson that are the owner's, by whatever name."""
    found: dict[str, list[str]] = {}
    for step in unwritten(ast.parse(stub(lesson)).body):
        if step.name not in lent and (owner := owner_of(module, step.name)):
            found.setdefault(owner, []).append(step.name)
    return [f"{owner}: {', '.join(steps)}" for owner, steps in found.items()]


def owner_of(module: ModuleType, step: str) -> str:
    """Whose code a step runs, if it is somebody else's; empty if not, or if it isn't there."""
    try:
        function = inspect.unwrap(attrgetter(step)(module))
        file = Path(function.__code__.co_filename)
    except (AttributeError, ValueError):
        return ""
    return next((owner for owner, folder in OWNERS.items() if file.is_relative_to(folder)), "")
