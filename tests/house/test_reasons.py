"""The reasons behind many failures: each once, the suite's own words first."""

from __future__ import annotations

import pytest

from kata.judging import Report
from kata.reasons import Reason, other_reasons, reason_of
from kata.showing import fitting


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
  lessons/a.py, line 3, in f
      return {[]}"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (COMPARED, Reason("", "the first line of the cause and its second", "something else")),
        (
            RAISED,
            Reason(
                "TypeError: unhashable type: 'list'", "a cause in a note that goes on", "a hint"
            ),
        ),
        ("KeyError: 1\n  lessons/a.py, line 3, in f", Reason("KeyError: 1", "")),
        ("expected:     1\ngot:          2", Reason("", "a sentence")),
        ("", Reason("a sentence", "")),
    ],
)
def test_a_reason_is_the_error_the_cause_and_the_hint(text: str, reason: Reason):
    assert reason_of(failed(text)) == reason


def test_each_cause_comes_once_and_the_first_failures_not_at_all():
    first, *others = map(failed, [COMPARED, COMPARED, RAISED, RAISED])
    assert [reason.hint for reason in other_reasons(first, others)] == ["a hint"]


def test_errors_of_one_type_are_one_reason_and_come_after_what_the_suite_knows():
    first, *others = map(failed, [COMPARED, "KeyError: 1", "KeyError: 2", RAISED])
    assert [reason.kind for reason in other_reasons(first, others)] == [
        "a cause in a note that goes on",
        "KeyError",
    ]


def test_hints_are_added_only_where_every_reason_has_its_place():
    reasons = [Reason("", "one", "a hint"), Reason("", "two", "a hint" * 20)]
    assert fitting(reasons, room=1, width=80) == [["- one"]]
    assert fitting(reasons, room=2, width=80) == [["- one (try: a hint)"], ["- two"]]
