"""The command ``reset``: the stub again, and back; one copy of yours is kept."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from kata import workspace
from kata.naming import add_lesson
from kata.prose import show_prose
from kata.stubs import modules_of
from kata.terminal import open_console
from kata.workspace import Files, files_in, pristine, put, write, yours


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    add_lesson(parser)
    parser.add_argument("--undo", action="store_true", help="bring yours back")


def main(arguments: argparse.Namespace) -> int:
    """Write the lesson's stub again and keep a copy of yours, or bring that copy back."""
    console = open_console(plain=arguments.plain)
    return (undo if arguments.undo else reset)(arguments.lesson, console)


def reset(lesson: str, console: Console) -> int:
    stubs, present = pristine(lesson), yours(lesson)
    if present == stubs:
        show_prose(console, f"{lesson} is its stub already: nothing to do")
    else:
        keep(lesson, present)
        for path in put(lesson, stubs):
            show_prose(console, f"lessons/{path.as_posix()} is its stub again")
        show_prose(console, f"yours is kept in {workspace.shown(copy_of(lesson))}")
        show_prose(console, f"`kata reset {lesson} --undo` brings it back")
    if is_hidden(lesson):
        show_prose(
            console, f"lessons/{lesson}/ hides lessons/{lesson}.py from Python: move it away"
        )
    return 0


def undo(lesson: str, console: Console) -> int:
    """Bring the copy back; what was there becomes the copy, so that undo undoes itself."""
    kept, present = files_in(copy_of(lesson), lesson), yours(lesson)
    if not kept:
        show_prose(console, f"no copy of {lesson} is kept: `kata reset {lesson}` makes one")
        return 1
    if present != pristine(lesson):
        keep(lesson, present)
    for path in put(lesson, kept):
        show_prose(console, f"lessons/{path.as_posix()} is yours again")
    return 0


def keep(lesson: str, files: Files) -> None:
    """Keep these files as the lesson's one copy; where there are none, the one before stays."""
    if not files:
        return
    for path in files_in(copy_of(lesson), lesson):
        (copy_of(lesson) / path).unlink()
    for path, content in files.items():
        write(copy_of(lesson) / path, content)


def copy_of(lesson: str) -> Path:
    return workspace.HERE.memory / "kept" / lesson


def is_hidden(lesson: str) -> bool:
    """Whether a package of the learner's own stands in front of the stub."""
    one_file = modules_of(lesson)[0].stub.name == f"{lesson}.py"
    return one_file and (workspace.HERE.lessons / lesson / "__init__.py").exists()
