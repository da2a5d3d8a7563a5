"""Race the reference against torch: ``python -m benchmarks`` (``nox -s bench``).

It times every case of the lessons that are named, or of all, and prints tables. ``--write`` also
puts them into ``benchmarks/figures.md``, which docs/performance.md shows; the other lessons keep
the figures that they have there.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import re
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import torch

from benchmarks.case import Case, all_cases, sides_of
from benchmarks.measure import Growth, Result, growths, race

FIGURES = Path(__file__).parent / "figures.md"
Rows = list[list[str]]
# The largest ratio of a core's time to torch's.
SLOWEST_CORE = 2.0


def main(argv: list[str] | None = None) -> int:
    """Time what the command line asks for; the exit code tells nothing about the targets."""
    options = parser().parse_args(argv)
    torch.set_num_threads(1)
    results = []
    for lesson, of_lesson in groupby(races(options), lambda result: result.lesson):
        results += (found := list(of_lesson))
        text = section(lesson, found)
        print(text)
        if options.write:
            # At once: a whole run takes many minutes, and may be stopped.
            write(lesson, text)
    if options.json:
        rows = [asdict(result) for result in results]
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


def parser() -> argparse.ArgumentParser:
    """Return what the command line knows."""
    words = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    words.add_argument("lesson", nargs="*", help="time these lessons only")
    words.add_argument("--quick", action="store_true", help="a few small cases: half a minute")
    words.add_argument("--write", action="store_true", help="write benchmarks/figures.md")
    words.add_argument("--json", type=Path, metavar="FILE", help="write all times to a file")
    words.add_argument(
        "--seconds", type=float, default=3.0, help="how long to time one case (default: 3)"
    )
    return words


def races(options: argparse.Namespace) -> Iterator[Result]:
    """Run the cases that were asked for, and say how far that is."""
    cases = chosen(options)
    for number, (lesson, case) in enumerate(cases, start=1):
        print(f"timing {number} of {len(cases)}: {lesson}, {case.name}", file=sys.stderr)
        yield race(lesson, case, sides_of(lesson, case), options.seconds)


def chosen(options: argparse.Namespace) -> list[tuple[str, Case]]:
    """The cases of the lessons that were named, or of all."""
    cases = all_cases()
    unknown = set(options.lesson) - set(cases)
    if unknown:
        sys.exit(
            f"no lesson is called {', '.join(sorted(unknown))}: choose from {', '.join(cases)}"
        )
    return [
        (lesson, case)
        for lesson in cases
        if lesson in options.lesson or not options.lesson
        for case in cases[lesson]
        if case.quick or not options.quick
    ]


def section(lesson: str, results: list[Result]) -> str:
    """The tables of one lesson in Markdown, and where they were measured."""
    parts = [f"### {lesson} {{ data-search-exclude }}\n", ratios_of(shown(results))]
    if growths(results):
        parts.append(growth_of(growths(results)))
    return "\n".join([*parts, f"{machine()}\n"])


def machine() -> str:
    """Return what the figures depend on."""
    return (
        f"torch {torch.__version__}, Python {platform.python_version()}, {platform.system()} "
        f"{platform.machine()}, {time.strftime('%Y-%m-%d', time.gmtime())}"
    )


def write(lesson: str, text: str) -> None:
    """Put a lesson's section into the file, in the lessons' order."""
    known = FIGURES.read_text(encoding="utf-8") if FIGURES.exists() else ""
    sections = {each.split()[1]: each for each in re.split(r"(?m)^(?=### )", known) if each}
    sections[lesson] = text
    ordered = [sections[name].strip() for name in all_cases() if name in sections]
    FIGURES.write_text("\n\n".join(ordered) + "\n", encoding="utf-8")


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
    return " (over target)" if is_missed else ""


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


if __name__ == "__main__":
    sys.exit(main())
