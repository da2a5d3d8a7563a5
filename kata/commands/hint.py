"""The command ``hint``: the hints of a lesson's page, one more each time."""

from __future__ import annotations

import argparse
import contextlib
import re
import textwrap
from pathlib import Path
from typing import NamedTuple

from kata import workspace
from kata.naming import add_lesson
from kata.stubs import ROOT
from kata.terminal import open_console, show_prose

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
    parser.add_argument("--all", action="store_true", help="show all hints")


def main(arguments: argparse.Namespace) -> int:
    """Show the next hint of the lesson, or all."""
    lesson = arguments.lesson
    console = open_console(plain=arguments.plain)
    show_prose(console, every_hint(lesson) if arguments.all else next_hint(lesson))
    console.print()
    show_prose(console, what_is_left(lesson, f"`kata hint {lesson}`"))
    return 0


def hints_of(lesson: str) -> list[Hint]:
    """The hints on the lesson's page, the gentlest first."""
    page = (PAGES / f"{lesson}.md").read_text(encoding="utf-8")
    return [
        Hint(int(level), title, textwrap.dedent(body).strip())
        for level, title, body in HINT.findall(page + "\n")
    ]


def next_hint(lesson: str) -> str:
    """The next hint that the learner hasn't seen, or the last one again; remembers that it is seen.

    Args:
        lesson: the lesson's name.

    Returns:
        A headline, an empty line, and the text in Markdown: ``kata.prose.show_prose`` prints it.
    """
    hints, seen = hints_of(lesson), level_seen(lesson)
    level = min(seen + 1, len(hints))
    remember_level(lesson, level)
    again = "There are no more hints. The last one again:\n\n" if seen >= len(hints) else ""
    return again + shown(hints[level - 1], len(hints))


def what_is_left(lesson: str, how: str) -> str:
    """How many hints there are still and ``how`` to see one, or what helps where there is none."""
    left = len(hints_of(lesson)) - level_seen(lesson)
    if left > 0:
        return f"{left} more: {how}"
    return (
        "That was the last hint. What helps next:\n"
        f"- the lesson's page: `docs/lessons/{lesson}.md`\n"
        f"- the reference: `kata solution {lesson} --show-me`"
    )


def every_hint(lesson: str) -> str:
    """All hints of the lesson; they count as seen."""
    hints = hints_of(lesson)
    remember_level(lesson, len(hints))
    return "\n\n".join(shown(hint, len(hints)) for hint in hints)


def shown(hint: Hint, of: int) -> str:
    return f"Hint {hint.level} of {of}: {hint.title}\n\n{hint.text}"


def level_seen(lesson: str) -> int:
    """How many hints of the lesson were shown so far."""
    try:
        return max(0, int(level_file(lesson).read_text(encoding="ascii")))
    except (OSError, ValueError):
        return 0


def remember_level(lesson: str, level: int) -> None:
    file = level_file(lesson)
    # A memory that can't be written costs nobody the hint.
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{level}\n", encoding="ascii")


def level_file(lesson: str) -> Path:
    return workspace.HERE.memory / "hints" / lesson
