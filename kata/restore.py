"""The command ``restore``."""

from __future__ import annotations

import argparse

from rich.console import Console

from kata.copies import Copy, copies_of, keep, pristine, put, yours
from kata.naming import add_lesson
from kata.prose import show_prose
from kata.terminal import open_console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    add_lesson(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--list", action="store_true", help="list the copies, bring none back")
    which.add_argument("--copy", type=int, metavar="N", help="bring copy N back, not the latest")


def main(arguments: argparse.Namespace) -> int:
    """Bring a copy of the lesson back; keep a copy of what was there."""
    console = open_console(plain=arguments.plain)
    copies = copies_of(arguments.lesson)
    if not copies:
        show_prose(
            console, f"no copy of {arguments.lesson} is kept: reset, restore and update make one"
        )
        return 1
    if arguments.list:
        show(copies, arguments.lesson, console)
        return 0
    return restore(arguments.lesson, copies, arguments.copy, console)


def show(copies: list[Copy], lesson: str, console: Console) -> None:
    present = yours(lesson)
    for copy in copies:
        same = " (what is there now)" if copy.files == present else ""
        console.print(f"{copy.number:>3}  {copy.label}{same}")


def restore(lesson: str, copies: list[Copy], number: int | None, console: Console) -> int:
    copy = chosen(copies, number, lesson)
    if copy is None:
        wanted = "no other copy" if number is None else f"no copy {number}"
        show_prose(console, f"there is {wanted} of {lesson}: `kata restore {lesson} --list`")
        return 1
    if yours(lesson) not in (copy.files, pristine(lesson)):
        keep(lesson, "restore")
    for path in put(lesson, copy.files):
        what = "is as it was" if path in copy.files else "is gone, as it was"
        show_prose(console, f"lessons/{path.as_posix()} {what} ({copy.label})")
    return 0


def chosen(copies: list[Copy], number: int | None, lesson: str) -> Copy | None:
    """The copy of that number, or else the latest one that differs from what is there."""
    if number is not None:
        return next((copy for copy in copies if copy.number == number), None)
    present = yours(lesson)
    return next((copy for copy in copies if copy.files != present), None)
