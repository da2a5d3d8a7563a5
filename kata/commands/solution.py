"""The command ``solution``: the reference's core beside yours; its stretch, other right answers."""

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

ANSWERS = ROOT / "tests" / "answers"
STYLES = {"+": "green", "-": "red", "@": "code"}
HEADS = ("+++", "---")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    add_lesson(parser)
    parser.add_argument("--stretch", action="store_true", help="show what stands on the core")
    parser.add_argument("--others", action="store_true", help="show other right answers")
    parser.add_argument("--show-me", action="store_true", help="show it before yours is green")


def main(arguments: argparse.Namespace) -> int:
    """Show the reference, or what was asked for, once yours was green."""
    lesson, console = arguments.lesson, open_console(plain=arguments.plain)
    result = recall(lesson)
    if not (arguments.show_me or (result and result.has_passed)):
        show_prose(console, f"{lesson} hasn't passed yet: `kata check {lesson}`")
        show_prose(console, f"`kata solution {lesson} --show-me` shows the reference anyway")
        return 1
    if arguments.stretch or arguments.others:
        parts = others(lesson) if arguments.others else stretch(lesson)
        console.print(harmless("\n\n\n".join(parts)), soft_wrap=True)
        return 0
    for line in list(difference(lesson)) or ["yours is the reference, to the letter"]:
        style = "heading" if line.startswith(HEADS) else STYLES.get(line[:1])
        console.print(harmless(line), style=style, soft_wrap=True)
    show_prose(console, f"\n`kata solution {lesson} --stretch` shows what the stretch adds")
    show_prose(console, f"`--others` shows {len(others(lesson))} other ways to solve it")
    return 0


def difference(lesson: str) -> Iterator[str]:
    """What is to be changed in yours so that it is the reference."""
    yours, solution = workspace.file_of(lesson), CORES / f"{lesson}.py"
    names = (f"lessons/{lesson}.py" if yours.exists() else "(nothing)", f"solutions/{lesson}.py")
    yield from difflib.unified_diff(lines_of(yours), lines_of(solution), *names, lineterm="")


def stretch(lesson: str) -> list[str]:
    """The files of the stretch, each below its name."""
    files = lesson_files(SOLUTIONS, lesson)
    return [
        f"── {each.relative_to(ROOT).as_posix()} ──\n{each.read_text('utf-8')}" for each in files
    ]


def others(lesson: str) -> list[str]:
    """Other right answers, as text: functions that set on ``lesson`` what replaces a reference."""
    blocks = (ANSWERS / f"{lesson}.py").read_text(encoding="utf-8").split("\n\n\n")
    return [block.partition("\n")[2] for block in blocks if block.startswith("@right")]


def lines_of(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
