"""The command ``list``: every lesson, what one writes there, and how it stands."""

from __future__ import annotations

import argparse

from rich.console import Console

from kata.naming import place_of
from kata.standing import Standing, standings
from kata.terminal import open_console, say_json, show_labelled


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def main(arguments: argparse.Namespace) -> int:
    """List the lessons."""
    rows = standings()
    if arguments.json:
        say_json([as_json(row) for row in rows])
    else:
        for row in rows:
            show(open_console(plain=arguments.plain), row)
    return 0


def show(console: Console, row: Standing) -> None:
    lesson = row.lesson
    show_labelled(console, row.state, f"{lesson.name}: {lesson.summary}", style=row.state)
    facts = [f"{lesson.minutes} minutes", place_of(lesson.name)]
    facts += [f"core {row.shown('core')}"] if row.shown("core") else []
    facts += [f"stretch {row.shown('stretch')}"] if row.shown("stretch") else []
    facts += ["before the last change"] if row.is_stale else []
    show_labelled(console, "", ", ".join(facts))
    if lesson.needs:
        show_labelled(console, "", f"stands on {', '.join(lesson.needs)}{lent(row)}")


def lent(row: Standing) -> str:
    pieces = row.result.lent if row.result and not row.is_pristine else ()
    return f" (lent: {', '.join(pieces)})" if pieces else ""


def as_json(row: Standing) -> dict[str, object]:
    """The row as ``docs/commands.md`` describes it."""
    return {
        "lesson": row.lesson.name,
        "title": row.lesson.title,
        "summary": row.lesson.summary,
        "minutes": row.lesson.minutes,
        "needs": list(row.lesson.needs),
        "state": row.state,
        "stale": row.is_stale,
        "lent": list(row.result.lent) if row.result else [],
    }
