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
        steps: What is left to make, by lesson.
        begun: The lessons that were judged: for these it is worth the time.
    """

    def __init__(self) -> None:
        self.steps: dict[str, Iterator[object]] = {}
        self.begun: set[str] = set()

    def pytest_collection_finish(self, session: Any) -> None:
        for module in {item.module for item in session.items if hasattr(item, "module")}:
            if hasattr(module, "prepare"):
                self.steps[module.__name__.rpartition("test_")[2]] = module.prepare()

    def begin(self, lesson: str) -> None:
        """Take up what a lesson's tests want. A run doesn't wait for it: it makes what it lacks."""
        self.begun.add(lesson)

    def step(self) -> bool:
        """Make one thing for a lesson that was judged, and return whether there was any."""
        return any(map(self.make, self.begun))

    def make(self, lesson: str) -> bool:
        made = next(self.steps.get(lesson, iter(())), NOTHING) is not NOTHING
        if made:
            gc.freeze()  # the children's collector need not look at these objects
        return made
