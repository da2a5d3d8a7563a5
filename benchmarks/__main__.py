"""Race the reference against torch: ``python -m benchmarks`` (``nox -s bench``).

It times every case, prints a table, and writes ``benchmarks/report/results.json``. With ``--plot``
it also measures memory and writes the tables and plots that docs/performance.md shows.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path

import torch
from rich.console import Console

from benchmarks import tables
from benchmarks.case import Case, all_cases, reference, torch_side
from benchmarks.measure import Growth, Result, growths, race
from benchmarks.memory import Peak, peaks
from benchmarks.steps import Gain, gains
from kata.terminal import clipped, open_console

REPORT = Path(__file__).parent / "report"
RESULTS = REPORT / "results.json"


def main(words: list[str] | None = None) -> int:
    """Time what the command line asks for; the exit code tells nothing about the targets."""
    options = parser().parse_args(words)
    torch.set_num_threads(1)
    report = known() if options.again else measured(options)
    show(report.results)
    if options.json:
        report.save(options.json)
    if options.plot or options.again:
        report.save(RESULTS)
        write_report(report)
    return 0


@dataclass
class Report:
    """Everything that was measured, and where; plain data, for JSON."""

    machine: dict[str, str]
    results: list[Result]
    steps: list[Gain] = field(default_factory=list)
    memory: list[Peak] = field(default_factory=list)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def measured(options: argparse.Namespace) -> Report:
    """Time the cases; for a whole report, also what each step brought, and the memory."""
    report = before(options) if options.plot else Report(machine(), [])
    for result in races(options):
        report.results.append(result)
        if options.plot:
            report.save(RESULTS)  # a whole run takes many minutes, and may be stopped
    if options.plot and not options.lesson:
        report.steps = gains(options.seconds)
        report.memory = peaks()
    return report


def before(options: argparse.Namespace) -> Report:
    """What last time showed of the lessons that aren't timed now."""
    report = known()
    asked = options.lesson or all_cases()
    kept = [result for result in report.results if result.lesson not in asked]
    return Report(machine(), kept, report.steps, report.memory)


def known() -> Report:
    """What was measured last time."""
    content = json.loads(RESULTS.read_text(encoding="utf-8"))
    return Report(
        content["machine"],
        [Result(**result) for result in content["results"]],
        [Gain(**gain) for gain in content["steps"]],
        [Peak(**peak) for peak in content["memory"]],
    )


def parser() -> argparse.ArgumentParser:
    """What the command line knows."""
    words = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    words.add_argument("lesson", nargs="*", help="time these lessons only")
    words.add_argument("--quick", action="store_true", help="a few small cases: half a minute")
    words.add_argument("--plot", action="store_true", help="write benchmarks/report/")
    words.add_argument(
        "--again", action="store_true", help="write it from the results of last time"
    )
    words.add_argument("--json", type=Path, metavar="FILE", help="write the times to a file")
    words.add_argument(
        "--seconds", type=float, default=3.0, help="how long to time one case (default: 3)"
    )
    return words


def races(options: argparse.Namespace) -> Iterator[Result]:
    """Run the cases that were asked for, and say how far that is."""
    console = open_console(stderr=True)
    cases = chosen(options)
    for number, (lesson, case) in enumerate(cases, start=1):
        words = f"timing {number} of {len(cases)}: {lesson}, {case.name}"
        with announced(console, words):
            sides = reference(lesson), torch_side(lesson, case)
            result = race(lesson, case, sides, options.seconds)
        yield result


@contextlib.contextmanager
def announced(console: Console, words: str) -> Iterator[None]:
    """Show what is going on; on a terminal the line makes room for the tables again.

    It isn't drawn meanwhile: that would take time from what is timed.
    """
    line = clipped(words, console.width - 1)
    if not console.is_interactive:
        console.print(words, soft_wrap=True)
        yield
        return
    console.print(line, end="\r", soft_wrap=True)
    try:
        yield
    finally:
        console.print(" " * len(line), end="\r", soft_wrap=True)


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
        for lesson in options.lesson or cases
        for case in cases[lesson]
        if case.quick or not options.quick
    ]


def show(results: list[Result]) -> None:
    """Print a table of ratios a lesson, then that of exponents, as Markdown."""
    for lesson, of_lesson in groupby(results, lambda result: result.lesson):
        print(f"{lesson}\n\n{tables.ratios_of(of_lesson)}")
    if growths(results):
        print(tables.growth_of(growths(results)))


def machine() -> dict[str, str]:
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def write_report(report: Report) -> None:
    """Write every table and plot of the page."""
    results = report.results
    write("machine.md", ", ".join(f"{name} {value}" for name, value in report.machine.items()))
    for lesson in all_cases():
        of_lesson = [result for result in results if result.lesson == lesson]
        write(f"{lesson}.md", tables.ratios_of(of_lesson))
    write("growth.md", tables.growth_of(growths(results)))
    write("steps.md", tables.gains_of(report.steps))
    write("memory.md", tables.memory_of(report.memory))
    promised = [result for result in results if result.target is not None]
    from benchmarks import plots  # matplotlib is asked for here alone

    ratios = plots.ratio_plot("ratios", promised)
    write("ratios.html", plots.in_page(ratios, "Our time over torch's; left is faster."))
    drawn = {file_name(growth): growth for growth in growths(results)}
    figures = {name: plots.growth_plot(name, growth) for name, growth in drawn.items()}
    for name, figure in figures.items():
        write(f"{name}.svg", figure)
    in_page = (
        plots.in_page(figures[name], f"{growth.lesson}: {growth.family}")
        for name, growth in drawn.items()
    )
    write("growth.html", "\n".join(in_page))


def file_name(growth: Growth) -> str:
    return f"growth-{growth.lesson}-{growth.family}".replace(" ", "-").replace(",", "")


def write(name: str, text: str) -> None:
    (REPORT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
