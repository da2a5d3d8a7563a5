"""The command ``grade``: judge the lessons of all participants, and write one report."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console

from kata.grading.container import Container
from kata.grading.report import EARLY, GREEN, Limits, State, Summary, to_csv, to_html, to_json
from kata.grading.session import Session
from kata.grading.submissions import find_submissions
from kata.lesson_names import NAMES, lesson_name
from kata.terminal import open_console

WRITERS = {".json": to_json, ".csv": to_csv, ".html": to_html}
LIMITS = Limits()
# How often what is known is written while the grading goes on, in seconds.
EVERY = 2.0


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
        "--seconds", type=float, default=LIMITS.seconds, help="for one test (default: 10)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default: 2)")
    parser.add_argument(
        "--container",
        action="store_true",
        help="judge each submission in a container of its own (podman or docker)",
    )
    parser.add_argument("--json", action="store_true", help="print the JSON, write no files")


def main(arguments: argparse.Namespace) -> int:
    """Grade a folder of submissions; the exit code is 1 where nothing could be graded."""
    console = open_console(plain=arguments.plain)
    session = begun(arguments)
    if arguments.json:
        list(session.judge_everybody())
        sys.stdout.write(to_json(session.summary()))
        return 0
    try:
        judge(session, arguments.out, open_console(plain=arguments.plain, stderr=True))
    finally:
        files = write(session.summary(), arguments.out)
    tell(session.summary(), files, console)
    return 0


def begun(arguments: argparse.Namespace) -> Session:
    limits = Limits(arguments.seconds)
    return Session(
        find_submissions(arguments.folder),
        tuple(name for name in NAMES if name in (arguments.lesson or NAMES)),
        limits,
        max(1, arguments.jobs),
        Container(limits) if arguments.container else None,
    )


def judge(session: Session, out: Path, console: Console) -> None:
    """Judge all participants, print a line for each lesson, and write what is known."""
    total = sum(len(lessons) for _, lessons in session.work)
    written = time.monotonic()
    for number, words in enumerate(session.judge_everybody(), start=1):
        console.print(f"{min(number, total)}/{total} {words}", soft_wrap=True)
        if time.monotonic() - written > EVERY:
            write(session.summary(), out)
            written = time.monotonic()


def write(summary: Summary, out: Path) -> list[Path]:
    """Write the three files of a report, each whole or not at all; return their paths."""
    out.parent.mkdir(parents=True, exist_ok=True)
    files = []
    for suffix, text_of in WRITERS.items():
        file = out.with_name(out.name + suffix)
        # A spreadsheet takes a file without the mark for the machine's old encoding.
        encoding = "utf-8-sig" if suffix == ".csv" else "utf-8"
        beside = file.with_name(f".{file.name}.part")
        beside.write_text(text_of(summary), encoding=encoding, newline="")
        beside.replace(file)
        files.append(file)
    return files


def tell(summary: Summary, files: list[Path], console: Console) -> None:
    """Print the result in a few lines, and where the reports are."""
    people = summary.people
    done, red, early = (
        sum(each.count(*states) for each in people) for states in (GREEN, (State.RED,), EARLY)
    )
    console.print(f"{len(people)} people in {summary.seconds:.0f} s")
    console.print(f"lessons: {done} done, {red} red, {early} stopped early")
    for person in people:
        if person.count(State.UNREADABLE):
            console.print(f"unreadable: {person.name} ({person.notes[0]})", soft_wrap=True)
        if person.flags:
            console.print(f"look at {person.name}: {person.flags[0]}", soft_wrap=True)
    console.print(f"written: {', '.join(map(str, files))}", soft_wrap=True)
