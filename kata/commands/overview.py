"""Where you are: what ``kata`` says without a command, on one screen."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from kata.progress import Standing, next_of, standings
from kata.terminal import open_console, show_prose
from lessons import TOGETHER


def main(arguments: argparse.Namespace) -> int:
    """Show each lesson's state, and what to do next."""
    show(open_console(), standings())
    return 0


def show(console: Console, rows: list[Standing]) -> None:
    lessons = [row for row in rows if row.lesson.name not in TOGETHER]
    done = sum(row.is_done for row in lessons)
    show_prose(console, f"fx-kata: {done} of {len(lessons)} lessons done{time_left(lessons)}")
    console.print()
    console.print(table(rows))
    console.print()
    for line in (*notes(rows), *advice(rows)):
        show_prose(console, line)


def table(rows: list[Standing]) -> Table:
    grid = Table(box=None, pad_edge=False, header_style="quiet")
    for heading in ("lesson", "state", "core", "stretch", "minutes"):
        grid.add_column(heading, justify="right" if heading == "minutes" else "left", no_wrap=True)
    for row in rows:
        counts = (row.counts("core"), row.counts("stretch"))
        minutes = str(row.lesson.minutes or "")
        style = row.state if row.is_done else None
        grid.add_row(row.lesson.name, state(row), *counts, minutes, style=style)
    return grid


def state(row: Standing) -> str:
    return f"{row.state} *" if row.is_stale else row.state


def time_left(rows: list[Standing]) -> str:
    hours, rest = divmod(sum(row.lesson.minutes for row in rows if not row.is_done), 60)
    parts = [f"{number} {unit}" for number, unit in ((hours, "h"), (rest, "min")) if number]
    return f", about {' '.join(parts)} left" if parts else ""


def notes(rows: list[Standing]) -> Iterator[str]:
    """Explain the marks in the table."""
    if any(row.is_stale or row.state == "edited" for row in rows):
        yield "edited, or with *: has changed since it was judged; `kata check` judges it"


def advice(rows: list[Standing]) -> Iterator[str]:
    row = next_of(rows)
    if row is None:
        yield "All lessons are done. `kata check --stretch` asks for what is left to be starred."
        return
    name = row.lesson.name
    if name in TOGETHER:
        yield f"next: {name} ({row.lesson.summary}): `kata check {name}`, docs/{name}.md"
        return
    yield f"next: {name} ({row.lesson.summary}), about {row.lesson.minutes} minutes"
    yield f"  read docs/lessons/{name}.md, write in lessons/{name}.py"
    yield f"  `kata watch {name}` judges each save; `kata hint {name}` helps"
