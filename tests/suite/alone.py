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
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import Connection
from types import FunctionType, ModuleType
from typing import Any, NoReturn
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import pytest
import torch
from _pytest.runner import runtestprotocol

from kata.failure_reasons import CAUSE
from tests.suite.expect import labelled
from tests.suite.plugin import LOADER, judged, lesson_of

SECONDS = 5
# Of these types exactly: a subclass could run code of its own when it is asked.
CONTAINERS = (dict, list, set, defaultdict, OrderedDict, Counter)
CONTAINERS += (WeakKeyDictionary, WeakSet, WeakValueDictionary)
CACHE = type(cache(id))
GREEN_ALONE = "alone, this test is green: an earlier test left something behind"
Sizes = dict[str, tuple[int, ...]]


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
        untouched: What the lessons' modules hold before the first test.
        keeps_state: Whether the first red test of a lesson was green in the copy. Where it wasn't,
            the lesson's other tests aren't asked for: that would take time for little.
    """

    config: pytest.Config
    items: list[pytest.Item] = field(default_factory=list)
    line: Connection | None = None
    untouched: Sizes = field(default_factory=dict)
    keeps_state: dict[str, bool] = field(default_factory=dict)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[None]:
        if self.config.option.collectonly:
            return (yield)
        self.items = session.items
        self.untouched = sizes(self.modules())
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

    def modules(self) -> Iterator[ModuleType]:
        """The lessons' modules, imported by now; an import that fails is the tests' to tell."""
        for lesson in dict.fromkeys(map(lesson_of, self.items)):
            with contextlib.suppress(BaseException):
                yield from self.config.stash[LOADER](lesson or "").modules.values()

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
                report.longrepr = "\n".join(told(str(report.longrepr), self.changed()))
        return report

    def changed(self) -> list[str]:
        """The names of what a lesson's modules and classes hold, as far as it has changed."""
        now = sizes(self.modules()).items()
        return [name for name, size in now if size != self.untouched.get(name)]

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


def told(text: str, changed: list[str]) -> Iterator[str]:
    """A failure's text, with its true cause in the place of what the test supposed."""
    for line in text.splitlines():
        if line.startswith((CAUSE, "note:", "try:")):
            break
        yield line
    names = ", ".join(f"`{name}`" for name in changed[:3])
    yield labelled("likely cause", GREEN_ALONE)
    if names:
        yield labelled("changed", f"{names} since the lesson was imported")
    yield labelled("try", "keep the state of a trace on an object of its own")


def sizes(modules: Iterable[ModuleType]) -> Sizes:
    """Return the objects that modules and their classes hold, with their sizes, by name."""
    found: Sizes = {}
    for module in modules:
        held = vars(module)
        classes = [each for each in held.values() if issubclass(type(each), type)]
        for cls in [each for each in classes if vars(each).get("__module__") == module.__name__]:
            held = held | {f"{cls.__name__}.{name}": value for name, value in vars(cls).items()}
        found |= {name: size(value) for name, value in held.items() if not name.endswith("__")}
    return found


def size(value: Any) -> tuple[int, ...]:
    """An object's identity, and how many elements it and its defaults have."""
    kind = type(value)
    if kind is FunctionType:
        defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        return (id(value), *(len(each) for each in defaults if type(each) in CONTAINERS))
    if kind is CACHE:
        return (id(value), value.cache_info().currsize)
    if kind is tuple:
        return (id(value), *(number for each in value for number in size(each)))
    return (id(value), len(value)) if kind in CONTAINERS else (id(value),)
