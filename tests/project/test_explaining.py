"""What a learner reads if a test never came to its question: a skip, an import, a typo, a state."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch.distributed

from kata.judge import Judge
from kata.paths import CORES, suites
from kata.showing import show
from kata.terminal import open_console
from kata.verdict import End, Ending, Report, Verdict, sentence_of
from tests.project.stage import request
from tests.project.submissions import NAMES_THE_LAST
from tests.suite.answers import judge_folder, test_name

LESSON = "path_of_module"
ROOT_TEST = f"tests/test_{LESSON}.py::test_the_root_is_the_empty_string"
METHOD = "class PathOfModule:\n    def path_of_module(self, mod):\n        "
CANNOT = f"lessons/{LESSON}.py can't be imported"


def judged(judge: Judge, lessons: Path, source: str) -> Verdict:
    """The verdict on a source."""
    (lessons / f"{LESSON}.py").write_text(source)
    return judge.run(request(lessons, LESSON))


def read(lessons: Path, source: str) -> str:
    """Return what the terminal shows for one test on this source, its lines joined."""
    (lessons / f"{LESSON}.py").write_text(source)
    return " ".join(judge_folder(lessons, ROOT_TEST).terminal.split())


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("test_the_orders_are_torch_s[gpipe-2]", "the orders are torch's"),
        ("test_numbers_equal_eager_s_of_course", "numbers equal eager's of course"),
        ("test_a_sum_is_recorded", "a sum is recorded"),
    ],
)
def test_the_name_of_a_test_is_a_sentence(test: str, words: str):
    assert sentence_of(f"tests/test_x.py::{test}") == words


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
    verdict = judged(judge, lessons, source)
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


def test_a_skip_in_a_line_of_the_suite_is_no_failure(lessons: Path, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_gloo_available", lambda: False)
    shutil.copy(CORES / "schedule.py", lessons)
    words = ("-k", "processes_compute", "-m", "slow")
    verdict = judge_folder(lessons, "tests/stretch/test_schedule.py", *words)
    assert (verdict.count("skipped") > 0, verdict.count("failed")) == (True, 0)
    assert "this torch has no gloo" in verdict.terminal


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
    verdict = judged(judge, lessons, "import nothing_like_it\n")
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
    text = judged(judge, lessons, f"{METHOD}{call}\n").first_failure.text
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
    verdict = judged(judge, lessons, source)
    assert (verdict.is_finished, len(verdict.reports)) == (True, sum(verdict.planned))
    assert words in verdict.first_failure.text
    assert all(len(report.text) < 5000 for report in verdict.reports)


def test_what_is_known_is_shown_before_the_end_that_cut_it_short(capsys):
    red = Report(ROOT_TEST, "a sentence", "failed", is_stretch=False, text="why it failed")
    slow = Ending(
        End.TIME, "still running after 10 s, so it was stopped: infinite loop or deadlock?"
    )
    show(open_console(), Verdict(LESSON, (red,), slow, planned=(2, 0)))
    shown = capsys.readouterr().out
    assert shown.index("why it failed") < shown.index("infinite loop or deadlock?")


def test_what_is_the_references_own_is_said(judge: Judge, lessons: Path, capsys):
    show(open_console(), judged(judge, lessons, f"from solutions.stretch.{LESSON} import *\n"))
    said = "the reference's own: PathOfModule.path_of_module"
    assert said in capsys.readouterr().out


def test_what_is_torchs_own_is_said_under_any_name(judge: Judge, lessons: Path):
    source = (
        "import torch\n\nclass PathOfModule:\n    path_of_module = torch.fx.Tracer.path_of_module\n"
    )
    verdict = judged(judge, lessons, source)
    assert verdict.borrowed == ("torch's own: PathOfModule.path_of_module",)


def test_pytest_exit_in_a_lesson_is_red(judge: Judge, lessons: Path):
    for place in (METHOD, ""):
        source = f"import pytest\n{place}pytest.exit('done')"
        assert judged(judge, lessons, source).state == "red"


# --- state that an earlier test left: the first red test is run again, alone

ON_THE_CLASS = """
class PathOfModule:
    paths = {}

    def path_of_module(self, mod):
        if not self.paths:
            self.paths.update({module: path for path, module in self.root.named_modules()})
        return self.paths[mod]
