"""Race calls: alternately, in this process, on one thread, once their results are equal."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.case import Call, Case

FEWEST, MOST = 3, 15
# Seconds; what takes longer is run once. torch's quadratic cases do.
LONG = 15.0


@dataclass
class Result:
    """The sides of one case, in seconds, round for round; plain data, for JSON.

    Attributes:
        lesson: The lesson's name.
        case: What was timed.
        family: What there are ``size`` of, or nothing.
        size: How many there are.
        target: The largest ratio that was promised.
        exponent: The largest exponent of growth that was promised.
        ours: Our times.
        torch: Torch's.
        core: Those of our core; empty where it can't do the case.
    """

    lesson: str
    case: str
    family: str = ""
    size: int = 0
    target: float | None = None
    exponent: float | None = None
    ours: list[float] = field(default_factory=list)
    torch: list[float] = field(default_factory=list)
    core: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, lesson: str, case: Case) -> Result:
        """An empty result of a case."""
        name, exponent = case.family or ("", None)
        return cls(lesson, case.name, name, case.size, case.target, exponent)

    @property
    def ratio(self) -> float:
        """Our median over torch's."""
        return statistics.median(self.ours) / statistics.median(self.torch)

    @property
    def core_ratio(self) -> float | None:
        """Our core's median over torch's."""
        if not self.core:
            return None
        return statistics.median(self.core) / statistics.median(self.torch)

    @property
    def ratios(self) -> list[float]:
        """The ratio of each round: how far they are apart is the machine's noise."""
        return [a / b for a, b in zip(self.ours, self.torch, strict=True)]

    @property
    def is_missed(self) -> bool:
        return self.target is not None and self.ratio > self.target


def race(lesson: str, case: Case, sides: dict[str, Any], seconds: float) -> Result:
    """Time the sides of a case alternately, as often as fits into some seconds.

    Args:
        lesson: The lesson's name.
        case: What to time.
        sides: What ``case`` makes the calls of: see ``sides_of``.
        seconds: How long the rounds may take together; there are at least three all the same,
            unless one takes very long.

    Returns:
        The times, in an order that changes from round to round.
    """
    result = Result.of(lesson, case)
    case.check(case.call_of(sides["ours"]), case.call_of(sides["torch"]))
    lanes = [(getattr(result, name), side) for name, side in sides.items()]
    start = time.perf_counter()
    rounds = 1
    while len(result.ours) < rounds:
        for times, side in lanes if len(result.ours) % 2 else reversed(lanes):
            times.append(seconds_of(case.call_of(side)))
        rounds = rounds_in(seconds, (time.perf_counter() - start) / len(result.ours))
    return result


def rounds_in(seconds: float, of_one: float) -> int:
    """Return how many rounds fit, within what is sensible."""
    if of_one > LONG:
        return 1
    return min(max(int(seconds / of_one), FEWEST), MOST)


def seconds_of(call: Call) -> float:
    """Time a call that starts without garbage; the collector stays on, as it is for users.

    Processor time: on one thread it is what a clock shows, less what the machine does besides.
    """
    gc.collect()
    start = time.process_time()
    result = call()
    seconds = time.process_time() - start
    del result
    return seconds


@dataclass(frozen=True)
class Growth:
    """How the time grows with the size, as the exponent of a power: 1 is linear.

    Attributes:
        lesson: The lesson's name.
        family: What there are more of.
        sizes: The sizes that were timed, and the results.
        ours: Our exponent.
        torch: Torch's.
        core: Our core's, if it can do all sizes.
        target: The largest one that was promised for ours.
    """

    lesson: str
    family: str
    sizes: list[Result]
    ours: float
    torch: float
    core: float | None
    target: float | None

    @property
    def is_missed(self) -> bool:
        return self.target is not None and self.ours > self.target


def growths(results: Iterable[Result]) -> list[Growth]:
    """The exponents of all families of at least two sizes."""
    families: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        if result.family:
            families[result.lesson, result.family].append(result)
    return [
        Growth(
            lesson,
            family,
            sizes,
            exponent(sizes, lambda result: result.ours),
            exponent(sizes, lambda result: result.torch),
            exponent(sizes, lambda result: result.core) if all(r.core for r in sizes) else None,
            sizes[0].exponent,
        )
        for (lesson, family), sizes in families.items()
        if len(sizes) > 1
    ]


def exponent(results: list[Result], times: Callable[[Result], list[float]]) -> float:
    """The slope of time over size on logarithmic scales, by least squares."""
    x = [math.log(result.size) for result in results]
    y = [math.log(statistics.median(times(result))) for result in results]
    return statistics.linear_regression(x, y).slope
