"""The command ``hint``: the hints of a lesson's page, one more each time."""

from __future__ import annotations

import argparse
import contextlib
import re
import textwrap
from pathlib import Path
from typing import NamedTuple

from kata import workspace
from kata.lesson_names import add_lesson
from kata.paths import ROOT
from kata.terminal import open_console, show_prose
from kata.workspace import write

PAGES = ROOT / "docs" / "lessons"
HINT = re.compile(r'^\?{3}\+? tip "Hint (\d+): ([^"]+)"\n((?:[ ]{4}.*\n|[ ]*\n)*)', re.MULTILINE)


class Hint(NamedTuple):
    """One hint: its level, counted from 1, its title and its text in Markdown."""

    level: int
    title: str
    text: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    add_lesson(parser)


def main(arguments: argparse.Namespace) -> int:
    """Show the next hint of the lesson."""
    lesson = arguments.lesson
    show_prose(open_console(), f"{next_hint(lesson)}\n\n{what_is_left(lesson)}")
    return 0


def hints_of(lesson: str) -> list[Hint]:
    """The hints on the lesson's page, the gentlest first."""
    page = (PAGES / f"{lesson}.md").read_text(encoding="utf-8")
    return [
        Hint(int(level), title, textwrap.dedent(body).strip())
        for level, title, body in HINT.findall(page + "\n")
    ]


def next_hint(lesson: str) -> str:
    """The next hint, which counts as seen from now on, or the last one again."""
    hints, seen = hints_of(lesson), level_seen(lesson)
    level = min(seen + 1, len(hints))
    # The hint is shown even if the memory can't be written.
    with contextlib.suppress(OSError):
        write(level_file(lesson), f"{level}\n".encode())
    again = "There are no more hints. Here is the last one again:\n\n" if seen >= len(hints) else ""
    hint = hints[level - 1]
    return f"{again}Hint {hint.level} of {len(hints)}: {hint.title}\n\n{hint.text}"


def what_is_left(lesson: str) -> str:
    """Return how many hints are left, or what helps if there is none."""
    left = len(hints_of(lesson)) - level_seen(lesson)
    if left > 0:
        return f"{left} more: `kata hint {lesson}`"
    return (
        "That was the last hint. What helps next:\n"
        f"- the lesson's page: `docs/lessons/{lesson}.md`\n"
        f"- the reference: `kata solution {lesson} --show-me`"
    )


def level_seen(lesson: str) -> int:
    """Return how many hints of the lesson were shown so far."""
    try:
        return max(0, int(level_file(lesson).read_text(encoding="ascii")))
    except (OSError, ValueError):
        return 0


def level_file(lesson: str) -> Path:
    return workspace.HERE.memory / "hints" / lesson
