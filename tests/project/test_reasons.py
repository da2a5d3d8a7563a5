"""The reasons for many failures: each once, the suite's own words first."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace

import pytest

from kata.failure_reasons import Reason, other_reasons, reason_of
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
              and its second
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
        (COMPARED, Reason("", "the first line of the cause and its second")),
        (
            RAISED,
            Reason("TypeError: unhashable type: 'list'", "a cause in a note that goes on"),
        ),
        ("KeyError: 1\n  lessons/a.py:3, in f", Reason("KeyError: 1", "")),
        ("expected:     1\ngot:          2", Reason("", "a sentence")),
        ("", Reason("a sentence", "")),
    ],
)
def test_a_reason_is_the_error_the_cause_and_the_hint(text: str, reason: Reason):
    assert reason_of(failed(text)) == reason


def test_each_cause_comes_once_and_the_first_failures_not_at_all():
    first, *others = map(failed, [COMPARED, COMPARED, RAISED, RAISED])
    assert [reason.cause for reason in other_reasons(first, others)] == [
        "a cause in a note that goes on"
    ]


def test_errors_of_one_type_are_one_reason_and_come_after_what_the_suite_knows():
    first, *others = map(failed, [COMPARED, "KeyError: 1", "KeyError: 2", RAISED])
    assert [reason.kind for reason in other_reasons(first, others)] == [
        ("TypeError", "a cause in a note that goes on"),
        ("KeyError", ""),
    ]


def test_another_error_is_another_reason_though_the_test_supposes_the_same_cause():
    other = RAISED.replace("TypeError: unhashable type: 'list'", "KeyError: 1")
    reasons = other_reasons(failed(RAISED), [failed(other)])
    assert [reason.why for reason in reasons] == ["KeyError: 1; a cause in a note that goes on"]


def screen_of(*reports: Report) -> str:
    """The screen below the first failure."""
    verdict = Verdict("tracer", reports, Ending(End.FINISHED), planned=(len(reports), 0))
    with contextlib.redirect_stdout(io.StringIO()) as out, an_ordinary_terminal():
        show_rest(open_console(), verdict)
    return out.getvalue()


def many(number: int) -> list[Report]:
    return [failed(COMPARED.replace("second", f"{each}th")) for each in range(number)]


def test_three_other_reasons_are_enough():
    for shown in (screen_of(*many(9)), screen_of(replace(failed(""), outcome="passed"), *many(9))):
        assert shown.count("\n- ") == 3
        assert "8 more red, for 8 other reasons:" in shown
        assert "… and 5 more reasons\n" in shown
    assert "… and 1 more reason\n" in screen_of(*many(5))


def test_a_reason_in_a_list_ends_with_a_sentence():
    long = COMPARED.replace("and its second", "ends. And another sentence")
    shown = screen_of(failed(RAISED), failed(long))
    assert "- the first line of the cause ends.\n" in shown


def test_reasons_that_find_no_room_are_counted():
    long = failed("\n".join(["expected:     1", *["  more"] * 20]))
    assert "for 8 other reasons\n" in screen_of(long, *many(8))
