"""One thing to time, and who is timed on it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lessons import FINALE, LESSONS
from tests.oracle import of_torch
from tests.suite.implementations import core_of, reference_of

Call = Callable[[], Any]
ROUNDS = 7
# From so many on, torch's quadratic cases take seconds.
MANY = 3000


@dataclass(frozen=True)
class Case:
    """One thing to time.

    Attributes:
        name: What is worked on.
        work: Gets a module with the lesson's names and an input, and returns the call to time.
        given: Makes a new input for each call. Neither this nor ``work`` itself is timed.
        same: Fails where two results of the call differ.
        target: The largest ratio of our time to torch's, if one was promised.
        family: What there are ``size`` of; the cases of a family tell how the time grows.
        size: How many there are, in a family.
        torch: What has the lesson's names on torch's side, if not ``tests.oracle``.
    """

    name: str
    work: Callable[[Any, Any], Call]
    given: Callable[[], Any]
    same: Callable[[Any, Any], None]
    target: float | None = None
    family: str = ""
    size: int = 0
    torch: Any = None

    def call_of(self, side: Any) -> Call:
        """Return a fresh call of an implementation."""
        return self.work(side, self.given())

    def check(self, ours: Any, theirs: Any) -> None:
        """Fail unless the calls of both give the same."""
        self.same(self.call_of(ours)(), self.call_of(theirs)())


def sized(
    family: str,
    work: Callable[[Any, Any], Call],
    make: Callable[[int], Any],
    same: Callable[[Any, Any], None],
    sizes: Sequence[int],
    target: float | None = None,
    torch: Any = None,
) -> list[Case]:
    """Return one case for each size, of which the last is the largest and has the target."""
    return [
        Case(
            f"{size:_} ".replace("_", " ") + family,
            work,
            partial(make, size),
            same,
            target if size == sizes[-1] else None,
            family,
            size,
            torch,
        )
        for size in sizes
    ]


def timed(case: Case, side: str, benchmark: Any, lesson: Any, request: Any) -> None:
    """Time one side of a case, once both give the same: the test of every file, under its name."""
    theirs = torch_side(request.path.stem.removeprefix("test_"), case)
    case.check(lesson, theirs)
    shown = lesson if side == "this" else theirs
    benchmark.group = case.name
    benchmark.pedantic(
        lambda call: call(), setup=lambda: ((case.call_of(shown),), {}), rounds=ROUNDS
    )


def torch_side(lesson: str, case: Case) -> Any:
    """Return what has a lesson's names on torch's side."""
    return case.torch or of_torch("tracer" if lesson == FINALE.name else lesson)


def sides_of(lesson: str, case: Case) -> dict[str, Any]:
    """Return who is timed on a case: torch, our reference, and its core if it can do the case.

    The finale has no stretch: the engine is the cores.
    """
    theirs = torch_side(lesson, case)
    if lesson == FINALE.name:
        return {"torch": theirs, "ours": core_of("tracer")}
    sides = {"torch": theirs, "ours": reference_of(lesson), "core": core_of(lesson)}
    try:
        case.check(sides["core"], theirs)
    except Exception:
        del sides["core"]
    return sides


def all_cases() -> dict[str, list[Case]]:
    """Return what is timed: for the engine first, then for each lesson, in their order."""
    return {
        lesson.name: importlib.import_module(f"benchmarks.test_{lesson.name}").CASES
        for lesson in (FINALE, *LESSONS)
    }
