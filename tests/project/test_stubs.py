"""Stubs: what they keep of a solution; on fresh ones all is todo, and no trivial body passes."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

import tools.stubs
from kata.paths import ROOT, suites
from kata.stubs import stub_of
from lessons import NAMES
from tests.suite import rest_slow
from tests.suite.answers import FirstCases, Outcome, judge_folder
from tools.stubs import stale_in


def test_a_constant_that_only_the_body_of_an_exercise_reads_is_not_in_the_stub():
    source = "_PRIVATE = 2\nPUBLIC = 1\n\n\ndef exercise():\n    return _PRIVATE\n"
    assert "PRIVATE" not in stub_of(source, "example")


def test_a_clone_on_windows_has_the_same_bytes():
    asked = ["git", "check-attr", "text", "eol", "--", "lessons/path_of_module.py"]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line.split(": ")[-1] for line in told.splitlines()] == ["auto", "lf"]


# --- lessons that are not begun


def test_the_stubs_are_fresh():
    assert not stale_in(ROOT / "lessons"), "run `nox -s stubs`"


def test_stubs_are_not_written_over_somebodys_work(lessons: Path, monkeypatch, capsys):
    monkeypatch.setattr(tools.stubs, "STUBS", lessons)
    file, pristine = lessons / "tracer.py", (lessons / "tracer.py").read_text()
    file.write_text(pristine.replace("raise NotImplementedError", "return 1  # ", 1))
    with pytest.raises(SystemExit, match=r"lessons/tracer\.py: Tracer\.trace$"):
        tools.stubs.main(force=False)
    assert file.read_text() != pristine
    tools.stubs.main(force=True)
    assert file.read_text() == pristine
    file.write_text("# of an older version\n" + pristine)
    tools.stubs.main(force=False)
    assert file.read_text() == pristine
    assert capsys.readouterr().out == 2 * "lessons/tracer.py written\n"


@pytest.mark.parametrize("lesson", NAMES)
def test_on_the_pristine_stub_the_first_case_of_each_test_of_the_core_is_todo(
    lesson: str, lessons: Path
):
    all_is_todo(judge_folder(lessons, suites(lesson)[0], "-m", "core", plugins=[FirstCases()]))


@pytest.mark.slow
@pytest.mark.parametrize("lesson", NAMES)
def test_on_the_pristine_stub_every_test_is_todo(lesson: str, lessons: Path):
    all_is_todo(judge_folder(lessons, *suites(lesson), "-m", "core or not core"))


def all_is_todo(verdict: Outcome) -> None:
    """Fail unless each test waits for what is to be written, or for a machine that has more."""
    strangers = [report for report in verdict.reports if not getattr(report, "todo", False)]
    # Whether there is a GPU or Triton is asked before the lesson is.
    asked = [report for report in strangers if re.search("CUDA|Triton", str(report.longrepr))]
    assert [report.nodeid for report in strangers] == [report.nodeid for report in asked]
    assert verdict.count("todo") > 0


@pytest.mark.parametrize("body", rest_slow(("return {first}", "pass"), quick=1))
@pytest.mark.parametrize("lesson", NAMES)
def test_a_trivial_body_passes_no_lesson(lesson: str, body: str, lessons: Path):
    file = lessons / f"{lesson}.py"
    file.write_text(with_trivial_bodies(file.read_text(), body))
    verdict = judge_folder(lessons, suites(lesson)[0], "-x")
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
