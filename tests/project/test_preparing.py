"""What no lesson changes is made between the runs: all that the core needs, and no more."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import pytest

from kata.judging.worker import Preparations
from kata.paths import CORES
from tests import test_unflatten
from tests.suite import programs
from tests.suite.answers import judge_folder


def test_one_thing_is_made_a_step_once_the_lesson_was_judged():
    made: list[str] = []

    def prepare():
        for thing in ("first", "second"):
            yield made.append(thing)

    wants, wants_nothing = ModuleType("tests.test_inlining"), ModuleType("tests.test_tracer")
    wants.prepare = prepare
    preparations = Preparations()
    items = [SimpleNamespace(module=module) for module in (wants, wants_nothing)]
    preparations.pytest_collection_finish(SimpleNamespace(items=items))
    preparations.begin("tracer")
    assert not preparations.step()
    preparations.begin("inlining")
    assert made == []
    assert preparations.step() and made == ["first"]
    assert preparations.step() and not preparations.step()
    assert made == ["first", "second"]


@pytest.mark.slow  # a whole core
def test_the_programs_that_the_core_asks_for_are_prepared(monkeypatch):
    monkeypatch.setattr(programs, "KNOWN", {})
    judge_folder(CORES, "tests/test_unflatten.py", "-m", "core")
    assert set(programs.KNOWN) == {case.key for case in test_unflatten.PREPARED}
