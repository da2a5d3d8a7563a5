"""The finale: the pieces of all lessons as one engine, with nothing of ``torch.fx`` in it.

Lessons import from ``torch.fx`` what they don't write themselves. Here each is imported once more,
in the order of the course, and finds the pieces written before it under torch's names.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from unittest import mock

from kata import layers
from kata.lending import PACKAGE, LessonFinder, is_written, only_these_modules
from kata.stubs import CORES, SOLUTIONS
from lessons import FINALE
from tests.suite.implementations import Implementation

REPLACED = ("", ".proxy", ".node", ".graph", ".graph_module", ".interpreter", "._lazy_graph_module")


class Replaced(ModuleType):
    """A module of ``torch.fx`` in which names can be replaced; the others are torch's."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.original = importlib.import_module(name)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.original, name)

    def replace(self, piece: ModuleType) -> None:
        """Let the classes and functions of a lesson stand for torch's of the same names."""
        package = piece.__name__.partition(".")[0]
        for name, value in vars(piece).items():
            is_own = getattr(value, "__module__", "").partition(".")[0] == package
            if is_own and hasattr(self.original, name):
                setattr(self, name, value)
            if is_own and name == "GraphModule":
                self._make_graph_module = value  # torch's chooses whether code is compiled lazily


def core() -> Implementation:
    """The engine of the reference's cores."""
    return assembled(Implementation(FINALE.name, CORES, package="solutions"), layers.core)


def reference() -> Implementation:
    """The engine of the whole reference."""
    return assembled(Implementation(FINALE.name, SOLUTIONS, package="solutions"), layers.reference)


def learners(folder: Path) -> Implementation:
    """The engine of the lessons in ``folder``: nothing is lent, so it waits for all of them."""
    implementation = Implementation(FINALE.name, folder)
    missing = [name for name in FINALE.needs if not is_written(name, folder)]
    if missing:
        words = f"{FINALE.name}: write {', '.join(missing)} first"
        implementation.error = NotImplementedError(words)
        return implementation
    with LessonFinder("", folder).installed():
        return assembled(implementation, lambda name: importlib.import_module(f"{PACKAGE}.{name}"))


def assembled(implementation: Implementation, load: Callable[[str], ModuleType]) -> Implementation:
    """Import the pieces; the engine has the public names of them all."""
    importlib.import_module(implementation.package)
    for name in FINALE.needs:
        layers.core(name)  # so that what torch imports on the way finds torch's own names
    engine = ModuleType(FINALE.name)
    with only_these_modules(implementation.package, {}) as modules, replaceable() as replaced:
        try:
            for name in FINALE.needs:
                piece = load(name)
                vars(engine).update(public_names(piece))
                for module in replaced:
                    module.replace(piece)
            implementation.module = engine
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a lesson may end Python, or skip its test
            implementation.error, implementation.traceback = error, error.__traceback__
        implementation.modules = modules()
    return implementation


@contextlib.contextmanager
def replaceable() -> Iterator[list[Replaced]]:
    """Let imports from ``torch.fx`` find modules in which names can be replaced."""
    modules = {f"torch.fx{name}": Replaced(f"torch.fx{name}") for name in REPLACED}
    with mock.patch.dict(sys.modules, modules):
        yield list(modules.values())


def public_names(piece: ModuleType) -> dict[str, object]:
    return {name: value for name, value in vars(piece).items() if not name.startswith("_")}
