"""The command ``hint``: the hints of a lesson's page, or of one step, one more each time."""

from __future__ import annotations

import argparse
import contextlib
import re
import textwrap
from typing import NamedTuple

from kata import progress
from kata.lesson_names import add_lesson, add_step, check_step
from kata.paths import ROOT
from kata.progress import write
from kata.terminal import open_console, show_prose

PAGES = ROOT / "docs" / "lessons"
HINT = re.compile(
    r'^\?{3}\+? tip "Hint (\d+)(?: \(step (\d+)\))?: ([^"]+)"\n((?:[ ]{4}.*\n|[ ]*\n)*)',
    re.MULTILINE,
)


class Hint(NamedTuple):
    """One hint.

    Attributes:
        level: Its number on the page, counted from 1.
        step: The step that it is about; 0 for the whole lesson.
        title: Its title.
        text: Its text, in Markdown.
    """

    level: int
    step: int
    title: str
    text: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    add_lesson(parser)
    add_step(parser, "a hint for this step")


def main(arguments: argparse.Namespace) -> int:
    """Show the next hint of the lesson, or of one of its steps."""
    check_step([arguments.lesson], arguments.step)
    show_prose(open_console(), Hints(arguments.lesson, arguments.step).next())
    return 0


def hints_of(lesson: str, step: int = 0) -> list[Hint]:
    """The hints on the lesson's page, the gentlest first: all, or those about one step."""
    page = (PAGES / f"{lesson}.md").read_text(encoding="utf-8")
    hints = [
        Hint(int(level), int(about or 0), title, textwrap.dedent(body).strip())
        for level, about, title, body in HINT.findall(page + "\n")
    ]
    return [hint for hint in hints if step in (0, hint.step)]


class Hints:
    """The hints that are shown one after the other, and how many were shown so far.

    Args:
        lesson: The lesson's name.
        step: The number of the step that they are about; 0 for all of the lesson's.
    """

    def __init__(self, lesson: str, step: int) -> None:
        if not hints_of(lesson, step):  # what there is for the whole lesson may help
            step = 0
        self.command = f"kata hint {lesson}" + f" --step {step}" * bool(step)
        self.lesson = lesson
        self.hints = hints_of(lesson, step)
        name = f"{lesson}-{step}" if step else lesson
        self.file = progress.HERE.memory / "hints" / name

    def next(self) -> str:
        """The next hint, which counts as shown from now on, or the last one again."""
        before, count = self.shown(), len(self.hints)
        number = min(before + 1, count)
        # The hint is shown even if the memory can't be written.
        with contextlib.suppress(OSError):
            write(self.file, f"{number}\n".encode())
        hint = self.hints[number - 1]
        again = "There are no more hints. Here is the last one again:\n\n" * (before >= count)
        left = f"{count - number} more: `{self.command}`" if number < count else self.what_helps()
        return f"{again}Hint {number} of {count}: {hint.title}\n\n{hint.text}\n\n{left}"

    def what_helps(self) -> str:
        """Return what to do where there are no more hints."""
        return (
            "That was the last hint. What helps next:\n"
            f"- the lesson's page: `docs/lessons/{self.lesson}.md`\n"
            f"- the reference: `kata solution {self.lesson} --show-me`"
        )

    def shown(self) -> int:
        """Return how many of these hints were shown so far."""
        try:
            return max(0, int(self.file.read_text(encoding="ascii")))
        except (OSError, ValueError):
            return 0
