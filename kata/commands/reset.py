"""The command ``reset``: the stub again, and back; one copy of yours is kept."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from kata import progress
from kata.arguments import add_lesson
from kata.progress import file_of, is_pristine, source_of, write
from kata.stubs import stub
from kata.terminal import open_console, show_prose


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    add_lesson(parser)
    parser.add_argument("--undo", action="store_true", help="bring yours back")


def main(arguments: argparse.Namespace) -> int:
    """Write the lesson's stub again and keep a copy of yours, or bring that copy back."""
    console = open_console()
    return (undo if arguments.undo else reset)(arguments.lesson, console)


def reset(lesson: str, console: Console) -> int:
    if is_pristine(lesson):
        show_prose(console, f"{lesson} is its stub already: nothing to do")
        return 0
    has_copy = keep(lesson)
    write(file_of(lesson), stub(lesson))
    show_prose(console, f"lessons/{lesson}.py is its stub again")
    if has_copy:
        show_prose(console, f"yours is kept in {progress.short_path(copy_of(lesson))}")
        show_prose(console, f"`kata reset {lesson} --undo` brings it back")
    return 0


def undo(lesson: str, console: Console) -> int:
    """Restore the copy; the present file becomes the copy, so a second undo undoes the first."""
    if not copy_of(lesson).is_file():
        show_prose(console, f"no copy of {lesson} is kept: `kata reset {lesson}` makes one")
        return 1
    kept = copy_of(lesson).read_bytes()
    if not is_pristine(lesson):
        keep(lesson)
    write(file_of(lesson), kept)
    show_prose(console, f"lessons/{lesson}.py is yours again")
    return 0


def keep(lesson: str) -> bool:
    """Keep the lesson's file as its one copy; where there is none, the copy before stays."""
    if file_of(lesson).is_file():
        write(copy_of(lesson), source_of(lesson))
    return file_of(lesson).is_file()


def copy_of(lesson: str) -> Path:
    return progress.HERE.memory / "kept" / f"{lesson}.py"
