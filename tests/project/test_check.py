"""``check``: what is green, what it prints, what it remembers, and the solution afterwards."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from unittest import mock

import pytest

from kata import progress
from kata.commands import check
from kata.judging import End, Ending, Report, Verdict
from kata.paths import CORES, ROOT, SOLUTIONS
from kata.showing import show_score
from kata.terminal import open_console
from kata.workspace import Workspace
from tests.project.stage import a_learner, everything_in, play

LESSON = "path_of_module"
WRONG = """\
class PathOfModule:
    def path_of_module(self, mod):
        modules = self.root.named_modules(remove_duplicate=False)
        return {id(module): name for name, module in modules}.get(id(mod))
"""


@pytest.fixture
def learner() -> Iterator[Workspace]:
    with a_learner(LESSON, "create_arg", "inversion") as place:
        yield place


def report(outcome: str, *, is_stretch: bool = False) -> Report:
    return Report(f"tests/test_a.py::test_{outcome}", outcome, outcome, is_stretch, text=outcome)


def verdict(*reports: Report, how: End = End.FINISHED, skip: int = 0) -> Verdict:
    planned = [sum(each.is_stretch == stretch for each in reports) for stretch in (False, True)]
    return Verdict(LESSON, reports, Ending(how, "why"), planned=(planned[0] + skip, planned[1]))


GREEN = verdict(report("passed"), report("failed", is_stretch=True))
STARRED = verdict(report("passed"), report("passed", is_stretch=True))
RED = verdict(report("passed"), report("failed"))
TODO = verdict(report("todo"))
FINALE = dataclasses.replace(verdict(report("passed")), lesson="finale")
CUT_SHORT = verdict(report("passed"), how=End.TIME, skip=1)


def test_a_red_stretch_is_not_shown_until_the_core_is_green():
    stretch = report("failed", is_stretch=True)
    unfinished = verdict(report("passed"), report("todo"), stretch)
    assert (unfinished.state, unfinished.first_failure) == ("started", None)
    assert verdict(stretch, report("failed")).failures == (report("failed"),)
    assert (GREEN.state, GREEN.first_failure) == ("done", stretch)
    assert verdict(stretch).first_failure == stretch  # where only the stretch was asked for


@pytest.mark.parametrize(
    ("verdicts", "words", "code"),
    [
        ([GREEN], [], 0),
        ([STARRED], [], 0),
        ([RED], [], 1),
        ([TODO], [], 1),
        ([CUT_SHORT], [], 1),
        ([STARRED, TODO], [], 1),
        ([STARRED, GREEN], [], 0),
        ([GREEN], ["--stretch"], 1),
        ([STARRED], ["--stretch"], 0),
        ([FINALE], ["--stretch"], 0),
    ],
)
def test_only_what_is_all_green_has_the_exit_code_of_success(verdicts, words, code, monkeypatch):
    monkeypatch.setattr(check, "judged", lambda *asked: iter(verdicts))
    assert play("check", *words).code == code


def test_a_pristine_lesson_is_todo_without_a_run(learner, monkeypatch):
    monkeypatch.setattr(check, "Judge", None)
    played = play("check", LESSON, "inversion")
    assert (played.code, played.screen.count("not started: open lessons/")) == (1, 2)


def test_a_lesson_that_is_begun_is_not_called_not_started(learner):
    file = learner.lessons / f"{LESSON}.py"
    file.write_bytes(file.read_bytes() + b"BEGUN = True\n")
    console = open_console()
    with console.capture() as shown:
        show_score(console, Verdict(LESSON, (), Ending(End.FINISHED)))
    assert shown.get().split(maxsplit=2)[2].startswith("no test passes yet")


def test_what_is_red_is_judged_explained_and_remembered(learner, judge):
    (learner.lessons / f"{LESSON}.py").write_text(WRONG)
    before = everything_in(learner.lessons)
    with mock.patch.object(check, "Judge", lambda: contextlib.nullcontext(judge)):
        played = play("check", LESSON)
    assert played.code == 1
    assert "the last name overwrote the first registered name" in played.screen
    assert len(played.screen.splitlines()) <= 25
    result = progress.recall(LESSON)
    assert (result.state, result.is_current, result.green) == ("red", True, "")
    assert everything_in(learner.lessons) == before


def test_a_result_is_stale_once_the_lesson_has_changed_and_a_spoilt_one_is_none(learner):
    progress.remember(STARRED, progress.hash_of(LESSON))
    assert progress.recall(LESSON).is_current
    (learner.lessons / f"{LESSON}.py").write_text("mine = 1\n")
    assert not progress.recall(LESSON).is_current
    (learner.memory / "results" / f"{LESSON}.json").write_text('{"core": 1}')
    assert progress.recall(LESSON) is None


def test_a_pass_is_remembered_beyond_a_later_failure(learner):
    for each in (STARRED, RED):
        progress.remember(each, "hash")
    result = progress.recall(LESSON)
    assert (result.state, result.green) == ("red", "hash")
    assert play("solution", LESSON).code == 0


@pytest.mark.parametrize("how", [End.STOPPED, End.BROKEN])
def test_a_run_that_was_stopped_leaves_the_result_before(how: End, learner):
    progress.remember(STARRED, "key")
    progress.remember(verdict(report("failed"), how=how), "key")
    assert progress.recall(LESSON).state == "starred"


def test_a_solution_is_shown_after_a_pass_or_on_request(learner):
    assert play("solution", LESSON).code == 1
    assert "@@" in play("solution", LESSON, "--show-me").screen
    progress.remember(STARRED, "key")
    assert "@@" in play("solution", LESSON).screen


def test_the_difference_turns_yours_into_the_cores_reference(learner):
    reference = CORES / f"{LESSON}.py"
    (learner.lessons / f"{LESSON}.py").write_bytes(reference.read_bytes())
    assert play("solution", LESSON, "--show-me").screen.startswith("yours is the reference")
    (learner.lessons / f"{LESSON}.py").write_text("mine = 1\n")
    lines = play("solution", LESSON, "--show-me").screen.splitlines()
    name = reference.relative_to(ROOT)
    assert lines[:2] == [f"--- lessons/{LESSON}.py", f"+++ {name}"]
    added = [line[1:] for line in lines[3:] if line.startswith("+")]
    assert added == [line.rstrip() for line in reference.read_text().splitlines()]


def test_the_stretch_is_shown_on_demand(learner):
    screen = play("solution", LESSON, "--show-me", "--stretch").screen
    assert screen.startswith(f"── solutions/stretch/{LESSON}.py ──")
    assert (SOLUTIONS / f"{LESSON}.py").read_text().splitlines()[-1] in screen


def test_a_memory_that_cannot_be_written_costs_nobody_the_verdict(learner, judge):
    learner.memory.write_text("a file stands where the folder should be")
    (learner.lessons / f"{LESSON}.py").write_text(WRONG)
    with mock.patch.object(check, "Judge", lambda: contextlib.nullcontext(judge)):
        assert "the last name overwrote" in play("check", LESSON).screen
    assert play("hint", LESSON).code == 0
