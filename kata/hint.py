"""The command ``hint``."""

from __future__ import annotations

import argparse

from kata.hints import every_hint, hints_of, level_seen, next_hint
from kata.naming import add_lesson
from kata.prose import show_prose
from kata.terminal import open_console


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
    show_prose(console, what_is_left(lesson))
    return 0


def what_is_left(lesson: str) -> str:
    left = len(hints_of(lesson)) - level_seen(lesson)
    if left:
        return f"{left} more: `kata hint {lesson}`"
    return f"That was the last one. `kata solution {lesson} --show-me` shows the reference."
