"""The lessons by name, as words of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from difflib import get_close_matches

from lessons import LESSONS

NAMES = tuple(lesson.name for lesson in LESSONS)


def lesson_name(text: str, known: tuple[str, ...] = NAMES) -> str:
    """The lesson that a word means: its name, or its file, as a shell completes it.

    Raises:
        ArgumentTypeError: no lesson is called so; the message has the nearest names.
    """
    name = text.rstrip("/").rsplit("/", 1)[-1].removesuffix(".py").removeprefix("test_")
    if name not in known:
        message = f"no lesson is called {text!r}{near(name, known)}"
        raise argparse.ArgumentTypeError(message)
    return name


def near(word: str, known: Collection[str]) -> str:
    """What to add to an error about an unknown word: the nearest ones, or all."""
    matches = get_close_matches(word, known, n=3, cutoff=0.5)
    return f": did you mean {' or '.join(matches)}?" if matches else f" (known: {', '.join(known)})"


def add_lesson(parser: argparse.ArgumentParser, **options: object) -> None:
    """Add the argument that names a lesson (``nargs="*"``: lessons)."""
    options.setdefault("type", lesson_name)
    parser.add_argument("lesson", metavar="LESSON", **options)  # type: ignore[arg-type]
