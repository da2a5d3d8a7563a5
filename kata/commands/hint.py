"""The command ``hint``: the hints of a lesson's page, or of one step, one more each time."""

from __future__ import annotations

import argparse
import contextlib
import re
import textwrap
from pathlib import Path
from typing import NamedTuple

from kata import progress
from kata.arguments import add_lesson, add_step, check_step
from kata.paths import ROOT
from kata.progress import write
from kata.terminal import open_console, show_prose

PAGES = ROOT / "docs" / "lessons"
HINT = re.compile(
    r'^\?{3}\+? tip "Hint (\d+)(?: \(step (\d+)\))?: ([^"]+)"\n((?:[ ]{4}.*\n|[ ]*\n)*)',
    re.MULTILINE,
)
LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")
LAST = """That was the last hint. What helps next:
- the lesson's page: `docs/lessons/{lesson}.md`
- the reference: `kata solution {lesson} --show-me`"""


class Hint(NamedTuple):
    """One hint of a page."""

    level: int  # its number on the page
    step: int  # 0 for the whole lesson
    title: str
    text: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    add_lesson(parser)
    add_step(parser, "a hint for this step")


def main(arguments: argparse.Namespace) -> int:
    """Show the next hint of the lesson, or of one of its steps."""
    check_step([arguments.lesson], arguments.step)
    show_prose(open_console(), next_hint(arguments.lesson, arguments.step))
    return 0


def hints_of(lesson: str, step: int = 0) -> list[Hint]:
    """The hints on the lesson's page, the gentlest first: all, or those about one step."""
    page = (PAGES / f"{lesson}.md").read_text(encoding="utf-8")
    hints = [
        Hint(int(level), int(about or 0), title, LINK.sub(r"\1", textwrap.dedent(body)).strip())
        for level, about, title, body in HINT.findall(page + "\n")
    ]
    return [hint for hint in hints if step in (0, hint.step)]


def next_hint(lesson: str, step: int) -> str:
    """Return the next hint, which counts as shown from now on, or the last one again."""
    if not hints_of(lesson, step):  # a hint for the whole lesson may help
        step = 0
    hints, file = hints_of(lesson, step), progress.HERE.memory / "hints" / lesson
    if step:
        file = file.with_name(f"{lesson}-{step}")
    before, count = number_shown(file), len(hints)
    number = min(before + 1, count)
    # The hint is shown even if the memory can't be written.
    with contextlib.suppress(OSError):
        write(file, f"{number}\n".encode())
    hint = hints[number - 1]
    again = "There are no more hints. Here is the last one again:\n\n" * (before >= count)
    command = f"kata hint {lesson}" + f" --step {step}" * bool(step)
    left = f"{count - number} more: `{command}`" if number < count else LAST.format(lesson=lesson)
    return f"{again}Hint {number} of {count}: {hint.title}\n\n{hint.text}\n\n{left}"


def number_shown(file: Path) -> int:
    """Return how many hints were shown so far."""
    try:
        return max(0, int(file.read_text(encoding="ascii")))
    except (OSError, ValueError):
        return 0
