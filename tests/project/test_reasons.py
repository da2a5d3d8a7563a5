"""The reason for a failure, and what is said of the failures after the first."""

from __future__ import annotations

import contextlib
import io

import pytest

from kata.failure_reasons import reason_of
from kata.judging import End, Ending, Report, Verdict
from kata.showing import show_rest
from kata.terminal import open_console
from tests.project.stage import an_ordinary_terminal


def failed(text: str) -> Report:
    return Report("tests/test_a.py::test_a", "a sentence", "failed", is_stretch=False, text=text)


COMPARED = """\
expected:     1
got:          2
likely cause: the first line of the cause
              and its second. Another sentence
try:          something else"""
RAISED = """\
TypeError: unhashable type: 'list'
likely cause: a cause in a note that goes
  on
try: a hint
  lessons/a.py:3, in f
      return {[]}"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (COMPARED, "the first line of the cause and its second."),
        (RAISED, "a cause in a note that goes on"),
        ("KeyError: 1\n  lessons/a.py:3, in f", "KeyError: 1"),
        ("expected:     1\ngot:          2", "a sentence"),
        ("", "a sentence"),
    ],
)
def test_a_reason_is_the_cause_or_the_error_or_the_test(text: str, reason: str):
    assert reason_of(failed(text)) == reason


@pytest.mark.parametrize(
    ("others", "shown"),
    [
        ([], "\n"),
        ([COMPARED, "KeyError: 1"], "2 more red\n\n"),
        (
            [COMPARED, "KeyError: 1", RAISED],
            "3 more red, with another likely cause:\n- a cause in a note that goes on\n\n",
        ),
    ],
)
def test_the_others_are_counted_and_one_cause_is_told_if_it_is_another(others, shown):
    reports = tuple(map(failed, [COMPARED, *others]))
    verdict = Verdict("tracer", reports, Ending(End.FINISHED), planned=(len(reports), 0))
    with contextlib.redirect_stdout(io.StringIO()) as out, an_ordinary_terminal():
        show_rest(open_console(), verdict)
    assert out.getvalue() == shown
