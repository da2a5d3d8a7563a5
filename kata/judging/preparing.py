"""What a lesson's tests take long to make, and no lesson changes, is made between the runs.

A test module says so with a function ``prepare``: a generator that makes one thing a step, which
the module then keeps for itself.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

NOTHING = object()


class Preparations:
    """A pytest plugin that finds the test modules' ``prepare`` at collection.

    Attributes:
        found: the steps for lessons that nobody has judged yet.
        begun: those that are left for lessons that were judged, which are worth the time.
    """

    def __init__(self) -> None:
        self.found: dict[str, Iterator[object]] = {}
        self.begun: dict[str, Iterator[object]] = {}

    def pytest_collection_finish(self, session: Any) -> None:
        for module in {item.module for item in session.items if hasattr(item, "module")}:
            prepare = getattr(module, "prepare", None)
            if prepare is not None:
                self.found[module.__name__.rpartition("test_")[2]] = prepare()

    def begin(self, lesson: str) -> None:
        """Take up what a lesson's tests want; for its second run all of it has to be there."""
        if lesson in self.found:
            self.begun[lesson] = self.found.pop(lesson)
        elif lesson in self.begun:
            for _ in self.begun[lesson]:
                pass
            self.end(lesson)

    def step(self) -> bool:
        """Make one thing, and return whether there is more to make."""
        if self.begun:
            lesson, steps = next(iter(self.begun.items()))
            if next(steps, NOTHING) is NOTHING:
                self.end(lesson)
        return bool(self.begun)

    def end(self, lesson: str) -> None:
        del self.begun[lesson]
        gc.freeze()  # the children's collector need not look at what was made
