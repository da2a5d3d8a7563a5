"""What a learner reads where a test never came to its question: a skip, an import, a typo."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kata.judging import End, Ending, Judge, Report, Request, Verdict
from kata.paths import CORES
from kata.showing import show
from kata.terminal import open_console
from tests.suite.answers import judge_folder
from tools.stubs import write

LESSON = "path_of_module"
ROOT_TEST = f"tests/test_{LESSON}.py::test_the_root_is_the_empty_string"
METHOD = "class PathOfModule:\n    def path_of_module(self, mod):\n        "
CANNOT = f"lessons/{LESSON}.py can't be imported"


@pytest.fixture
def lessons(tmp_path: Path) -> Path:
    write(tmp_path / "lessons")
    return tmp_path / "lessons"


def read(lessons: Path, source: str) -> str:
    """Return what the terminal shows for one test on this source, its lines joined."""
    (lessons / f"{LESSON}.py").write_text(source)
    return " ".join(judge_folder(lessons, ROOT_TEST).terminal.split())


@pytest.mark.parametrize(
    "source",
    [
        f"import pytest\n{METHOD}pytest.skip('later')",
        f"import pytest\n{METHOD}pytest.xfail('later')",
        f"import unittest\n{METHOD}raise unittest.SkipTest('later')",
        "import pytest\npytest.skip('later', allow_module_level=True)",
    ],
    ids=["skip", "xfail", "unittest", "at the import"],
)
def test_a_lesson_that_has_its_tests_skipped_is_red(source: str, judge: Judge, lessons: Path):
    (lessons / f"{LESSON}.py").write_text(source)
    verdict = judge.run(Request(LESSON, lessons))
    assert (verdict.state, verdict.count(stretch=False).is_green) == ("red", False)
    assert len(verdict.of("failed")) == len(verdict.reports)
    assert "the lesson's own code skipped the test" in verdict.first_failure.text


def test_a_skip_by_the_suites_own_mark_is_no_failure(lessons: Path):
    class NeedsMore:
        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            items[0].add_marker(pytest.mark.skip(reason="needs CUDA"))

    shutil.copy(CORES / f"{LESSON}.py", lessons)
    verdict = judge_folder(lessons, f"tests/test_{LESSON}.py", plugins=[NeedsMore()])
    assert (verdict.count("skipped"), verdict.count("failed")) == (1, 0)
    assert "skipped: 1 (needs CUDA)" in verdict.terminal


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("class PathOfModule\n", [":1: expected ':'"]),
        ("1 / 0\n", ["ZeroDivisionError", f"lessons/{LESSON}.py:1"]),
        ("import sys\nsys.exit()\n", ["SystemExit", f"lessons/{LESSON}.py:2"]),
    ],
)
def test_an_import_that_fails_stands_under_its_own_title(source, words, lessons: Path):
    shown = read(lessons, source)
    assert f"── {LESSON}: {CANNOT} ─" in shown
    assert all(word in shown for word in words)


def test_the_runner_says_what_waits_for_the_import(judge: Judge, lessons: Path, capsys):
    (lessons / f"{LESSON}.py").write_text("import nothing_like_it\n")
    verdict = judge.run(Request(LESSON, lessons))
    show(open_console(), verdict)
    shown = capsys.readouterr().out
    assert f"── {LESSON}: {CANNOT} ─" in shown
    assert f"all {sum(verdict.planned)} tests wait for this" in shown


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("from torch import nnn", "ImportError: cannot import name 'nnn' from 'torch'"),
        ("import torhc", "ModuleNotFoundError: No module named 'torhc'"),
        ("from .create_args import CreateArg", "no lesson is called create_args"),
        ("from .create_arg import MakeArg", "cannot import name 'MakeArg'"),
    ],
)
def test_a_misspelt_import_says_what_is_not_there(statement: str, words: str, lessons: Path):
    shown = read(lessons, f"{statement}\n")
    assert words in shown
    assert f"lessons/{LESSON}.py:1, in <module> {statement}" in shown
    assert str(lessons.parent) not in shown


def test_a_name_that_the_code_misspells_has_no_cause_that_a_test_supposes(lessons: Path):
    (lessons / f"{LESSON}.py").write_text(f"{METHOD}return selff.root\n")
    texts = judge_folder(lessons, f"tests/test_{LESSON}.py").texts()
    assert len(texts) > 20
    assert not [text for text in texts if "likely cause" in text or "'selff'" not in text]


@pytest.mark.parametrize("call", ["breakpoint()", "input('?')", "__import__('pdb').set_trace()"])
def test_what_wants_a_terminal_is_told_what_has_one(call: str, judge: Judge, lessons: Path):
    (lessons / f"{LESSON}.py").write_text(f"{METHOD}{call}\n")
    text = judge.run(Request(LESSON, lessons)).first_failure.text
    assert f":3, in {LESSON}\n      {call}\n" in text
    assert "the tests run without one" in " ".join(text.split())
    assert f"`pytest tests/test_{LESSON}.py -x -s`" in text


HUGE = "raise ValueError('x' * 10**7)"
MUTE = """
class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no")


"""


@pytest.mark.parametrize(
    ("source", "words"),
    [(f"{METHOD}{HUGE}", "ValueError: xxx"), (f"{MUTE}{METHOD}raise Mute", "text can't be had")],
    ids=["huge", "mute"],
)
def test_an_error_with_a_strange_text_is_one_failure(source, words, judge: Judge, lessons: Path):
    (lessons / f"{LESSON}.py").write_text(source)
    verdict = judge.run(Request(LESSON, lessons))
    assert (verdict.is_finished, len(verdict.reports)) == (True, sum(verdict.planned))
    assert words in verdict.first_failure.text
    assert all(len(report.text) < 5000 for report in verdict.reports)


def test_what_is_known_is_shown_before_the_end_that_cut_it_short(capsys):
    red = Report(ROOT_TEST, "a sentence", "failed", is_stretch=False, text="why it failed")
    slow = Ending(End.TIME, "still running after 10 s, so it was stopped: endless loop or wait?")
    show(open_console(), Verdict(LESSON, (red,), slow, planned=(2, 0)))
    shown = capsys.readouterr().out
    assert shown.index("why it failed") < shown.index("endless loop or wait?")


def test_what_is_the_references_own_is_said(judge: Judge, lessons: Path, capsys):
    (lessons / f"{LESSON}.py").write_text(f"from solutions.stretch.{LESSON} import *\n")
    show(open_console(), judge.run(Request(LESSON, lessons)))
    said = "the reference's own: PathOfModule.path_of_module"
    assert said in capsys.readouterr().out


def test_what_is_torchs_own_is_said_under_any_name(judge: Judge, lessons: Path):
    source = (
        "import torch\n\nclass PathOfModule:\n    path_of_module = torch.fx.Tracer.path_of_module\n"
    )
    (lessons / f"{LESSON}.py").write_text(source)
    verdict = judge.run(Request(LESSON, lessons))
    assert verdict.borrowed == ("torch's own: PathOfModule.path_of_module",)


def test_pytest_exit_in_a_lesson_is_red(judge: Judge, lessons: Path):
    (lessons / f"{LESSON}.py").write_text(f"import pytest\n{METHOD}pytest.exit('done')")
    assert judge.run(Request(LESSON, lessons)).state == "red"
    (lessons / f"{LESSON}.py").write_text("import pytest\npytest.exit('done')")
    assert judge.run(Request(LESSON, lessons)).state == "red"
