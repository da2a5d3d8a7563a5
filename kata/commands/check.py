"""The command ``check``: judge lessons, and say why one isn't green."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from functools import partial

from rich.console import Console

from kata import progress
from kata.arguments import add_lesson, add_step, check_step, lesson_name
from kata.judge import Judge
from kata.progress import is_pristine
from kata.showing import show
from kata.terminal import open_console
from kata.verdict import PASSED, End, Ending, State, Verdict
from lessons import NAMES, TOGETHER

JUDGED = (*NAMES, *TOGETHER)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    words = "the lessons to judge, `finale` or `chain` (default: all)"
    add_lesson(parser, nargs="*", type=partial(lesson_name, known=JUDGED), help=words)
    add_step(parser)
    parser.add_argument("--stretch", action="store_true", help="the stretch has to be green too")


def main(arguments: argparse.Namespace) -> int:
    """Judge the lessons; the exit code is 0 only if all of them are green (a todo isn't)."""
    console = open_console()
    lessons = tuple(dict.fromkeys(arguments.lesson)) or JUDGED
    check_step(lessons, arguments.step)
    is_green = True
    for verdict in verdicts(lessons, open_console(stderr=True), arguments.step):
        is_news = verdict.state in PASSED and len(lessons) == 1
        words = progress.milestone(verdict.lesson) if is_news else ""
        show(console, verdict, stretch=arguments.stretch, milestone=words)
        # The finale and the chain have no stretch.
        is_enough = (
            PASSED if verdict.lesson in TOGETHER or not arguments.stretch else (State.STARRED,)
        )
        is_green &= verdict.state in is_enough
    return int(not is_green)


def verdicts(lessons: tuple[str, ...], notices: Console, step: int) -> Iterator[Verdict]:
    """Judge one lesson after the other; a pristine stub is todo without a run.

    The finale and the chain, if they are asked for, run with what is lent.
    """
    asked = TOGETHER.keys() if len(lessons) < len(JUDGED) else set()
    started = {lesson for lesson in lessons if lesson in asked or not is_pristine(lesson)}
    with Judge() if started else contextlib.nullcontext() as judge:
        for lesson in lessons:
            if judge is None or lesson not in started:
                yield Verdict(lesson, reports=(), ending=Ending(End.FINISHED))
                continue
            if notices.is_interactive:
                notices.print(f"judging {lesson} …", style="quiet")
            request = progress.request(lesson, step=step)
            verdict = judge.run(request)
            progress.remember(verdict, progress.hash_of(lesson, request.sources))
            yield verdict
