"""The command ``reset``."""

from __future__ import annotations

import argparse

from rich.console import Console

from kata import places
from kata.copies import keep, pristine, put, yours
from kata.naming import add_lesson
from kata.prose import show_prose
from kata.stubs import modules_of
from kata.terminal import open_console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    add_lesson(parser)


def main(arguments: argparse.Namespace) -> int:
    """Write the lesson's stub again; keep a copy of what was there."""
    console = open_console(plain=arguments.plain)
    reset(arguments.lesson, console)
    return 0


def reset(lesson: str, console: Console) -> None:
    stubs = pristine(lesson)
    if yours(lesson) == stubs:
        show_prose(console, f"{lesson} is its stub already: nothing to do")
    else:
        copy = keep(lesson, "reset")
        for path in put(lesson, stubs):
            show_prose(console, f"lessons/{path.as_posix()} is its stub again")
        show_prose(console, f"yours is kept in {places.shown(copy)}")
        show_prose(console, f"`kata restore {lesson}` brings it back")
    if hidden(lesson):
        show_prose(
            console, f"lessons/{lesson}/ hides lessons/{lesson}.py from Python: move it away"
        )


def hidden(lesson: str) -> bool:
    """Whether a package of the learner's own stands in front of the stub."""
    one_file = modules_of(lesson)[0].stub.name == f"{lesson}.py"
    return one_file and (places.HERE.lessons / lesson / "__init__.py").exists()
