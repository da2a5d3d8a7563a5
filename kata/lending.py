"""Lend what isn't written yet: ``lessons.X`` from the learner's folder, or from ``solutions/``.

Lessons import their siblings (``from .create_arg import CreateArg``). While yours run, a sibling
that is still its pristine stub, or that Python cannot compile, is *lent*: its source comes from
``solutions/``. One that you touched is yours, right or wrong.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from kata.stubs import SOLUTIONS, modules_of, reference_text
from lessons import LESSONS

PACKAGE = "lessons"
BELOW = f"{PACKAGE}."


@contextlib.contextmanager
def only_these_lessons(
    modules: dict[str, ModuleType],
) -> Iterator[Callable[[], dict[str, ModuleType]]]:
    """Let ``lessons.*`` in ``sys.modules`` be ``modules``, and restore it on the way out.

    Yields a function that returns what is there now.
    """
    before = present_lessons()
    replace_lessons(before, modules)
    try:
        yield present_lessons
    finally:
        replace_lessons(present_lessons(), before)


def present_lessons() -> dict[str, ModuleType]:
    """The modules below ``lessons``."""
    return {name: sys.modules[name] for name in names_below(PACKAGE)}


def names_below(package: str) -> Iterator[str]:
    """The modules imported from a package, at any depth.

    Every test asks, and ``sys.modules`` holds thousands of others: so it isn't searched. An import
    leaves the submodule's name in its package.
    """
    for name in [f"{package}.{each}" for each in vars(sys.modules[package])]:
        if name in sys.modules:
            yield name
            if hasattr(sys.modules[name], "__path__"):
                yield from names_below(name)


def replace_lessons(present: dict[str, ModuleType], wanted: dict[str, ModuleType]) -> None:
    package = sys.modules[PACKAGE]
    for name in present:
        del sys.modules[name]
        vars(package).pop(name.removeprefix(BELOW), None)
    for name, module in wanted.items():
        sys.modules[name] = module
        setattr(package, name.removeprefix(BELOW), module)


class LessonFinder(MetaPathFinder):
    """Find ``lessons.X`` in the learner's folder, or lend it from ``solutions/``."""

    def __init__(self, own: str, folder: Path) -> None:
        self.own = own
        self.folder = folder
        self.lent: list[str] = []
        # A lesson of several files is asked about once.
        self.homes: dict[str, Path] = {}

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        package, _, inner = fullname.partition(".")
        if package != PACKAGE or not inner:
            return None
        lesson = inner.split(".")[0]
        source = source_file(self.home_of(lesson), inner)
        if source is None:
            return None
        is_package = source.name == "__init__.py"
        return spec_from_file_location(
            fullname,
            source,
            loader=FreshSource(fullname, str(source)),
            submodule_search_locations=[str(source.parent)] if is_package else None,
        )

    def home_of(self, lesson: str) -> Path:
        """The folder a lesson's source comes from, noting it where that is a loan."""
        if lesson not in self.homes:
            is_own = lesson == self.own or is_written(lesson, self.folder)
            self.homes[lesson] = self.folder if is_own else SOLUTIONS
            if not is_own and any(lesson == row.name for row in LESSONS):
                self.lent.append(lesson)
        return self.homes[lesson]

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
        path = Path(self.path)
        if path.is_relative_to(SOLUTIONS):
            return self.source_to_code(reference_text(path.relative_to(SOLUTIONS)), self.path)
        return self.source_to_code(self.get_data(self.path), self.path)


def source_file(home: Path, inner: str) -> Path | None:
    """The file of the dotted name ``inner`` below ``home``: a package's or a module's."""
    base = home.joinpath(*inner.split("."))
    candidates = (base / "__init__.py", base.with_suffix(".py"))
    return next((path for path in candidates if path.exists()), None)


def is_written(lesson: str, folder: Path) -> bool:
    """Whether the lesson's files in ``folder`` differ from their stubs and can be compiled."""
    modules = [module for module in modules_of(lesson) if (folder / module.stub).exists()]
    sources = [(folder / module.stub).read_bytes() for module in modules]
    if not all(compiles(source) for source in sources):
        return False
    pristine = (module.stub_text(lesson).encode() for module in modules)
    return any(source != stub for source, stub in zip(sources, pristine, strict=True))


def compiles(source: bytes) -> bool:
    try:
        compile(source, "<lesson>", "exec")
    except (SyntaxError, ValueError):
        return False
    return True
