"""From what a run said to a grade."""

from __future__ import annotations

from dataclasses import replace

from kata.failure_reasons import reason_of
from kata.grading.report import Failure, Grade, State
from kata.judging import End, Report, Verdict

LINES, WIDTH, LONGEST, ALSO_RED = 30, 120, 200, 8
STATES = {
    End.TIME: State.HUNG,
    End.MEMORY: State.MEMORY,
    End.CRASHED: State.CRASHED,
    End.EXITED: State.CRASHED,
    End.INTERRUPTED: State.CRASHED,
    End.BROKEN: State.NOT_JUDGED,
    End.STOPPED: State.NOT_JUDGED,
}


def grade_of(verdict: Verdict) -> Grade:
    """The grade that a verdict earns; a run that was cut short has its own word."""
    sentences = [clipped(each.sentence) for each in verdict.failures[1:]]
    return Grade(
        lesson=verdict.lesson,
        state=STATES.get(verdict.ending.how) or State(verdict.state),
        core=verdict.count(stretch=False),
        stretch=verdict.count(stretch=True),
        seconds=round(verdict.seconds, 2),
        failure=failure_of(verdict),
        also_red=tuple(dict.fromkeys(sentences))[:ALSO_RED],
        lent=verdict.lent,
        borrowed=tuple(map(clipped, verdict.borrowed)),
    )


def failure_of(verdict: Verdict) -> Failure | None:
    """Return what to read first: the failure that is known, or how the run ended."""
    if not verdict.is_finished:
        text = clipped(verdict.ending.text)
        return Failure(clipped(verdict.ending.during), first_line(text), text)
    if not (first := verdict.first_failure):
        return None
    shown = replace(first, text=clipped(first.text))
    return Failure(clipped(first.headline), diagnosis(shown), shown.text)


def not_judged(lesson: str, error: Exception) -> Grade:
    """The grade of a lesson whose run could not be had."""
    text = clipped(f"{type(error).__name__}: {error}")
    return Grade(lesson, State.NOT_JUDGED, failure=Failure("", first_line(text), text))


def diagnosis(failure: Report) -> str:
    """Return the likely cause of a failure, or else its error, or its test, on one line."""
    reason = reason_of(failure)
    return first_line(reason.cause or reason.raised)


def first_line(text: str) -> str:
    return (text.splitlines() or [""])[0][:LONGEST]


def clipped(text: str) -> str:
    """Text of a bearable length, without characters that control a terminal."""
    lines = text[: LINES * WIDTH * 4].splitlines()
    kept = ["".join(c if c.isprintable() else "�" for c in line)[:WIDTH] for line in lines[:LINES]]
    more = [f"… {len(lines) - LINES} more lines"] if len(lines) > LINES else []
    return "\n".join(kept + more)
