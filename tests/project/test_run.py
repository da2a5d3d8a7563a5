"""``kata run``: a script of the participant's on their lessons, what isn't written lent."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kata.judging import End, Ending, Report, Verdict
from kata.paths import ROOT
from kata.steps import next_step, steps_left
from kata.workspace import Workspace
from tests.project.stage import a_learner, play


@pytest.fixture
def learner() -> Iterator[Workspace]:
    with a_learner() as place:
        yield place


def test_a_script_runs_on_the_lessons_and_the_reference_lends_the_rest(tmp_path: Path):
    script = tmp_path / "mine.py"
    script.write_text("from lessons.path_of_module import PathOfModule\nprint(PathOfModule)\n")
    command = [sys.executable, "-m", "kata", "run", str(script), "a", "b"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "PathOfModule" in done.stdout, done.stderr
    assert "lent by the reference: path_of_module" in done.stderr


def test_what_is_written_is_the_participants_own(learner, tmp_path: Path, capsys):
    (learner.lessons / "path_of_module.py").write_text("PathOfModule = 'mine'\n")
    script = tmp_path / "mine.py"
    script.write_text(
        "import sys\nfrom lessons.path_of_module import PathOfModule as P\nprint(P, sys.argv[1:])\n"
    )
    played = play("run", str(script), "a", "b")
    assert (played.code, played.screen) == (0, "mine ['a', 'b']\n")


def test_a_script_that_is_not_there_is_an_error_in_one_line(learner):
    played = play("run", "nowhere.py")
    assert (played.code, played.screen) == (1, "error: there is no file nowhere.py\n")


LESSON = "custom_tracers"


def waiting(step: str, number: int) -> list[Report]:
    return [
        Report(f"t::{step}{n}", "s", "todo", is_stretch=False, text=step) for n in range(number)
    ]


def test_the_next_step_is_that_of_the_first_test_that_waits(learner):
    first, second, *_ = steps_left(LESSON)
    verdict = Verdict(
        LESSON,
        tuple([*waiting(second.task, 3), *waiting(first.task, 4)]),
        Ending(End.FINISHED),
        planned=(5, 0),
    )
    assert next_step(verdict) == ""  # no lesson was begun
    file = learner.lessons / f"{LESSON}.py"
    file.write_text(file.read_text() + "# mine\n")
    place = f"{second.name}, lessons/{LESSON}.py:{second.line}; 3 tests wait for it"
    assert next_step(verdict) == f"next: {place}"
    red = Report("t::red", "s", "failed", is_stretch=False, text="red")
    assert next_step(replace(verdict, reports=(*verdict.reports, red))) == f"then: {place}"
    hidden = replace(red, is_stretch=True)  # the core isn't green yet, so this one isn't shown
    assert next_step(replace(verdict, reports=(*verdict.reports, hidden))) == f"next: {place}"
