"""Whose code the suite runs: your lessons, the reference, or torch itself."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType

import pytest
import torch.fx

from kata.lending import PACKAGE, LessonFinder, only_these_modules
from kata.paths import CORES, ROOT, STRETCHES
from kata.stubs import is_stub
from lessons import FINALE, LESSONS, TOGETHER

# The lessons of which the engine is made: they are judged without it.
(TRACER,) = (each for each in LESSONS if each.name == "tracer")
OF_THE_ENGINE = {TRACER.name, *TRACER.needs}


def reference_of(lesson: str) -> ModuleType:
    """The whole reference of a lesson: its stretch, and from its core what that leaves as it is."""
    module = importlib.import_module(f"solutions.stretch.{lesson}")
    vars(module).setdefault("__getattr__", functools.partial(getattr, core_of(lesson)))
    return module


def core_of(lesson: str) -> ModuleType:
    """The core of a lesson's reference."""
    return importlib.import_module(f"solutions.{lesson}")


@dataclass
class Implementation:
    """One lesson as a module to test.

    Attributes:
        lesson: The lesson's name.
        folder: The folder of its source: errors show lines of files in it.
        module: The module itself, or None where it could not be imported.
        error: What its import raised.
        traceback: Where it was raised.
        finder: Finds the siblings, in the folder or in the reference: also for an import inside a
            function, which runs when a test does.
        modules: The modules below ``package`` in ``sys.modules`` while its tests run.
        package: Where its modules are found by name.
        engine: Has the tracer and the graphs that a transform is judged with.
    """

    lesson: str
    folder: Path
    module: ModuleType | None = None
    error: BaseException | None = None
    traceback: TracebackType | None = None
    finder: LessonFinder | None = None
    modules: dict[str, ModuleType] = field(default_factory=dict)
    package: str = PACKAGE
    engine: ModuleType = torch.fx

    @functools.cached_property
    def is_stub(self) -> bool:
        """Whether its file is the stub, in which nothing is written yet."""
        file = self.folder / f"{self.lesson}.py"
        return file.is_file() and is_stub(self.lesson, file.read_bytes())

    @contextlib.contextmanager
    def active(self) -> Iterator[ModuleType]:
        """Run with this lesson's view of ``lessons.*`` (pickling looks classes up by name)."""
        if self.error is not None:
            # The traceback of the import alone: each raise would add to it.
            raise self.error.with_traceback(self.traceback)
        assert self.module is not None
        siblings = self.finder.installed() if self.finder else contextlib.nullcontext()
        with only_these_modules(self.package, self.modules) as modules, siblings:
            try:
                yield self.module
            finally:
                self.modules = modules()

    @property
    def lent(self) -> tuple[str, ...]:
        """The siblings that came from the reference."""
        return tuple(self.finder.lent) if self.finder else ()

    @property
    def completed(self) -> tuple[str, ...]:
        """The functions of the lesson that came from the reference."""
        return tuple(self.finder.completed) if self.finder else ()


def reference(lesson: str) -> Implementation:
    """The lesson as solved in ``solutions/``: the stretch, which builds on the core."""
    return Implementation(lesson, STRETCHES, reference_of(lesson))


def core(lesson: str) -> Implementation:
    """The core of the reference alone."""
    return Implementation(lesson, CORES, core_of(lesson), engine=core_of("tracer"))


def torch_itself(lesson: str) -> Implementation:
    """The code of torch under the lesson's names; a name that torch lacks skips its test."""
    from tests.oracle import of_torch  # where torch itself is judged, and nowhere else

    return Implementation(lesson, ROOT / "tests" / "oracle.py", Oracle(of_torch(lesson)))


class Oracle(ModuleType):
    """A module whose missing names skip the test that asks for them."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(vars(module))

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        pytest.skip(f"torch has no {name}")


def learners(lesson: str, folder: Path, yours: Collection[str], step: int) -> Implementation:
    """The lesson as written in ``folder``; the reference lends the siblings that aren't ``yours``.

    For a step, what other steps left unwritten in the lesson itself is lent, too.
    """
    implementation = Implementation(
        lesson, folder, finder=LessonFinder(lesson, folder, yours, step)
    )
    with importing(implementation):
        implementation.module = importlib.import_module(f"{PACKAGE}.{lesson}")
        if lesson not in OF_THE_ENGINE:
            implementation.engine = importlib.import_module(f"{PACKAGE}.tracer")
    return implementation


@contextlib.contextmanager
def importing(implementation: Implementation) -> Iterator[None]:
    """Let the block import the learner's modules; they are kept, and so is their error."""
    assert implementation.finder is not None
    with only_these_modules(PACKAGE, {}) as modules, implementation.finder.installed():
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a lesson may end Python, or skip its test
            implementation.error, implementation.traceback = error, error.__traceback__
        implementation.modules = modules()


# --- several lessons: the pieces import one another, so only their names are put together


def cores_together(name: str) -> Implementation:
    """The cores of the finale or the chain."""
    return Implementation(name, CORES, joined(map(core_of, TOGETHER[name].needs)))


def whole_engine() -> Implementation:
    """The whole reference's own engine; what its module leaves out is in the lessons' own."""
    pieces = joined(map(reference_of, FINALE.needs))
    # Imported late: learners are judged without `solutions`.
    engine = importlib.import_module("solutions.stretch.engine")
    vars(pieces).update({name: getattr(engine, name) for name in engine.__all__})
    return Implementation(FINALE.name, STRETCHES, pieces)


def learners_together(name: str, folder: Path, yours: Collection[str]) -> Implementation:
    """The lessons in ``folder``, as the finale or the chain; those that aren't yours are lent."""
    implementation = Implementation(name, folder, finder=LessonFinder("", folder, yours))
    with importing(implementation):
        pieces = (importlib.import_module(f"{PACKAGE}.{each}") for each in TOGETHER[name].needs)
        implementation.module = joined(pieces)
    return implementation


def joined(pieces: Iterable[ModuleType]) -> ModuleType:
    """Return a module with the classes and functions that the pieces define themselves."""
    together = ModuleType(FINALE.name)
    for piece in pieces:
        for name, value in vars(piece).items():
            if getattr(value, "__module__", "").startswith(piece.__name__):
                setattr(together, name, value)
    return together


def fresh_reference(lesson: str, *, core: bool) -> Implementation:
    """A fresh copy of the reference, or of its core, for an answer to change."""
    importlib.import_module("solutions")
    with only_these_modules("solutions", {}) as modules:
        module = core_of(lesson) if core else reference_of(lesson)
        engine = core_of("tracer") if core else torch.fx
        return Implementation(
            lesson, CORES, module, modules=modules(), package="solutions", engine=engine
        )
