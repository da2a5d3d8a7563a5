"""What a learner reads if a test never came to its question: a skip, an import, a typo, a state."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import torch.distributed
import torch.fx
from hypothesis import settings

from kata.judge import Judge
from kata.paths import CORES, ROOT, suites
from kata.showing import show
from kata.terminal import open_console
from kata.verdict import Verdict
from tests.project.stage import request
from tests.project.submissions import DELEGATES, NAMES_THE_LAST, answer
from tests.suite.answers import judge_folder
from tests.suite.chance import by_chance, several, showing
from tests.suite.explain import explain

LESSON = "path_of_module"
ROOT_TEST = f"tests/test_{LESSON}.py::test_the_root_is_the_empty_string"


def judged(judge: Judge, lessons: Path, source: str) -> Verdict:
    """The verdict on a source."""
    (lessons / f"{LESSON}.py").write_text(source)
    return judge.run(request(lessons, LESSON))


@pytest.mark.parametrize(
    "source",
    [
        answer("pytest.skip('later')", "import pytest\n"),
        answer("pytest.xfail('later')", "import pytest\n"),
        answer("raise unittest.SkipTest('later')", "import unittest\n"),
        "import pytest\npytest.skip('later', allow_module_level=True)",
    ],
    ids=["skip", "xfail", "unittest", "at the import"],
)
def test_a_lesson_that_has_its_tests_skipped_is_red(source: str, judge: Judge, lessons: Path):
    verdict = judged(judge, lessons, source)
    assert (verdict.state, verdict.count(stretch=False).is_green) == ("red", False)
    assert len(verdict.of("failed")) == len(verdict.reports)
    assert "the lesson's own code skipped the test" in verdict.first_failure.text


class NeedsMore:
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[0].add_marker(pytest.mark.skip(reason="needs CUDA"))


def test_a_skip_by_the_suites_own_mark_isnt_a_failure(lessons: Path):
    shutil.copy(CORES / f"{LESSON}.py", lessons)
    verdict = judge_folder(lessons, f"tests/test_{LESSON}.py", plugins=[NeedsMore()])
    assert (verdict.count("skipped"), verdict.count("failed")) == (1, 0)
    assert "skipped: 1 (needs CUDA)" in verdict.terminal


def test_a_skip_in_a_line_of_the_suite_isnt_a_failure(lessons: Path, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_gloo_available", lambda: False)
    shutil.copy(CORES / "schedule.py", lessons)
    words = ("-k", "processes_compute", "-m", "slow")
    verdict = judge_folder(lessons, "tests/stretch/test_schedule.py", *words)
    assert (verdict.count("skipped") > 0, verdict.count("failed")) == (True, 0)
    assert "this torch has no gloo" in verdict.terminal


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("__import__('sys').exit()", "SystemExit"),
        ("from torch import nnn", "ImportError: cannot import name 'nnn' from 'torch'"),
        ("import torhc", "ModuleNotFoundError: No module named 'torhc'"),
        ("from .create_args import CreateArg", "no lesson is called create_args"),
        ("from .create_arg import MakeArg", "cannot import name 'MakeArg'"),
    ],
)
def test_an_import_that_fails_is_under_its_own_title_with_its_line(
    statement: str, words: str, lessons: Path
):
    (lessons / f"{LESSON}.py").write_text(f"{statement}\n")
    shown = " ".join(judge_folder(lessons, ROOT_TEST).terminal.split())
    assert f"── {LESSON}: lessons/{LESSON}.py can't be imported ─" in shown
    assert words in shown
    assert f"lessons/{LESSON}.py:1, in <module> {statement}" in shown
    assert str(lessons.parent) not in shown


def test_a_name_that_the_code_misspells_has_no_cause_that_a_test_supposes(lessons: Path):
    (lessons / f"{LESSON}.py").write_text(answer("return selff.root"))
    texts = judge_folder(lessons, f"tests/test_{LESSON}.py").texts()
    assert len(texts) > 20
    assert not [text for text in texts if "likely cause" in text or "'selff'" not in text]


@pytest.mark.parametrize("call", ["breakpoint()", "input('?')", "__import__('pdb').set_trace()"])
def test_what_wants_a_terminal_is_told_what_has_one(call: str, judge: Judge, lessons: Path):
    text = judged(judge, lessons, answer(call)).first_failure.text
    assert f":3, in {LESSON}\n      {call}\n" in text
    assert "the tests run without one" in " ".join(text.split())
    assert f"`pytest tests/test_{LESSON}.py -x -s`" in text


MUTE = "class Mute(Exception):\n    def __str__(self):\n        raise RuntimeError\n\n\n"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (answer("raise ValueError('x' * 10**7)"), "ValueError: xxx"),
        (answer("raise Mute", MUTE), "text can't be had"),
    ],
    ids=["huge", "mute"],
)
def test_an_error_with_a_strange_text_is_one_failure(source, words, judge: Judge, lessons: Path):
    verdict = judged(judge, lessons, source)
    assert (verdict.is_finished, len(verdict.reports)) == (True, sum(verdict.planned))
    assert words in verdict.first_failure.text
    assert all(len(report.text) < 5000 for report in verdict.reports)


@pytest.mark.parametrize(
    ("source", "owner"),
    [
        (f"from solutions.stretch.{LESSON} import *\n", "the reference's own"),
        (DELEGATES, "torch's own"),
    ],
)
def test_what_is_somebody_elses_is_said(
    source: str, owner: str, judge: Judge, lessons: Path, capsys
):
    show(open_console(), judged(judge, lessons, source))
    assert f"{owner}: PathOfModule.path_of_module" in capsys.readouterr().out


# --- state that an earlier test left: the first red test is run again, alone

ON_THE_CLASS = """
class PathOfModule:
    paths = {}

    def path_of_module(self, mod):
        if not self.paths:
            self.paths.update({module: path for path, module in self.root.named_modules()})
        return self.paths[mod]
