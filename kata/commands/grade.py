"""The command ``grade``: judge the lessons of all participants, and write one report."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from kata.arguments import lesson_name
from kata.grading.container import Container
from kata.grading.report import EARLY, Summary, to_csv, to_html, to_json
from kata.grading.session import Session
from kata.grading.submissions import find_submissions
from kata.judge import Request
from kata.terminal import open_console
from kata.verdict import PASSED, State
from lessons import NAMES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("folder", metavar="DIR", type=Path, help="holds a folder or zip per person")
    out, words = Path("report.html"), "where to write the page, or a table if it ends in .csv"
    parser.add_argument("--out", metavar="FILE", type=Path, default=out, help=words)
    words = "this lesson alone"
    parser.add_argument("--lesson", metavar="LESSON", action="append", type=lesson_name, help=words)
    words = "for one test (default: %(default)g)"
    parser.add_argument("--seconds", type=float, default=Request.seconds, help=words)
    words = "runs at a time (default: %(default)s)"
    parser.add_argument("--jobs", type=int, default=2, help=words)
    words = "judge each submission in a container of its own (podman or docker)"
    parser.add_argument("--container", action="store_true", help=words)
    parser.add_argument("--json", action="store_true", help="print JSON, and write no page")


def main(arguments: argparse.Namespace) -> int:
    """Grade a folder of submissions; the exit code is 1 where nothing could be graded."""
    console = open_console()
    session = begun(arguments)
    if arguments.json:
        list(session.judge_all())
        sys.stdout.write(to_json(session.summary()))
        return 0
    try:
        show_progress(session, open_console(stderr=True))
    finally:  # if it was interrupted, too
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        form = to_csv if arguments.out.suffix == ".csv" else to_html
        arguments.out.write_text(form(session.summary()), encoding="utf-8", newline="")
    tell(session.summary(), console)
    console.print(f"written: {arguments.out}", soft_wrap=True)
    return 0


def begun(arguments: argparse.Namespace) -> Session:
    lessons = tuple(name for name in NAMES if name in (arguments.lesson or NAMES))
    container = Container(arguments.seconds) if arguments.container else None
    submissions = find_submissions(arguments.folder)
    return Session(submissions, lessons, arguments.seconds, max(1, arguments.jobs), container)


def show_progress(session: Session, console: Console) -> None:
    """Judge all participants, and print a line for each lesson."""
    total = sum(map(len, session.work.values()))
    for number, words in enumerate(session.judge_all(), start=1):
        console.print(f"{number}/{total} {words}", soft_wrap=True)


def tell(summary: Summary, console: Console) -> None:
    """Print the result in a few lines."""
    people = summary.people
    done, red, early = (
        sum(each.count(*states) for each in people) for states in (PASSED, (State.RED,), EARLY)
    )
    console.print(f"{len(people)} people in {summary.seconds:.0f} s")
    console.print(f"lessons: {done} done, {red} red, {early} stopped early")
    for person in people:
        if person.count(State.UNREADABLE):
            console.print(f"unreadable: {person.name} ({person.notes[0]})", soft_wrap=True)
        if person.flags:
            console.print(f"look at {person.name}: {person.flags[0]}", soft_wrap=True)
