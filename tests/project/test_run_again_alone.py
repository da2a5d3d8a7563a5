"""State that an earlier test left is told as such: the first red test is run again, alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kata.judging import Judge, Request, Verdict
from tools.stubs import write

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a process is copied, by fork")
LESSON = "path_of_module"
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
WRONG = """
class PathOfModule:
    asked = []

    def path_of_module(self, mod):
        self.asked.append(mod)
        return "somewhere"
"""
NAMES_THE_LAST = """
class PathOfModule:
    def path_of_module(self, mod):
        return {m: path for path, m in self.root.named_modules(remove_duplicate=False)}[mod]
"""


@pytest.fixture
def lessons(tmp_path: Path) -> Path:
    write(tmp_path / "lessons")
    return tmp_path / "lessons"


def judged(judge: Judge, lessons: Path, source: str) -> Verdict:
    (lessons / f"{LESSON}.py").write_text(source)
    return judge.run(Request(LESSON, lessons))


def text(verdict: Verdict) -> str:
    return " ".join(verdict.first_failure.text.split())


@pytest.mark.parametrize(
    "source",
    [ON_THE_CLASS, IN_A_DEFAULT],
    ids=["on the class", "in a default"],
)
def test_state_of_an_earlier_test_is_told(source, judge, lessons):
    verdict = judged(judge, lessons, source)
    assert verdict.reports[0].outcome == "passed"
    assert "likely cause: alone, this test is green: an earlier test left something" in text(
        verdict
    )
    assert text(verdict).count("likely cause") == 1


@pytest.mark.parametrize("source", [WRONG, NAMES_THE_LAST], ids=["nearly all", "one"])
def test_a_test_that_is_red_alone_too_keeps_its_own_cause(source, judge, lessons):
    verdict = judged(judge, lessons, source)
    assert verdict.failures
    assert not [each for each in verdict.failures if "alone" in each.text]


def test_the_reds_after_it_are_asked_too(judge, lessons):
    verdict = judged(judge, lessons, ON_THE_CLASS)
    told = [each for each in verdict.failures if "alone, this test is green" in each.text]
    assert len(told) > 3
    assert len(told) < len(verdict.failures)  # some look at two models, and are red alone too
