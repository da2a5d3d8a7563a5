"""Race calls: alternately, in this process, on one thread, once their results are equal."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import linear_regression, median

from benchmarks.case import Call, Case, sides_of

# How long the rounds of a case take together.
SECONDS = 3.0
FEWEST, MOST = 3, 15
# Seconds; what takes longer is run once. torch's quadratic cases do.
LONG = 15.0


@dataclass
class Result:
    """The times of one case in seconds, by side, round for round.

    The sides are ``torch``, ``ours`` and, if our core can do the case, ``core``.
    """

    case: Case
    times: dict[str, list[float]]

    def ratio(self, side: str) -> float:
        """The median of a side over torch's."""
        return median(self.times[side]) / median(self.times["torch"])

    @property
    def ratios(self) -> list[float]:
        """Our ratio of each round: how far they are apart is the machine's noise."""
        return [a / b for a, b in zip(self.times["ours"], self.times["torch"], strict=True)]


def race(lesson: str, case: Case) -> Result:
    """Time the sides of a case alternately, in an order that changes from round to round.

    There are as many rounds as fit into some seconds, but at least three, unless one is very long.
    """
    sides = sides_of(lesson, case)
    case.check(sides["ours"], sides["torch"])
    times: dict[str, list[float]] = {name: [] for name in sides}
    start = time.perf_counter()
    done, rounds = 0, 1
    while done < rounds:
        for name in sides if done % 2 else reversed(sides):
            times[name].append(seconds_of(case.call_of(sides[name])))
        done += 1
        rounds = rounds_in(SECONDS, (time.perf_counter() - start) / done)
    return Result(case, times)


def rounds_in(seconds: float, of_one: float) -> int:
    """Return how many rounds fit, within what is sensible."""
    return 1 if of_one > LONG else min(max(int(seconds / of_one), FEWEST), MOST)


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


def growth(results: Sequence[Result], side: str) -> float:
    """Return how a side's time grows in a family, as the exponent of a power: 1 is linear.

    It is the slope of time over size on logarithmic scales, by least squares.
    """
    x = [math.log(result.case.size) for result in results]
    y = [math.log(median(result.times[side])) for result in results]
    return linear_regression(x, y).slope
