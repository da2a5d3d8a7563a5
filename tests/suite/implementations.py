"""Whose code the suite runs: your lessons, the reference, or torch itself.

Lessons import their siblings (``from .create_arg import CreateArg``). While yours are judged, a
sibling that is still its pristine stub, or that Python cannot compile, is *lent*: its source comes
from ``solutions/``. One that you touched is yours, right or wrong.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

import pytest

from kata.stubs import ROOT, SOLUTIONS, modules_of, reference_text
from lessons import LESSONS

PACKAGE = "lessons"


@dataclass
class Implementation:
    """One lesson as a module to test.

    Attributes:
        lesson: the lesson's name.
        folder: where its source lies; errors are shown by the lines of files in here.
        module: the module itself, or None where it could not be imported.
        error: what its import raised.
        traceback: where it was raised.
        lent: the siblings that came from the reference.
        modules: what ``sys.modules`` holds below ``lessons`` while its tests run.
    """

    lesson: str
    folder: Path
    module: ModuleType | None = None
    error: BaseException | None = None
    traceback: TracebackType | None = None
    lent: tuple[str, ...] = ()
    modules: dict[str, ModuleType] = field(default_factory=dict)

    @contextlib.contextmanager
    def active(self) -> Iterator[ModuleType]:
        """Run with this lesson's view of ``lessons.*`` (pickling looks classes up by name)."""
        if self.error is not None:
            # The traceback of the import alone: each raise would add to it.
            raise self.error.with_traceback(self.traceback)
        assert self.module is not None
        with only_these_lessons(self.modules):
            yield self.module


def reference(lesson: str) -> Implementation:
    """The lesson as solved in ``solutions/``."""
    return Implementation(lesson, SOLUTIONS, importlib.import_module(f"solutions.{lesson}"))


def torch_itself(lesson: str) -> Implementation:
    """torch's own code behind the lesson's names; a name that torch lacks skips its test."""
    oracle = importlib.import_module(f"tests.oracle.{lesson}")
    return Implementation(lesson, ROOT / "tests" / "oracle", Oracle(oracle))


class Oracle(ModuleType):
    """A module whose missing names skip the test that asks for them."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(vars(module))

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        pytest.skip(f"torch has no {name}")


def learners(lesson: str, folder: Path) -> Implementation:
    """The lesson as written in ``folder``, its unwritten siblings lent from the reference."""
    finder = LessonFinder(lesson, folder)
    implementation = Implementation(lesson, folder)
    with only_these_lessons({}) as modules, finder.installed():
        try:
            implementation.module = importlib.import_module(f"{PACKAGE}.{lesson}")
        except Exception as error:
            implementation.error, implementation.traceback = error, error.__traceback__
        implementation.modules = modules()
    implementation.lent = tuple(finder.lent)
    return implementation


def changed_reference(lesson: str) -> Implementation:
    """A fresh copy of the reference under the lessons' names, for an answer to change."""
    return learners(lesson, SOLUTIONS)


@contextlib.contextmanager
def only_these_lessons(modules: dict[str, ModuleType]) -> Iterator:
    """Let ``lessons.*`` in ``sys.modules`` be ``modules``, and restore it on the way out.

    Yields a function that returns what is there now.
    """

    def present() -> dict[str, ModuleType]:
        return {
            name: module for name, module in sys.modules.items() if name.startswith(f"{PACKAGE}.")
        }

    def replace_by(wanted: dict[str, ModuleType]) -> None:
        package = sys.modules[PACKAGE]
        for name in present():
            del sys.modules[name]
            vars(package).pop(name.removeprefix(f"{PACKAGE}."), None)
        for name, module in wanted.items():
            sys.modules[name] = module
            setattr(package, name.removeprefix(f"{PACKAGE}."), module)

    before = present()
    replace_by(modules)
    try:
        yield present
    finally:
        replace_by(before)


class LessonFinder(MetaPathFinder):
    """Find ``lessons.X`` in the learner's folder, or lend it from ``solutions/``."""

    def __init__(self, own: str, folder: Path) -> None:
        self.own = own
        self.folder = folder
        self.lent: list[str] = []

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
        if lesson == self.own or is_written(lesson, self.folder):
            return self.folder
        if lesson not in self.lent and any(lesson == row.name for row in LESSONS):
            self.lent.append(lesson)
        return SOLUTIONS

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
