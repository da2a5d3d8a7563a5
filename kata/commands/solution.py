"""The command ``solution``: the reference's core beside yours, and its stretch on demand."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterator
from pathlib import Path

from kata import workspace
from kata.layers import lesson_files
from kata.naming import add_lesson
from kata.progress import recall
from kata.stubs import CORES, ROOT, SOLUTIONS
from kata.terminal import harmless, open_console, show_prose

STYLES = {"+": "green", "-": "red", "@": "code"}
HEADS = ("+++", "---")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    add_lesson(parser)
    parser.add_argument("--stretch", action="store_true", help="show what stands on the core")
    parser.add_argument("--show-me", action="store_true", help="show it before yours is green")


def main(arguments: argparse.Namespace) -> int:
    """Show the reference, once yours is green."""
    lesson, console = arguments.lesson, open_console(plain=arguments.plain)
    if not (arguments.show_me or has_passed(lesson)):
        show_prose(console, f"{lesson} hasn't passed yet: `kata check {lesson}`")
        show_prose(console, f"`kata solution {lesson} --show-me` shows the reference anyway")
        return 1
    lines = stretch(lesson) if arguments.stretch else difference(lesson)
    for line in list(lines) or ["yours is the reference, to the letter"]:
        style = "heading" if line.startswith(HEADS) else STYLES.get(line[:1])
        console.print(harmless(line), style=None if arguments.stretch else style, soft_wrap=True)
    if not arguments.stretch:
        console.print()
        show_prose(console, f"`kata solution {lesson} --stretch` shows what the stretch adds")
    return 0


def has_passed(lesson: str) -> bool:
    """Whether the lesson was green once."""
    result = recall(lesson)
    return result is not None and result.has_passed


def difference(lesson: str) -> Iterator[str]:
    """What is to be changed in yours so that it is the reference."""
    yours, solution = workspace.file_of(lesson), CORES / f"{lesson}.py"
    names = (f"lessons/{lesson}.py" if yours.exists() else "(nothing)", f"solutions/{lesson}.py")
    yield from difflib.unified_diff(lines_of(yours), lines_of(solution), *names, lineterm="")


def stretch(lesson: str) -> Iterator[str]:
    """The files of the stretch, each below its name."""
    for solution in lesson_files(SOLUTIONS, lesson):
        yield f"── {solution.relative_to(ROOT).as_posix()} ──"
        yield from lines_of(solution)


def lines_of(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