"""
ALONE = "likely cause: alone, this test is green: an earlier test left something"


def test_state_of_an_earlier_test_is_told_of_all_tests_that_are_green_alone(
    judge: Judge, lessons: Path
):
    verdict = judged(judge, lessons, ON_THE_CLASS)
    texts = [" ".join(each.text.split()) for each in verdict.failures]
    assert ALONE in texts[0]
    assert texts[0].count("likely cause") == 1
    # Some look at two models, and are red alone too.
    assert 3 < sum(ALONE in text for text in texts) < len(texts)


def test_a_test_that_is_red_alone_too_keeps_its_own_cause(judge: Judge, lessons: Path):
    verdict = judged(judge, lessons, NAMES_THE_LAST)
    assert verdict.failures
    assert not [each for each in verdict.failures if "alone" in each.text]


WARNS_ONCE = """
import sys, warnings

class PathOfModule:
    def path_of_module(self, mod):
        sys.asked = getattr(sys, "asked", 0) + 1
        if sys.asked == 5:
            warnings.warn("only once")
        return next(path for path, each in self.root.named_modules() if each is mod)
"""


def test_a_warning_that_is_given_once_is_not_taken_for_state(judge: Judge, lessons: Path):
    texts = [each.text for each in judged(judge, lessons, WARNS_ONCE).failures]
    assert [text for text in texts if "UserWarning: only once" in text]
    assert not [text for text in texts if "alone" in text]


@pytest.mark.parametrize("lesson", [LESSON, "create_arg", "placeholders"])
def test_a_misspelt_method_is_not_answered_by_torchs(lesson: str, lessons: Path):
    method = {"placeholders": "create_args_for_root"}.get(lesson, lesson)
    source = (CORES / f"{lesson}.py").read_text()
    (lessons / f"{lesson}.py").write_text(source.replace(f"def {method}(", f"def {method}s("))
    texts = judge_folder(lessons, suites(lesson)[0], "-x").texts()
    assert f"a method `{method}`" in texts[0]


@by_chance(50)
def no_number_is_large(chance: Random) -> None:
    numbers = [chance.randrange(100) for _ in several(chance, 20)]
    with showing("\n".join(map(str, numbers))):
        if max(numbers, default=0) >= 50:
            raise KeyError("large")


@pytest.fixture(params=["default", "ci"])
def profile(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each profile of hypothesis: on a build server it takes another one by itself."""
    before = settings.get_current_profile_name()
    settings.load_profile(request.param)
    yield
    settings.load_profile(before)


def test_a_test_of_random_programs_shows_a_small_one(profile: None):
    with pytest.raises(KeyError) as caught:
        no_number_is_large()
    assert caught.value.__notes__ == ["program:      50"]
    caught.value.add_note("a note\n  of two lines")
    assert explain(caught.value, ROOT).splitlines()[1:4] == [
        "program:      50",
        "a note",
        "  of two lines",
    ]


def test_a_node_that_a_dict_lacks_was_not_stored_or_is_the_wrong_one():
    text = explain(KeyError(torch.fx.Graph().placeholder("x")), ROOT)
    assert "it was never stored, was removed, or is the wrong one" in " ".join(text.split())


def test_a_stub_in_a_random_program_is_todo():
    with pytest.raises(NotImplementedError, match="graph: add_node"):
        writes_a_program()


@by_chance(50)
def writes_a_program(chance: Random) -> None:
    raise NotImplementedError("graph: add_node")
