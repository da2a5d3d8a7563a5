"""Arguments that several commands take: a lesson, and a step of it."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from difflib import get_close_matches

from kata.steps import steps_of
from lessons import NAMES


class UsageError(Exception):
    """The command can't be run; the message says why, and what to do instead."""


def lesson_name(text: str, known: tuple[str, ...] = NAMES) -> str:
    """The lesson that a word means: its name, or its file, as a shell completes it."""
    name = text.rstrip("/").rsplit("/", 1)[-1].removesuffix(".py").removeprefix("test_")
    if name not in known:
        message = f"no lesson is called {text!r}{near(name, known)}"
        raise argparse.ArgumentTypeError(message)
    return name


def near(word: str, known: Collection[str]) -> str:
    """Return what to add to an error about an unknown word: the nearest ones, or all."""
    matches = get_close_matches(word, known, n=3, cutoff=0.5)
    return f": did you mean {' or '.join(matches)}?" if matches else f" (known: {', '.join(known)})"


def add_step(parser: argparse.ArgumentParser, words: str = "this step's tests alone") -> None:
    """Add the option that names a step of one lesson, by its number."""
    parser.add_argument("--step", type=int, default=0, metavar="N", help=words)


def check_step(lessons: Collection[str], step: int) -> None:
    """Refuse a step that isn't one of the one lesson given."""
    if step:
        if len(lessons) != 1:
            raise UsageError("--step needs one lesson: `kata check graph --step 2`")
        (lesson,) = lessons
        steps = steps_of(lesson)
        if not steps:
            raise UsageError(f"{lesson} has no steps")
        if step not in steps:
            known = "\n".join(f"  {number}: {each.title}" for number, each in steps.items())
            raise UsageError(f"{lesson} has no step {step}; its steps are\n{known}")


def add_lesson(parser: argparse.ArgumentParser, **options: object) -> None:
    """Add the argument that names a lesson (``nargs="*"``: lessons)."""
    options.setdefault("type", lesson_name)
    parser.add_argument("lesson", metavar="LESSON", **options)  # type: ignore[arg-type]
