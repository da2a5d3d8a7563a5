"""One thing to time, and where the sides that are timed come from."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from lessons import FINALE, LESSONS
from tests.oracle import of_torch
from tests.suite.implementations import reference_of

Call = Callable[[], Any]
ROUNDS = 7


class Family(NamedTuple):
    """Cases that differ in size alone, so that they tell how the time grows.

    Attributes:
        name: What there are more and more of.
        exponent: The largest exponent of growth that ours may have, if one was promised.
    """

    name: str
    exponent: float | None = None


@dataclass(frozen=True)
class Case:
    """One thing to time.

    Attributes:
        name: What is worked on.
        prepare: Gets a module with the lesson's names, and returns the call to time. It makes
            whatever the call changes anew, and what it does itself isn't timed.
        same: Fails where two results of the call differ.
        target: The largest ratio of our time to torch's, if one was promised.
        family: What the case belongs to, if it is one of several sizes.
        size: How many there are, in a family.
        on_torch: Torch's call, where torch has it under other names than the lesson.
        quick: Whether a quick run times it.
        slow: Whether it takes torch many seconds.
    """

    name: str
    prepare: Callable[[Any], Call]
    same: Callable[[Any, Any], None]
    target: float | None = None
    family: Family | None = None
    size: int = 0
    on_torch: Callable[[], Call] | None = None
    quick: bool = False
    slow: bool = False

    def call_of(self, lesson: Any) -> Call:
        """Return a fresh call of an implementation; of torch for ``None``."""
        if lesson is not None:
            return self.prepare(lesson)
        assert self.on_torch is not None
        return self.on_torch()

    def check(self, ours: Call, theirs: Call) -> None:
        """Fail unless both calls give the same."""
        self.same(ours(), theirs())

    def __str__(self) -> str:
        return self.name


def torch_side(lesson: str, case: Case) -> Any:
    """Return what ``case.call_of`` makes torch's call of."""
    module = "tracer" if lesson == FINALE.name else lesson
    return None if case.on_torch else of_torch(module)


def timed(case: Case, side: str, benchmark: Any, lesson: Any, request: Any) -> None:
    """Time one side of a case, once both give the same: the test of every file, under its name."""
    theirs = torch_side(request.path.stem.removeprefix("test_"), case)
    case.check(case.call_of(lesson), case.call_of(theirs))
    shown = lesson if side == "this" else theirs
    benchmark.group = case.name
    benchmark.pedantic(
        lambda call: call(), setup=lambda: ((case.call_of(shown),), {}), rounds=ROUNDS
    )


def sides_of(lesson: str, case: Case) -> dict[str, Any]:
    """Return who is timed on a case: torch, our reference, and its core if it can do the case.

    The finale has no stretch: the engine is the cores.
    """
    if lesson == FINALE.name:
        engine = importlib.import_module("solutions.tracer")
        return {"torch": torch_side(lesson, case), "ours": engine}
    ours = reference_of(lesson)
    sides = {"torch": torch_side(lesson, case), "ours": ours}
    core = importlib.import_module(f"solutions.{lesson}")
    return sides | {"core": core} if can_do(core, case, sides["torch"]) else sides


def can_do(core: Any, case: Case, theirs: Any) -> bool:
    """Return whether a case asks for no more than the core has."""
    try:
        case.check(case.call_of(core), case.call_of(theirs))
    except Exception:
        return False
    return True


def all_cases() -> dict[str, list[Case]]:
    """Return what is timed: for the engine first, then for each lesson, in their order."""
    return {
        lesson.name: importlib.import_module(f"benchmarks.test_{lesson.name}").CASES
        for lesson in (FINALE, *LESSONS)
    }


def sizes(
    family: Family, make: Callable[[int], dict[str, Any]], targets: dict[int, float | None]
) -> list[Case]:
    """One case for each size, with its target; the smallest one is quick."""
    return [
        Case(
            name=f"{spaced(size)} {family.name}",
            family=family,
            size=size,
            target=target,
            **{"quick": size == min(targets)} | make(size),
        )
        for size, target in targets.items()
    ]


def spaced(size: int) -> str:
    """A number with a space between thousands."""
    return f"{size:,}".replace(",", " ")
