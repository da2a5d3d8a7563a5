"""The command ``check``: judge lessons, and say why one isn't green."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator
from functools import partial

from rich.console import Console

from kata import progress, workspace
from kata.judging import End, Ending, Judge, Report, Request, Verdict
from kata.lesson_names import NAMES, add_lesson, add_step, check_step, lesson_name
from kata.milestones import milestone
from kata.showing import show
from kata.terminal import open_console
from kata.verdict import PASSED
from kata.workspace import is_pristine
from lessons import TOGETHER

SCHEMA = 1
JUDGED = (*NAMES, *TOGETHER)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    words = "the lessons to judge, `finale` or `chain` (default: all)"
    add_lesson(parser, nargs="*", type=partial(lesson_name, known=JUDGED), help=words)
    add_step(parser)
    parser.add_argument("--stretch", action="store_true", help="the stretch has to be green too")
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")


def main(arguments: argparse.Namespace) -> int:
    """Judge the lessons; the exit code is 0 only if all of them are green (a todo isn't)."""
    console = open_console(plain=arguments.plain)
    lessons = tuple(dict.fromkeys(arguments.lesson)) or JUDGED
    check_step(lessons, arguments.step)
    verdicts = []
    notices = open_console(plain=arguments.plain, stderr=True)
    for verdict in judged(lessons, notices, arguments.step):
        verdicts.append(verdict)
        if not arguments.json:
            is_news = verdict.state in PASSED and len(lessons) == 1
            words = milestone(verdict.lesson) if is_news else ""
            show(console, verdict, stretch=arguments.stretch, milestone=words)
    if arguments.json:
        print(json.dumps(as_json(verdicts, stretch=arguments.stretch), indent=2))
    return int(not all(verdict.count(stretch=arguments.stretch).is_green for verdict in verdicts))


def judged(lessons: tuple[str, ...], notices: Console, step: int = 0) -> Iterator[Verdict]:
    """Judge one lesson after the other; a pristine stub is todo without a run."""
    started = {lesson for lesson in lessons if not is_pristine(lesson)}
    with Judge() if started else contextlib.nullcontext() as judge:
        for lesson in lessons:
            if judge is None or lesson not in started:
                yield Verdict(lesson, reports=(), ending=Ending(End.FINISHED))
                continue
            key = progress.key_of(lesson)
            if notices.is_interactive:
                notices.print(f"judging {lesson} …", style="quiet")
            yours = progress.siblings_of(lesson)
            verdict = judge.run(Request(lesson, workspace.HERE.lessons, yours, step=step))
            progress.remember(verdict, key)
            yield verdict


def as_json(verdicts: list[Verdict], *, stretch: bool) -> dict[str, object]:
    """The verdicts as ``docs/commands.md`` describes them."""
    return {
        "schema": SCHEMA,
        "green": all(verdict.count(stretch=stretch).is_green for verdict in verdicts),
        "stretch": stretch,
        "lessons": [lesson_as_json(verdict) for verdict in verdicts],
    }


def lesson_as_json(verdict: Verdict) -> dict[str, object]:
    return {
        "lesson": verdict.lesson,
        "state": verdict.state,
        "core": counts_as_json(verdict, stretch=False),
        "stretch": counts_as_json(verdict, stretch=True),
        "lent": list(verdict.lent),
        "seconds": round(verdict.seconds, 3),
        "ending": {"how": verdict.ending.how, "text": verdict.ending.text},
        "failures": [failure_as_json(report) for report in verdict.of("failed")],
    }


def counts_as_json(verdict: Verdict, *, stretch: bool) -> dict[str, int]:
    counts = verdict.outcomes(stretch=stretch)
    named = {name: counts[name] for name in ("passed", "failed", "todo", "skipped")}
    return {"planned": verdict.planned[stretch], **named}


def failure_as_json(report: Report) -> dict[str, object]:
    return {
        "test": report.nodeid,
        "sentence": report.sentence,
        "case": report.case,
        "stretch": report.is_stretch,
        "text": report.text,
        "printed": report.printed,
    }
