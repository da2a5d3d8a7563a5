"""The lessons by name, as words of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from difflib import get_close_matches

from lessons import FINALE, LESSONS

NAMES = tuple(lesson.name for lesson in LESSONS)
# What is judged: the lessons, and after them their pieces as one engine.
JUDGED = (*NAMES, FINALE.name)


def lesson_name(text: str) -> str:
    """The lesson that a word means: its name, or its file, as a shell completes it.

    Raises:
        ArgumentTypeError: no lesson is called so; the message has the nearest names.
    """
    name = text.rstrip("/").rsplit("/", 1)[-1].removesuffix(".py").removeprefix("test_")
    if name not in NAMES:
        message = f"no lesson is called {text!r}{near(name, NAMES)}"
        raise argparse.ArgumentTypeError(message)
    return name


def near(word: str, known: Iterable[str]) -> str:
    """What to add to an error about an unknown word: the nearest ones, or all."""
    known = list(known)
    matches = get_close_matches(word, known, n=3, cutoff=0.5)
    return f": did you mean {' or '.join(matches)}?" if matches else f" (known: {', '.join(known)})"


def add_lesson(parser: argparse.ArgumentParser, **options: object) -> None:
    """Add the argument that names a lesson (``nargs="*"``: lessons)."""
    parser.add_argument("lesson", type=lesson_name, metavar="LESSON", **options)  # type: ignore[arg-type]


def judged_name(text: str) -> str:
    """The lesson that a word means, or the finale."""
    return text if text == FINALE.name else lesson_name(text)
