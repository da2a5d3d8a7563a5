"""Run a red test once more on a fresh import of its lesson: an earlier test may have left state.

A class attribute that keeps the paths of another model turns test after test red, each with a cause
that isn't the mistake. If such a test is green on its own, its failure says so.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from _pytest.runner import runtestprotocol

from kata.verdict import CAUSE
from tests.suite.expect import labelled
from tests.suite.plugin import LOADER, SUBJECT, lesson_of

# A test that took longer isn't run again, nor one whose error may not come twice: torch gives some
# warnings only once, and here a warning is an error.
SECONDS = 5
ONCE = "MemoryError", "Warning: "
GREEN_ALONE = "alone, this test is green: an earlier test left something behind"
HINT = "look for what a class, a module, a default or a cache keeps; keep it on an object instead"


def pytest_configure(config: pytest.Config) -> None:
    if config.stash[SUBJECT].is_learners:
        config.pluginmanager.register(Again(), "fx-kata-again")


class Again:
    """The plugin of one run.

    Attributes:
        begun: The lessons of which a test has run.
        keeps_state: Whether the first red test of a lesson was green on its own. If it wasn't, the
            lesson's other tests aren't run again: that would take time for little.
    """

    def __init__(self) -> None:
        self.begun: set[str] = set()
        self.keeps_state: dict[str, bool] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        red = next((each for each in reports if each.failed), None)
        if red and self.may_be_green_alone(item, red) and self.is_green_alone(item, nextitem):
            red.longrepr = "\n".join(without_cause(str(red.longrepr)))
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def may_be_green_alone(self, item: pytest.Item, red: pytest.TestReport) -> bool:
        lesson = lesson_of(item) or ""
        may_be = self.keeps_state.get(lesson, True) and lesson in self.begun
        is_once = any(words in str(red.longrepr) for words in ONCE)
        return may_be and not is_once and red.duration < SECONDS and not hasattr(red, "title")

    def is_green_alone(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test again, on a fresh import of the lesson."""
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        loaded = item.config.stash[LOADER]
        item.config.stash[LOADER] = item.config.stash[SUBJECT].loader()
        try:
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
        finally:
            item.config.stash[LOADER] = loaded
        is_green = all(report.passed for report in reports)
        self.keeps_state.setdefault(lesson_of(item) or "", is_green)
        return is_green

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.begun.add(nodeid.partition("test_")[2].partition(".py")[0])


def without_cause(text: str) -> Iterator[str]:
    """A failure's text, with its true cause in the place of what the test supposed."""
    for line in text.splitlines():
        if line.startswith((CAUSE, "note:", "try:")):
            break
        yield line
    yield labelled("likely cause", GREEN_ALONE)
    yield labelled("try", HINT)
