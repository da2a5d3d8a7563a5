"""Race the reference against torch: ``python -m benchmarks`` (``nox -s bench``).

It times every case of the lessons that are named, or of all, and prints tables. ``--write`` also
puts them into ``benchmarks/figures.md``, which docs/performance.md shows; the other lessons keep
the figures that they have there.
"""

from __future__ import annotations

import argparse
import math
import platform
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import torch

from benchmarks.case import all_cases
from benchmarks.race import Result, growth, race

FIGURES = Path(__file__).parent / "figures.md"
# The largest ratio of a core's time to torch's, and the largest exponent of growth.
SLOWEST_CORE, LINEAR = 2.0, 1.1
HEAD = """\
| case | torch | ours | ours / torch | lowest – highest | target | core / torch | growth |
| --- | --: | --: | --: | --: | --: | --: | --: |
"""


def main(argv: list[str] | None = None) -> int:
    """Time what the command line asks for; the exit code tells nothing about the targets."""
    cases = all_cases()
    words = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    words.add_argument(
        "lesson", nargs="*", choices=[*cases, []], metavar="LESSON", help="time these lessons only"
    )
    words.add_argument("--quick", action="store_true", help="one case of each: half a minute")
    words.add_argument("--write", action="store_true", help="write benchmarks/figures.md")
    options = words.parse_args(argv)
    torch.set_num_threads(1)
    for lesson in options.lesson or cases:
        results = []
        for case in cases[lesson][:1] if options.quick else cases[lesson]:
            print(f"timing {lesson}: {case.name}", file=sys.stderr)
            results.append(race(lesson, case))
        text = section(lesson, results)
        print(text)
        if options.write:
            # At once: a whole run takes many minutes, and may be stopped.
            write(lesson, text)
    return 0


def write(lesson: str, text: str) -> None:
    """Put a lesson's section into the file, in the lessons' order."""
    known = FIGURES.read_text(encoding="utf-8") if FIGURES.exists() else ""
    sections = {each.split()[1]: each for each in re.split(r"(?m)^(?=### )", known) if each}
    sections[lesson] = text
    ordered = [sections[name].strip() for name in all_cases() if name in sections]
    FIGURES.write_text("\n\n".join(ordered) + "\n", encoding="utf-8")


def section(lesson: str, results: Sequence[Result]) -> str:
    """The table of one lesson in Markdown, and where it was measured: of a family, the largest."""
    families = {each.case.family or each.case.name: [] for each in results}
    for each in results:
        families[each.case.family or each.case.name].append(each)
    rows = "".join(f"| {' | '.join(row(family))} |\n" for family in families.values())
    return f"### {lesson}\n\n{HEAD}{rows}\n{machine()}\n"


def machine() -> str:
    """Return what the figures depend on."""
    return (
        f"torch {torch.__version__}, Python {platform.python_version()}, {platform.system()} "
        f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}, "
        f"{time.strftime('%Y-%m-%d', time.gmtime())}"
    )


def row(family: Sequence[Result]) -> list[str]:
    """The cells of a case: the times and their ratios, the noise, the target, and the growth."""
    shown = family[-1]
    target, ratio = shown.case.target, shown.ratio("ours")
    return [
        shown.case.name,
        in_seconds(median(shown.times["torch"])),
        in_seconds(median(shown.times["ours"])),
        share(ratio, target),
        f"{share(min(shown.ratios))} – {share(max(shown.ratios))}",
        "" if target is None else f"{target:.2f}",
        share(shown.ratio("core"), SLOWEST_CORE) if "core" in shown.times else "–",
        ", ".join(f"{side} {share(growth(family, side))}" for side in shown.times)
        + over(growth(family, "ours"), LINEAR)
        if len(family) > 1
        else "",
    ]


def share(ratio: float, target: float | None = None) -> str:
    """A ratio with two figures that count, marked if it is larger than wanted."""
    return (f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.3f}") + over(ratio, target)


def over(found: float, target: float | None) -> str:
    return " (over target)" if target is not None and found > target else ""


def in_seconds(seconds: float) -> str:
    """A time with three figures that count, and its unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            decimals = max(0, 2 - math.floor(math.log10(seconds / scale)))
            return f"{seconds / scale:.{decimals}f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


if __name__ == "__main__":
    sys.exit(main())
