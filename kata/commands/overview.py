"""Where you are: what ``kata`` says without a command, on one screen."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from kata.progress import Standing, next_of, standings
from kata.terminal import open_console, show_prose
from lessons import TOGETHER

# Narrower than this, the table has the columns alone that say how a lesson stands.
WIDE = 72


def main(arguments: argparse.Namespace) -> int:
    """Say how each lesson stands, and what to do next."""
    show(open_console(plain=arguments.plain), standings())
    return 0


def show(console: Console, rows: list[Standing]) -> None:
    lessons = [row for row in rows if row.lesson.name not in TOGETHER]
    done = sum(row.is_done for row in lessons)
    show_prose(console, f"fx-kata: {done} of {len(lessons)} lessons done{time_left(lessons)}")
    console.print()
    console.print(table(rows, wide=console.width >= WIDE))
    console.print()
    for line in (*notes(rows), *advice(rows)):
        show_prose(console, line)


def table(rows: list[Standing], *, wide: bool) -> Table:
    grid = Table(box=None, pad_edge=False, header_style="quiet")
    headings = ("lesson", "state", "core", "stretch", "minutes")
    for heading in headings if wide else headings[:3]:
        grid.add_column(heading, justify="right" if heading == "minutes" else "left", no_wrap=True)
    for row in rows:
        cells = (row.lesson.name, state(row), row.shown("core"))
        more = (row.shown("stretch"), str(row.lesson.minutes or ""))
        grid.add_row(*cells, *(more if wide else ()), style=row.state if row.is_done else None)
    return grid


def state(row: Standing) -> str:
    return f"{row.state} *" if row.is_stale else row.state


def time_left(rows: list[Standing]) -> str:
    hours, rest = divmod(sum(row.lesson.minutes for row in rows if not row.is_done), 60)
    parts = [f"{number} {unit}" for number, unit in ((hours, "h"), (rest, "min")) if number]
    return f", about {' '.join(parts)} left" if parts else ""


def notes(rows: list[Standing]) -> Iterator[str]:
    """Yield what the table's words leave open: old states, and work not judged."""
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
