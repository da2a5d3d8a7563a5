"""Write what a run finds as it finds it: one JSON line per event, for the runner in ``kata``.

A line that is written stays, even if the judged code then ends its process. The events:

- ``plan``: the tests in the order in which they run;
- ``pieces``: the lesson is imported; which pieces came from the reference, or are somebody else's;
- ``begin``: a test begins; a process that ends without another line died in it;
- ``report``: a test's outcome, and the text that its learner reads;
- ``finish``: pytest came to its own end, with its exit code.
"""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

import pytest
import torch

from kata.paths import CORES
from kata.steps import steps_of_functions
from kata.verdict import sentence_of
from tests.suite.explain import LONGEST_TEXT
from tests.suite.plugin import LOADER, is_stretch, lesson_of, order_of

# Whose code a learner's lesson may have taken.
OWNERS = {"the reference's own": CORES, "torch's own": Path(torch.__file__).parent}
PRINTED_LINES, PRINTED_WIDTH = 20, 200


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a run of the runner's, the core comes first."""
    if order_of(config):
        items.sort(key=is_stretch)


def pytest_configure(config: pytest.Config) -> None:
    if order := order_of(config):
        # Opened once, before the judged code runs: it need not be opened again.
        file = Path(order["folder"], "events.jsonl")
        out = file.open("a", encoding="utf-8", buffering=1)
        config.add_cleanup(out.close)
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
            {
                "nodeid": item.nodeid,
                "sentence": sentence_of(item.nodeid),
                "is_stretch": is_stretch(item),
            }
            for item in session.items
        ]
        # Before the import, which is the learner's code already and may not come back.
        self.write("plan", tests=tests)
        self.write_pieces(session)

    def write_pieces(self, session: pytest.Session) -> None:
        """Say which pieces the reference lends, and which aren't the learner's own."""
        lent: set[str] = set()
        borrowed: list[str] = []
        for lesson in {lesson_of(item) for item in session.items} - {None}:
            # The tests report an error of the import.
            with contextlib.suppress(BaseException):
                implementation = self.config.stash[LOADER](lesson)
                lent.update(implementation.lent)
                borrowed += taken(lesson, implementation.module, implementation.completed)
        self.write("pieces", lent=sorted(lent), borrowed=borrowed)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.write("begin", nodeid=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.write("report", **content_of(report))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        self.write_pieces(session)  # once more: a function may have imported a sibling
        self.write("finish", code=int(exitstatus))


def taken(lesson: str, module: ModuleType, lent: tuple[str, ...]) -> Iterator[str]:
    """A line per owner, with the functions of the lesson that are the owner's, by any name."""
    if lent:
        yield f"of other steps, the reference's: {', '.join(lent)}"
    owners = {
        name: owner_of(module, name) for name in steps_of_functions(lesson) if name not in lent
    }
    for owner in OWNERS:
        if names := [name for name, each in owners.items() if each == owner]:
            yield f"{owner}: {', '.join(names)}"


def owner_of(module: ModuleType, name: str) -> str:
    """Whose code a function runs, if it is somebody else's; empty if not, or if it isn't there."""
    try:
        function = inspect.unwrap(attrgetter(name)(module))
        file = Path(function.__code__.co_filename)
    except (AttributeError, ValueError):
        return ""
    return next((owner for owner, folder in OWNERS.items() if file.is_relative_to(folder)), "")


# --- one test


def content_of(report: pytest.TestReport) -> dict[str, Any]:
    """A test's report, as the runner keeps it."""
    is_todo = getattr(report, "todo", False)
    outcome = "todo" if is_todo else "failed" if report.failed else report.outcome
    return {
        "nodeid": report.nodeid,
        "sentence": sentence_of(report.nodeid),
        "outcome": outcome,
        "is_stretch": report.is_stretch,
        "text": text_of(report)[:LONGEST_TEXT],
        "printed": printed_end(report.capstdout),
        "title": getattr(report, "title", ""),
        "line": getattr(report, "line", 0),
    }


def text_of(report: pytest.TestReport) -> str:
    """The explanation of a failure, the reason for a skip, the task of a todo."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(report.longrepr or "")


def printed_end(printed: str) -> str:
    """The end of the output, however long it is."""
    lines = printed[-PRINTED_LINES * PRINTED_WIDTH :].splitlines()[-PRINTED_LINES:]
    return "\n".join(line[:PRINTED_WIDTH] for line in lines)
