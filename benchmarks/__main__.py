"""Race the reference against torch: ``python -m benchmarks`` (``nox -s bench``).

It times every case of the lessons that are named, or of all, and prints tables. ``--write`` also
puts them into ``benchmarks/figures.md``, which docs/performance.md shows; the other lessons keep
the figures that they have there.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import torch

from benchmarks import tables
from benchmarks.case import Case, all_cases, sides_of
from benchmarks.measure import Result, growths, race

FIGURES = Path(__file__).parent / "figures.md"


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
    parts = [f"### {lesson} {{ data-search-exclude }}\n", tables.ratios_of(tables.shown(results))]
    if growths(results):
        parts.append(tables.growth_of(growths(results)))
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


if __name__ == "__main__":
    sys.exit(main())
