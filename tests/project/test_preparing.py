"""What no lesson changes is made between the runs: all that the core needs, and no more."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import pytest

from kata.judging.preparing import Preparations
from kata.paths import CORES
from tests import test_unflatten
from tests.suite import programs
from tests.suite.answers import judge_folder


def found(made: list[str]) -> Preparations:
    """The preparations of a suite in which one lesson wants two things."""

    def prepare():
        for thing in ("first", "second"):
            yield made.append(thing)

    wants, wants_nothing = ModuleType("tests.test_inlining"), ModuleType("tests.test_tracer")
    wants.prepare = prepare
    preparations = Preparations()
    items = [SimpleNamespace(module=module) for module in (wants, wants_nothing)]
    preparations.pytest_collection_finish(SimpleNamespace(items=items))
    return preparations


def test_nothing_is_made_before_the_lesson_is_judged():
    made: list[str] = []
    preparations = found(made)
    preparations.begin("tracer")
    assert not preparations.step()
    assert made == []


def test_one_thing_is_made_a_step():
    made: list[str] = []
    preparations = found(made)
    preparations.begin("inlining")
    assert made == []
    assert preparations.step()
    assert made == ["first"]
    assert preparations.step()
    assert not preparations.step()
    assert made == ["first", "second"]


def test_no_run_waits_for_it():
    made: list[str] = []
    preparations = found(made)
    for lesson in ("inlining", "inlining", "tracer"):
        preparations.begin(lesson)
    assert made == []


@pytest.mark.slow  # a whole core
def test_the_programs_that_the_core_asks_for_are_prepared(monkeypatch):
    monkeypatch.setattr(programs, "KNOWN", {})
    judge_folder(CORES, "tests/test_unflatten.py", "-m", "core")
    assert set(programs.KNOWN) == {case.key for case in test_unflatten.PREPARED}
