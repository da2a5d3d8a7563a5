"""Steps by number: a heading in the core's suite is a step, for ``kata check LESSON --step N``."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from unittest import mock

import pytest

from kata import progress, workspace
from kata.commands import check
from kata.commands.watch import Watch
from kata.judging import End, Ending, Judge, Report, Verdict
from kata.lesson_names import NAMES
from kata.paths import CORES, ROOT
from kata.steps import steps_of
from kata.terminal import open_console
from kata.workspace import Workspace
from tests.project.stage import a_learner, play

TEST = re.compile(r"^def test_\w+", re.MULTILINE)


@pytest.fixture
def learner() -> Iterator[Workspace]:
    with a_learner() as place:
        yield place


@pytest.mark.parametrize("lesson", NAMES)
def test_the_steps_of_a_lesson_are_numbered_from_one_and_each_has_tests(lesson: str):
    steps = steps_of(lesson)
    assert steps
    assert sorted(steps) == list(range(1, len(steps) + 1))
    lines = (ROOT / f"tests/test_{lesson}.py").read_text().splitlines()
    for section in steps.values():
        assert TEST.search("\n".join(lines[section.lines.start : section.lines.stop - 1]))


@pytest.mark.parametrize("lesson", NAMES)
def test_the_page_names_every_step_and_chooses_no_tests_by_their_words(lesson: str):
    page = (ROOT / f"docs/lessons/{lesson}.md").read_text()
    shown = {int(number) for number in re.findall(r"--step (\d+)", page)}
    assert shown <= steps_of(lesson).keys()
    if f"$ kata check {lesson} --step" in page:
        listed = re.findall(rf"^\$ kata check {lesson} --step (\d+) +# (.*)$", page, re.MULTILINE)
        titles = [(str(number), each.title) for number, each in steps_of(lesson).items()]
        assert listed == titles
    assert '-k "' not in page


def test_a_step_is_judged_by_its_own_tests_and_the_result_is_not_kept(learner, judge: Judge):
    core = (CORES / "graph.py").read_text()
    broken = core.replace("            self._insert = before", "            pass")
    workspace.write(workspace.file_of("graph"), broken.encode())
    with mock.patch.object(check, "Judge", lambda: contextlib.nullcontext(judge)):
        names, creating = (
            play("check", "graph", "--step", "1"),
            play("check", "graph", "--step", "4"),
        )
    assert (names.code, names.screen.split()) == (0, "green graph step 1: 5 of 5 (names)".split())
    assert creating.code == 1
    assert "the insertion point wasn't restored after its block" in creating.screen
    assert progress.recall("graph") is None


def test_a_step_that_is_not_there_lists_those_that_are(learner):
    played = play("check", "graph", "--step", "9")
    assert played.code == 1
    assert "graph has no step 9; its steps are\n  1: names\n" in played.screen
    assert "--step needs one lesson" in play("check", "--step", "1").screen
    assert "--step needs one lesson" in play("watch", "--step", "1").screen


def test_a_watch_of_one_step_asks_for_it_and_shows_no_milestone(learner):
    workspace.write(workspace.file_of("graph"), (CORES / "graph.py").read_bytes())
    judge, console = mock.Mock(), open_console()
    watch = Watch(judge, console, mock.Mock(), "graph", 2)
    watch.begin("graph")
    (request,) = judge.start.call_args.args
    assert (request.lesson, request.step) == ("graph", 2)
    green = Report("t::one", "one", "passed", is_stretch=False)
    with console.capture() as shown:
        watch.conclude(Verdict("graph", (green,), Ending(End.FINISHED), planned=(1, 0), step=2))
    assert shown.get().startswith("green     graph           step 2: 1 of 1 (arguments and users)")
    assert "kata run" not in shown.get()
