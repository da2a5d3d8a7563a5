"""The tables of ``figures.md``, and of the terminal."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

from benchmarks.measure import Growth, Result

Rows = list[list[str]]
# The largest ratio of a core's time to torch's.
SLOWEST_CORE = 2.0


def markdown(header: list[str], rows: Rows) -> str:
    """A table; columns after the first one are aligned to the right."""
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def shown(results: list[Result]) -> list[Result]:
    """The results for a reader: of the sizes of a family the largest, and any that missed."""
    largest: dict[str, int] = {}
    for result in results:
        largest[result.family] = max(result.size, largest.get(result.family, 0))
    return [each for each in results if each.is_missed or each.size == largest[each.family]]


def ratios_of(results: Iterable[Result]) -> str:
    """The times of some cases and their ratios, with the noise and the target."""
    header = ["case", "torch", "ours", "ours / torch", "lowest – highest", "target", "core / torch"]
    return markdown(header, [ratio_row(result) for result in results])


def ratio_row(result: Result) -> list[str]:
    return [
        result.case,
        in_seconds(statistics.median(result.torch)),
        in_seconds(statistics.median(result.ours)),
        f"{share(result.ratio)}{missed(result.is_missed)}",
        f"{share(min(result.ratios))} – {share(max(result.ratios))}",
        "" if result.target is None else f"{result.target:.2f}",
        of_core(result.core_ratio),
    ]


def growth_of(growths: Iterable[Growth]) -> str:
    """The exponents of growth of both sides."""
    header = ["more and more …", "sizes", "torch", "ours", "target", "core"]
    return markdown(header, [growth_row(growth) for growth in growths])


def growth_row(growth: Growth) -> list[str]:
    sizes = sorted(result.size for result in growth.sizes)
    return [
        growth.family,
        f"{sizes[0]} – {sizes[-1]}",
        f"{growth.torch:.2f}",
        f"{growth.ours:.2f}{missed(growth.is_missed)}",
        "" if growth.target is None else f"{growth.target:.1f}",
        "–" if growth.core is None else f"{growth.core:.2f}",
    ]


def missed(is_missed: bool) -> str:
    return " **missed**" if is_missed else ""


def of_core(ratio: float | None) -> str:
    """The core's ratio: of no case that it can't do, and marked where it takes too long."""
    return "–" if ratio is None else f"{share(ratio)}{missed(ratio > SLOWEST_CORE)}"


def share(ratio: float) -> str:
    """A ratio with two figures that count."""
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.3f}"


def in_seconds(seconds: float) -> str:
    """A time with three figures that count, and its unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{three_figures(seconds / scale)} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def three_figures(number: float) -> str:
    decimals = max(0, 2 - math.floor(math.log10(number)))
    return f"{number:.{decimals}f}"
