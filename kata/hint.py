"""The command ``hint``."""

from __future__ import annotations

import argparse

from kata.hints import every_hint, next_hint, what_is_left
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
    show_prose(console, what_is_left(lesson, f"`kata hint {lesson}`"))
    return 0
