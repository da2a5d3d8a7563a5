"""Run the first red test once more, alone, so that state an earlier test left is told as such.

A class attribute that keeps the paths of another model makes test after test red, each with a cause
that isn't the mistake. So this process is copied before the first test. A test that fails is run in
the copy too, where no test ran before; where it is green there, that is what its failure says.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import NoReturn

import pytest
import torch
from _pytest.runner import runtestprotocol

from kata.verdict import CAUSE
from tests.suite.expect import labelled
from tests.suite.plugin import LOADER, judged, lesson_of

SECONDS = 5
GREEN_ALONE = "alone, this test is green: an earlier test left something behind"


def pytest_configure(config: pytest.Config) -> None:
    # Elsewhere a process that has threads can't be relied on once it is copied.
    if judged(config).is_learners and sys.platform == "linux":
        config.pluginmanager.register(Again(config), "fx-kata-again")


@dataclass
class Again:
    """The plugin of one run.

    Attributes:
        config: Pytest's.
        items: The tests.
        line: Leads to the copy of this process; ``None`` in the copy itself.
        keeps_state: Whether the first red test of a lesson was green in the copy. Where it wasn't,
            the lesson's other tests aren't asked for: that would take time for little.
    """

    config: pytest.Config
    items: list[pytest.Item] = field(default_factory=list)
    line: Connection | None = None
    keeps_state: dict[str, bool] = field(default_factory=dict)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[None]:
        if self.config.option.collectonly:
            return (yield)
        self.items = session.items
        self.import_lessons()
        self.line, theirs = multiprocessing.Pipe()
        pid = os.fork()
        if not pid:
            self.line = None
            self.serve(theirs)
        try:
            return (yield)
        finally:
            with contextlib.suppress(OSError):
                self.line.send(None)
                os.waitpid(pid, 0)

    def import_lessons(self) -> None:
        """Import the lessons before the copy is made; a failure is reported by the tests."""
        for lesson in dict.fromkeys(map(lesson_of, self.items)):
            with contextlib.suppress(BaseException):
                self.config.stash[LOADER](lesson or "")

    def serve(self, line: Connection) -> NoReturn:
        """Run the tests that are asked for, each in a process of its own, until none is."""
        try:
            while (number := line.recv()) is not None:
                if not os.fork():
                    os._exit(not is_green(self.items[number]))
                line.send(os.wait()[1] == 0)
        finally:
            os._exit(0)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[pytest.TestReport]:
        report: pytest.TestReport = yield
        lesson = lesson_of(item) or ""
        if report.failed and not hasattr(report, "title") and self.keeps_state.get(lesson, True):
            is_green = self.is_green_alone(item)
            self.keeps_state.setdefault(lesson, is_green)
            if is_green:
                report.longrepr = "\n".join(told(str(report.longrepr)))
        return report

    def is_green_alone(self, item: pytest.Item) -> bool:
        """Ask the copy; one that is gone doesn't answer."""
        with contextlib.suppress(OSError, EOFError):
            if self.line:
                self.line.send(self.items.index(item))
                return bool(self.line.recv())
        return False


def is_green(item: pytest.Item) -> bool:
    """Run a test here, without a terminal and for a few seconds at most."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    signal.alarm(SECONDS)
    torch.set_num_threads(1)
    return all(report.passed for report in runtestprotocol(item, log=False, nextitem=None))


def told(text: str) -> Iterator[str]:
    """A failure's text, with its true cause in the place of what the test supposed."""
    for line in text.splitlines():
        if line.startswith((CAUSE, "note:", "try:")):
            break
        yield line
    yield labelled("likely cause", GREEN_ALONE)
    hint = (
        "look for what a class, a module, a default or a cache keeps; keep it on an object instead"
    )
    yield labelled("try", hint)
