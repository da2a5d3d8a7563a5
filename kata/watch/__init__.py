"""The command ``watch``: judge a lesson each time it is saved."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from kata import places
from kata.judging import Judge
from kata.naming import add_lesson
from kata.places import Place
from kata.terminal import open_console
from kata.watch.keys import keys
from kata.watch.screen import Screen
from kata.watch.watch import Watch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    add_lesson(parser, nargs="?", help="the lesson to watch (default: whichever is saved)")
    parser.add_argument(
        "--lessons",
        metavar="DIR",
        type=Path,
        help="where the lessons lie, if not in lessons/; what is remembered lies beside them",
    )


def main(arguments: argparse.Namespace) -> int:
    """Watch until the learner quits."""
    if arguments.lessons:
        folder = arguments.lessons.resolve()
        places.HERE = Place(folder, folder.parent / ".kata")
    with ended_by_signals(), Judge() as judge, keys() as read_key:
        screen = Screen(open_console(plain=arguments.plain), has_keys=read_key is not None)
        Watch(judge, screen, arguments.lesson).run(read_key)
    return 0


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """End in good order when the terminal is closed or the process is told to end."""
    wanted = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = [signal.signal(number, lambda *_: sys.exit(0)) for number in wanted]
    try:
        yield
    finally:
        for number, handler in zip(wanted, before, strict=True):
            signal.signal(number, handler)
