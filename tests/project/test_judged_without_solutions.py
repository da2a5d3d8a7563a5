"""The learner's own files are graded: nothing changes where ``solutions`` cannot be imported."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

import pytest

from kata.commands import check
from kata.judging import Judge, Verdict
from kata.terminal import open_console
from kata.workspace import Workspace
from tests.project.stage import a_learner
from tests.project.submissions import STARRED

LESSON = "path_of_module"
BLOCK = """
import sys

class NoSolutions:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "solutions":
            raise ImportError("solutions was imported")

sys.meta_path.insert(0, NoSolutions())
"""


@pytest.fixture(scope="module")
def without_solutions(tmp_path_factory) -> Iterator[Judge]:
    """A judge in whose processes ``solutions`` cannot be imported."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(BLOCK)
    with mock.patch.dict(os.environ, PYTHONPATH=str(folder)):
        judge = Judge()
    with judge:
        yield judge


@pytest.fixture
def learner() -> Iterator[Workspace]:
    with a_learner(LESSON, "create_arg") as place:
        yield place


def checked_by(judge: Judge, *lessons: str) -> list[Verdict]:
    """The verdicts of ``check`` with this judge, but for the time they took."""
    with mock.patch.object(check, "Judge", lambda: contextlib.nullcontext(judge)):
        return [without_times(each) for each in check.judged(lessons, open_console())]


def lasting(text: str) -> str:
    """A text without white space, for a long path may be wrapped, and without names of a run."""
    return re.sub(r"/kata-\w+/|0x[0-9a-f]+", "/", "".join(text.split()))


def without_times(verdict: Verdict) -> Verdict:
    """The verdict without what differs between runs: seconds, addresses, the path of the suite."""
    reports = tuple(replace(report, text=lasting(report.text)) for report in verdict.reports)
    return replace(verdict, reports=reports)


def test_the_result_is_the_same_where_solutions_cannot_be_imported(
    learner, judge, without_solutions
):
    """The learner's files are graded, and no others: a wrong one and a right one."""
    (learner.lessons / f"{LESSON}.py").write_text(STARRED)
    wrong = "class CreateArg:\n    def create_arg(self, a):\n        return a\n"
    (learner.lessons / "create_arg.py").write_text(wrong)
    expected = checked_by(judge, LESSON, "create_arg")
    verdicts = checked_by(without_solutions, LESSON, "create_arg")
    assert verdicts == expected
    assert [verdict.state for verdict in verdicts] == ["starred", "red"]


def test_a_lesson_that_imports_the_solution_fails_there(learner, without_solutions):
    """The other way round: there, ``solutions`` really cannot be imported."""
    (learner.lessons / f"{LESSON}.py").write_text(
        "from solutions.stretch.path_of_module import *\n"
    )
    (verdict,) = checked_by(without_solutions, LESSON)
    assert verdict.state == "red"
    assert lasting("solutions was imported") in verdict.of("failed")[0].text
