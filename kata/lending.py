"""Lend lessons that aren't written yet: ``lessons.X`` is the learner's, or the reference's.

Lessons import their siblings (``from .graph import Graph``). A sibling whose current code
hasn't been green is *lent*: the reference's core runs in its place, under its name, so that its own
imports find the learner's pieces.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from kata.completing import Completion
from kata.paths import CORES
from lessons import NAMES

PACKAGE = "lessons"


@contextlib.contextmanager
def only_these_modules(
    package: str, modules: dict[str, ModuleType]
) -> Iterator[Callable[[], dict[str, ModuleType]]]:
    """Let ``package.*`` in ``sys.modules`` be ``modules``, and restore it afterwards.

    Yields a function that returns what is there now.
    """
    before = present_modules(package)
    replace_modules(package, before, modules)
    try:
        yield lambda: present_modules(package)
    finally:
        replace_modules(package, present_modules(package), before)


def present_modules(package: str) -> dict[str, ModuleType]:
    """The modules below a package, at any depth: each is bound in the one above it.

    To look through all of ``sys.modules`` takes a millisecond, three times per test.
    """
    found: dict[str, ModuleType] = {}
    for name in [f"{package}.{name}" for name in vars(sys.modules[package])]:
        if name in sys.modules:
            found |= {name: sys.modules[name], **present_modules(name)}
    return found


def replace_modules(
    package: str, present: dict[str, ModuleType], wanted: dict[str, ModuleType]
) -> None:
    attributes = vars(sys.modules[package])
    for name in present:
        del sys.modules[name]
        attributes.pop(name.removeprefix(f"{package}."), None)
    for name, module in wanted.items():
        sys.modules[name] = module
        if name.rpartition(".")[0] == package:
            attributes[name.removeprefix(f"{package}.")] = module


@contextlib.contextmanager
def lending(folder: Path, own: str = "", yours: Collection[str] = ()) -> Iterator[LessonFinder]:
    """Let ``lessons.*`` be those in a folder, and lend what isn't the learner's."""
    finder = LessonFinder(own, folder, yours)
    with only_these_modules(PACKAGE, {}), finder.installed():
        yield finder


class LessonFinder(MetaPathFinder):
    """Find ``lessons.X`` in the learner's folder, or lend it from the reference.

    Args:
        own: The lesson that is judged: it is never lent.
        folder: The learner's folder.
        yours: The siblings that are the learner's.
        step: The step for which the lesson that is judged is completed; 0 for none.
    """

    def __init__(self, own: str, folder: Path, yours: Collection[str], step: int = 0) -> None:
        self.own = own
        self.folder = folder
        self.yours = yours
        self.step = step
        self.lent: list[str] = []  # lessons
        self.completed: list[str] = []  # functions of the judged lesson

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        package, _, inner = fullname.partition(".")
        if package != PACKAGE or not inner:
            return None
        if inner in NAMES and inner != self.own and inner not in self.yours:
            self.lent.append(inner)
            return spec_from_file_location(fullname, CORES / f"{inner}.py")
        source = self.folder / f"{inner}.py"
        if not source.exists():
            return None
        loader = FreshSource(fullname, str(source))
        if self.step and inner == self.own:
            loader = CompletedSource(fullname, str(source), self)
        return spec_from_file_location(fullname, source, loader=loader)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)


class FreshSource(SourceFileLoader):
    """Compile what the file holds now: cached bytecode misses a second save in one second."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


class CompletedSource(FreshSource):
    """Compile what the file holds, completed for one step."""

    def __init__(self, fullname: str, path: str, finder: LessonFinder) -> None:
        super().__init__(fullname, path)
        self.finder = finder

    def get_code(self, fullname: str) -> CodeType:
        completion = Completion(self.finder.own, self.get_data(self.path), self.finder.step)
        self.finder.completed = completion.lent
        return completion.code(self.path)
