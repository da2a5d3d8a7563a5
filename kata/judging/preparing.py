"""What a lesson's tests take long to make, and no lesson changes, is made between the runs.

A test module says so with a function ``prepare``: a generator that makes one thing a step, which
the module then keeps for itself.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any


class Preparations:
    """A pytest plugin that finds the test modules' ``prepare`` at collection.

    Attributes:
        found: the steps that are left, by lesson.
        begun: those of the lessons that were judged, which are worth the time.
    """

    def __init__(self) -> None:
        self.found: dict[str, Iterator[None]] = {}
        self.begun: list[Iterator[None]] = []

    def pytest_collection_finish(self, session: Any) -> None:
        for module in {item.module for item in session.items if hasattr(item, "module")}:
            prepare = getattr(module, "prepare", None)
            if prepare is not None:
                self.found[module.__name__.rpartition("test_")[2]] = prepare()

    def begin(self, lesson: str) -> None:
        """Take up what a lesson's tests want; for its second run it has to be there."""
        if lesson in self.found:
            self.begun.append(self.found.pop(lesson))
        else:
            self.finish()

    def finish(self) -> None:
        while self.step():
            pass

    def step(self) -> bool:
        """Make one thing, and return whether there is more to make."""
        if not self.begun:
            return False
        if next(self.begun[0], self) is self:
            del self.begun[0]
            gc.freeze()  # the children's collector need not look at it
        return bool(self.begun)
