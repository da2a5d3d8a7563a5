"""The command ``solution``: the reference's core beside yours, or its stretch."""

from __future__ import annotations

import argparse
import difflib
import re

from kata import progress
from kata.arguments import add_lesson
from kata.paths import CORES, ROOT, STRETCHES, lesson_files
from kata.progress import recall
from kata.stubs import MARK, as_lessons
from kata.terminal import harmless, open_console, show_prose

# Besides the marks of definitions, what only one of the two has.
HEADING = re.compile(r"\s*# --- ")
STYLES = {"+": "green", "-": "red", "@": "code"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    add_lesson(parser)
    parser.add_argument("--stretch", action="store_true", help="show the stretch")
    parser.add_argument("--show-me", action="store_true", help="show it before yours is green")


def main(arguments: argparse.Namespace) -> int:
    """Show the reference, or the part that you name, once your core has been green."""
    lesson, console = arguments.lesson, open_console()
    if not (arguments.show_me or getattr(recall(lesson), "green", "")):
        show_prose(console, f"{lesson} hasn't passed yet: `kata check {lesson}`")
        show_prose(console, f"`kata solution {lesson} --show-me` shows the reference anyway")
        return 1
    if arguments.stretch:
        console.print(harmless("\n\n\n".join(stretch(lesson))), soft_wrap=True)
        return 0
    for line in difference(lesson) or ["yours is the reference, to the letter"]:
        style = "heading" if line.startswith(("+++", "---")) else STYLES.get(line[:1])
        console.print(harmless(line), style=style, soft_wrap=True)
    show_prose(console, "\n`--stretch` shows what the stretch adds")
    if (ROOT / f"given/{lesson}.py").exists():
        show_prose(console, f"what both import as given is in given/{lesson}.py")
    return 0


def difference(lesson: str) -> list[str]:
    """Return what is to be changed in yours so that it is the reference."""
    yours, solution = progress.file_of(lesson), CORES / f"{lesson}.py"
    names = (f"lessons/{lesson}.py" if yours.exists() else "(nothing)", f"solutions/{lesson}.py")
    mine = yours.read_text("utf-8", "replace") if yours.exists() else ""
    theirs = solution.read_text("utf-8")
    return list(difflib.unified_diff(comparable(mine), comparable(theirs), *names, lineterm=""))


def comparable(source: str) -> list[str]:
    """The lines of a lesson, without what cutting the stub from the reference changes."""
    lines = as_lessons(source).splitlines()
    return [MARK.sub("", line) for line in lines if not HEADING.match(line)]


def stretch(lesson: str) -> list[str]:
    """The files of the stretch, each below its name."""
    files = {each.relative_to(ROOT).as_posix(): each for each in lesson_files(STRETCHES, lesson)}
    return [f"── {name} ──\n{file.read_text('utf-8')}" for name, file in files.items()]
