"""Several lessons together, under one roof: the finale has those of the engine, and the chain.

The pieces import one another, so there is nothing to put together but their names.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from kata.lending import PACKAGE, LessonFinder, only_these_modules
from kata.paths import CORES, SOLUTIONS
from lessons import CHAIN, FINALE, TOGETHER
from tests.suite.implementations import Implementation, core_of, reference_of, star_import


def core(name: str) -> Implementation:
    """The pieces of the reference's cores."""
    return Implementation(name, CORES, joined(map(core_of, TOGETHER[name].needs)))


def engine() -> Implementation:
    """The whole reference's own engine; what its module leaves out is in the lessons' own."""
    pieces = joined(map(reference_of, FINALE.needs))
    # Imported late: learners are judged without `solutions`.
    vars(pieces).update(vars(star_import(importlib.import_module("solutions.stretch.engine"))))
    return Implementation(FINALE.name, SOLUTIONS, pieces)


def learners(name: str, folder: Path, yours: Collection[str]) -> Implementation:
    """The lessons in ``folder``: the finale waits for all of them, the chain is lent the others."""
    implementation, needs = Implementation(name, folder), TOGETHER[name].needs
    missing = [each for each in needs if each not in yours]
    if missing and name != CHAIN.name:
        words = f"{name}: write {', '.join(missing)} first"
        implementation.error = NotImplementedError(words)
        return implementation
    implementation.finder = LessonFinder("", folder, yours)
    with only_these_modules(PACKAGE, {}) as modules, implementation.finder.installed():
        try:
            pieces = (importlib.import_module(f"{PACKAGE}.{each}") for each in needs)
            implementation.module = joined(pieces)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a lesson may end Python, or skip its test
            implementation.error, implementation.traceback = error, error.__traceback__
        implementation.modules = modules()
    return implementation


def joined(pieces: Iterable[ModuleType]) -> Any:
    """Return a module with the classes and functions that the pieces define themselves."""
    together = ModuleType(FINALE.name)
    for piece in pieces:
        own = {
            name: value
            for name, value in vars(piece).items()
            if getattr(value, "__module__", "").startswith(piece.__name__)
        }
        vars(together).update(own)
    return together
