"""Lessons that are not begun: fresh stubs, on which all is todo, and bodies that do nothing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from kata.paths import ROOT, suites
from lessons import LESSONS
from tests.suite.answers import judge_folder
from tools.stubs import stale_in, write

NAMES = [lesson.name for lesson in LESSONS]


def test_the_stubs_are_fresh(tmp_path: Path):
    assert not stale_in(ROOT / "lessons"), "run `nox -s stubs`"


@pytest.mark.parametrize("part", ["core", pytest.param("not core", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "lesson",
    [*NAMES[:-1], pytest.param(NAMES[-1], marks=pytest.mark.slow)],  # exports are slow
)
def test_on_the_pristine_stub_every_test_is_todo(lesson: str, part: str, tmp_path: Path):
    write(tmp_path)
    verdict = judge_folder(tmp_path, *suites(lesson), "-m", part)
    strangers = [report for report in verdict.reports if not getattr(report, "todo", False)]
    # Whether there is a GPU or Triton is asked before the lesson is.
    asked = [report for report in strangers if re.search("CUDA|Triton", str(report.longrepr))]
    assert [report.nodeid for report in strangers] == [report.nodeid for report in asked]
    assert verdict.count("todo") > 0


@pytest.mark.parametrize("body", ["pass", "return None", "return {first}"])
@pytest.mark.parametrize("lesson", NAMES)
def test_a_trivial_body_passes_no_lesson(lesson: str, body: str, tmp_path: Path):
    write(tmp_path)
    file = tmp_path / f"{lesson}.py"
    file.write_text(with_trivial_bodies(file.read_text(), body))
    verdict = judge_folder(tmp_path, *suites(lesson), "-m", "not slow", "-x")
    assert verdict.texts(), f"{lesson} is passed by `{body}`"


def with_trivial_bodies(stub: str, body: str) -> str:
    """The stub with every ``raise NotImplementedError`` replaced by a body that does nothing."""
    tree = ast.parse(stub)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and isinstance(function.body[-1], ast.Raise):
            function.body[-1:] = ast.parse(body.format(first=first_argument(function))).body
    return ast.unparse(tree)


def first_argument(function: ast.FunctionDef) -> str:
    names = [argument.arg for argument in function.args.args if argument.arg != "self"]
    return names[0] if names else "None"