"""
IN_A_DEFAULT = """
class PathOfModule:
    def path_of_module(self, mod, paths={}):
        if not paths:
            paths.update({module: path for path, module in self.root.named_modules()})
        return paths[mod]
"""
NEARLY_ALL_WRONG = """
class PathOfModule:
    asked = []

    def path_of_module(self, mod):
        self.asked.append(mod)
        return "somewhere"
"""
ALONE = "likely cause: alone, this test is green: an earlier test left something"


@pytest.mark.parametrize("source", [ON_THE_CLASS, IN_A_DEFAULT], ids=["class", "default"])
def test_state_of_an_earlier_test_is_told(source: str, judge: Judge, lessons: Path):
    verdict = judged(judge, lessons, source)
    assert verdict.reports[0].outcome == "passed"
    text = " ".join(verdict.first_failure.text.split())
    assert ALONE in text
    assert text.count("likely cause") == 1


@pytest.mark.parametrize("source", [NEARLY_ALL_WRONG, NAMES_THE_LAST], ids=["nearly all", "one"])
def test_a_test_that_is_red_alone_too_keeps_its_own_cause(source: str, judge: Judge, lessons: Path):
    verdict = judged(judge, lessons, source)
    assert verdict.failures
    assert not [each for each in verdict.failures if "alone" in each.text]


def test_the_reds_after_it_are_asked_too(judge: Judge, lessons: Path):
    verdict = judged(judge, lessons, ON_THE_CLASS)
    told = [each for each in verdict.failures if "alone, this test is green" in each.text]
    assert len(told) > 3
    assert len(told) < len(verdict.failures)  # some look at two models, and are red alone too


# --- several lessons

A_TRACER = """
import torch
from .create_arg import CreateArg
from .path_of_module import PathOfModule
from .placeholders import Placeholders

class Tracer(PathOfModule, Placeholders, CreateArg, torch.fx.Tracer):
    pass
"""
TRACER_TEST = "tests/test_tracer.py::test_a_function_is_traced"


def test_a_syntax_error_fails_its_own_lesson_alone(lessons: Path):
    (lessons / f"{LESSON}.py").write_text("\n\ndef broken(:\n")
    (lessons / "tracer.py").write_text(A_TRACER)  # imports the broken lesson
    sibling = "tests/test_create_arg.py::test_a_proxy_becomes_its_node"
    verdict = judge_folder(lessons, f"tests/test_{LESSON}.py", sibling, TRACER_TEST)
    assert {report.lesson for report in verdict.reports if report.passed} == {"tracer"}
    assert {report.lesson for report in verdict.reports if report.failed} == {LESSON}
    assert all(":3" in text for text in verdict.texts())


def test_unwritten_siblings_are_lent_and_written_ones_are_not(lessons: Path):
    (lessons / "create_arg.py").write_text("class CreateArg:\n    pass\n")
    (lessons / "tracer.py").write_text(A_TRACER)
    verdict = judge_folder(lessons, TRACER_TEST)
    assert verdict.count("passed") == 1
    assert "lent by the reference: path_of_module, placeholders\n" in verdict.terminal


# What asks for a function of the lesson, and not for its method.
STEPS = {
    "test_a_tensor_that_the_model_holds_has_a_path",
    "test_a_tensor_that_the_model_does_not_hold_has_no_path",
    "test_an_attribute_of_any_kind_is_found",
    "test_an_attribute_is_found_without_being_read",
    "test_a_function_has_these_inputs",
    "test_any_other_function_can_be_called_by_position",
    "test_a_function_that_takes_all_by_position_is_returned_itself",
}


@pytest.mark.parametrize("lesson", [LESSON, "create_arg", "placeholders"])
def test_a_misspelt_method_is_not_answered_by_torchs(lesson: str, lessons: Path):
    source = (CORES / f"{lesson}.py").read_text()
    method = {"placeholders": "create_args_for_root"}.get(lesson, lesson)
    (lessons / f"{lesson}.py").write_text(source.replace(f"def {method}(", f"def {method}s("))
    verdict = judge_folder(lessons, *suites(lesson), "-m", "core")
    passed = {test_name(report) for report in verdict.reports if report.outcome == "passed"}
    assert passed <= STEPS
    assert all(f"a method `{method}`" in text for text in verdict.texts())
