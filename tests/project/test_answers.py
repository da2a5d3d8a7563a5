"""``kata check`` says why a wrong answer is wrong, and shows no red on a right one.

An answer is judged in this process, or in a fork of it; what is judged goes the way of every run:
the events that the suite writes, the verdict that the runner makes of them, the screen that ``kata
check`` shows.
"""

from __future__ import annotations

import gc
import io
import json
import multiprocessing
import os
import re
import signal
from collections.abc import Callable
from types import FrameType

import pytest

from kata.showing import LINES, show
from kata.terminal import open_console
from kata.verdict import End, Ending, Report, Verdict
from tests.suite.answers import (
    CORE,
    WHOLE,
    Answer,
    Outcome,
    all_answers,
    judge,
    judge_in_turn,
)
from tests.suite.expect import WIDTH
from tests.suite.reporting import content_of

ANSWERS = all_answers()
RIGHT = [answer for answer in ANSWERS if not answer.fails]
WRONG = [answer for answer in ANSWERS if answer.fails]
LEAST_WRONG, LEAST_RIGHT = 12, 3
SECONDS = 10  # what a learner's test may take


def checked(answer: Answer, judged: Outcome) -> Verdict:
    """The verdict that ``kata check`` shows: the reports as JSON brings them, the core first."""
    contents = [json.loads(json.dumps(content_of(report))) for report in judged.reports]
    reports = sorted((Report(**each) for each in contents), key=lambda each: each.is_stretch)
    planned = [sum(each.is_stretch == stretch for each in reports) for stretch in (False, True)]
    return Verdict(answer.lesson, tuple(reports), Ending(End.FINISHED), tuple(planned))


def screen(verdict: Verdict, *, stretch: bool = False) -> str:
    """What ``kata check`` shows of a verdict on 80 columns."""
    shown = io.StringIO()
    show(open_console(stream=shown, width=WIDTH), verdict, stretch=stretch)
    return shown.getvalue()


def assert_says(answer: Answer, text: str) -> None:
    """The words of the mistake are on the screen, and the screen fits the terminal."""
    lines = text.splitlines()
    words = " ".join(" ".join(lines[:LINES]).split())
    assert answer.says in words, f"{answer}:\n{text}"
    assert not answer.never or answer.never not in words, f"{answer}:\n{text}"
    assert len(lines) <= LINES, text
    assert max(map(len, lines)) <= WIDTH, text


@pytest.mark.parametrize("answer", WRONG, ids=str)
def test_a_wrong_answer_fails_its_test_and_the_screen_says_why(answer: Answer):
    verdict = checked(answer, judge_in_turn(answer.lesson, wrong=True)[str(answer)])
    assert verdict.of("failed"), f"{answer} passes {answer.fails}"
    assert_says(answer, screen(verdict))


@pytest.mark.parametrize("answer", RIGHT, ids=str)
def test_a_right_answer_of_another_shape_is_done(answer: Answer):
    verdict = checked(answer, judge_in_turn(answer.lesson, wrong=False)[str(answer)])
    assert verdict.count(stretch=False).is_green, screen(verdict)
    # With no test of the stretch asked for, none is missing.
    assert screen(verdict).startswith(("done", "starred")), screen(verdict)


@pytest.mark.slow  # each meets a whole suite
@pytest.mark.parametrize("answer", RIGHT, ids=str)
def test_a_right_answer_shows_nothing_red_in_the_stretch_either(answer: Answer):
    verdict = checked(answer, judge(answer, marks=CORE if answer.core_only else WHOLE))
    text = screen(verdict)
    assert verdict.count(stretch=not answer.core_only).is_green, text
    assert text.startswith(("done", "starred") if answer.core_only else "starred"), text


@pytest.mark.slow
@pytest.mark.whole  # in a process of its own: it may leave traces
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("answer", WRONG, ids=str)
def test_the_whole_suite_says_why_an_answer_is_wrong(answer: Answer):
    """Other tests fail as well, and some of them before the one that knows the mistake."""

    def told() -> tuple[str, str]:
        verdict = checked(answer, judge(answer, plugins=[Patience()]))
        # If the core is done, what the stretch lacks is shown to those who ask for it.
        shown = screen(verdict, stretch=verdict.count(stretch=False).is_green)
        return shown, "\n".join(report.text for report in verdict.of("failed"))

    shown, everything = in_a_fork(told)
    if leaves_out(shown):  # a learner first fixes what it shows
        assert answer.says in " ".join(everything.split())
        assert len(shown.splitlines()) <= LINES, shown
    else:
        assert_says(answer, shown)


def leaves_out(shown: str) -> bool:
    """Return whether more is red than the screen shows: the first failure, and one other cause."""
    return re.search(r"^\d+ more tests? (?:is|are) red", shown, re.MULTILINE) is not None


class Patience:
    """A plugin that interrupts the run in a test that never comes to its end."""

    def __init__(self) -> None:
        signal.signal(signal.SIGALRM, self.interrupt)

    def interrupt(self, _signal: int, frame: FrameType | None) -> None:
        if frame is None or frame.f_lineno is None:  # on no line, which pytest's report can't show
            signal.setitimer(signal.ITIMER_REAL, 0.001)
        else:
            raise KeyboardInterrupt

    def pytest_runtest_logstart(self) -> None:
        signal.alarm(SECONDS)

    def pytest_runtest_logfinish(self) -> None:
        signal.alarm(0)


def in_a_fork(work: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """Return what ``work`` returns when a copy of this process does it."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)

    def child() -> None:
        gc.freeze()  # to look at what it shares with this process would copy that
        there.send(work())

    process = fork.Process(target=child)
    process.start()
    there.close()
    try:
        return here.recv()
    finally:
        process.join()


@pytest.mark.parametrize("lesson", sorted({answer.lesson for answer in ANSWERS}))
def test_each_lesson_has_enough_answers(lesson: str):
    answers = [answer for answer in ANSWERS if answer.lesson == lesson]
    assert sum(bool(answer.fails) for answer in answers) >= LEAST_WRONG
    assert sum(not answer.fails for answer in answers) >= LEAST_RIGHT
    assert all(answer.change.__doc__ for answer in answers), "the mistake isn't said in words"
