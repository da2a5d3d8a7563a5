"""``kata grade``: judge everybody's lessons, and write one report."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kata.grading.checking import Limits
from kata.grading.page import to_html
from kata.grading.report import EARLY, GREEN, Report, State, to_csv, to_json
from kata.grading.room import NAMES, Room
from kata.grading.submissions import GradingError, entries_of, find_submissions
from kata.naming import lesson_name
from kata.terminal import open_console

WRITERS = {".json": to_json, ".csv": to_csv, ".html": to_html}
LIMITS = Limits()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("folder", metavar="DIR", type=Path, help="holds a folder or zip per person")
    parser.add_argument(
        "--out",
        metavar="NAME",
        type=Path,
        default=Path("report"),
        help="writes NAME.json, NAME.csv and NAME.html (default: report)",
    )
    parser.add_argument(
        "--lesson", metavar="LESSON", action="append", type=lesson_name, help="this lesson alone"
    )
    parser.add_argument(
        "--seconds", type=positive, default=LIMITS.seconds, help="for one test (default: 10)"
    )
    parser.add_argument(
        "--total", type=positive, default=LIMITS.total, help="seconds for one lesson (120)"
    )
    parser.add_argument(
        "--memory", type=positive, default=LIMITS.memory, help="GiB for one run (default: 4)"
    )
    parser.add_argument("--jobs", type=at_least_one, default=2, help="runs at a time (default: 2)")


def positive(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def at_least_one(text: str) -> int:
    return max(1, int(positive(text)))


def main(arguments: argparse.Namespace) -> int:
    """Grade a folder of submissions; the exit code is 1 where nothing could be graded."""
    console = open_console(plain=getattr(arguments, "plain", False), stderr=True)
    try:
        report = grade(arguments, console)
        files = write(report, arguments.out)
    except GradingError as error:
        console.print(f"error: {error}")
        return 1
    tell(report, files, open_console(plain=getattr(arguments, "plain", False)))
    return 0


def grade(arguments: argparse.Namespace, console: Console) -> Report:
    """Judge all that was handed in, and show how far that is."""
    submissions = find_submissions(arguments.folder)
    room = Room(
        submissions,
        lessons=tuple(name for name in NAMES if name in (arguments.lesson or NAMES)),
        limits=Limits(arguments.seconds, arguments.total, arguments.memory),
        closed=entries_of(arguments.folder),
        jobs=arguments.jobs,
    )
    total = len(room.papers + room.touched)
    if not console.is_interactive:
        return room.grade(lines_on(console, total))
    with bar_on(console) as bar:
        task = bar.add_task(f"{len(submissions)} people", total=total)
        return room.grade(lambda words: bar.update(task, advance=1, description=words))


def lines_on(console: Console, total: int) -> Callable[[str], None]:
    """A line a run, where nothing can be drawn over."""
    numbers = count(1)
    return lambda words: console.print(f"{next(numbers)}/{total} {words}", soft_wrap=True)


def bar_on(console: Console) -> Progress:
    # A name may look like markup.
    words = TextColumn("{task.description}", markup=False)
    columns = (BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn(), words)
    return Progress(*columns, console=console, transient=True)


def write(report: Report, out: Path) -> list[Path]:
    """Write the three files of a report; return their paths."""
    out.parent.mkdir(parents=True, exist_ok=True)
    files = []
    for suffix, text_of in WRITERS.items():
        file = out.with_name(out.name + suffix)
        # A spreadsheet takes a file without the mark for the machine's old encoding.
        encoding = "utf-8-sig" if suffix == ".csv" else "utf-8"
        file.write_text(text_of(report), encoding=encoding, newline="")
        files.append(file)
    return files


def tell(report: Report, files: list[Path], console: Console) -> None:
    """Say in a few lines what came out, and where it lies."""
    people = report.people
    done, red, early = (
        sum(each.count(*states) for each in people) for states in (GREEN, (State.RED,), EARLY)
    )
    console.print(
        f"{len(people)} people in {report.seconds:.0f} s: "
        f"{done} lessons done, {red} red, {early} stopped early"
    )
    for person in people:
        if person.flags or person.count(State.VOID):
            console.print(f"look at {person.name}", soft_wrap=True)
    console.print(f"written: {', '.join(map(str, files))}", soft_wrap=True)
