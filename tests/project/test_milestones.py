"""What the lessons do together is told when a core turns green and all pieces are written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from kata import progress, workspace
from kata.commands import check
from kata.commands.watch import Watch
from kata.judging import End, Ending, Judge, Report, Verdict
from kata.lesson_names import NAMES
from kata.paths import CORES, ROOT
from kata.progress import milestone
from kata.terminal import open_console
from kata.workspace import Workspace
from lessons import CHAIN
from tests.project.stage import a_learner, play

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
GREEN = Report("t::one", "one", "passed", is_stretch=False)
RED = Report("t::one", "one", "failed", is_stretch=False, text="why")


@pytest.fixture
def learner() -> Iterator[Workspace]:
    with a_learner() as place:
        yield place


def write_cores(*lessons: str) -> None:
    for lesson in lessons:
        workspace.write(workspace.file_of(lesson), (CORES / f"{lesson}.py").read_bytes())


def verdict(lesson: str, report: Report = GREEN) -> Verdict:
    return Verdict(lesson, (report,), Ending(End.FINISHED), planned=(1, 0))


def turn_green(*lessons: str) -> None:
    """Write these lessons, and remember that their cores were green."""
    write_cores(*lessons)
    for lesson in lessons:
        progress.remember(verdict(lesson), progress.hash_of(lesson))


def test_an_example_is_named_after_a_lesson():
    assert {path.stem for path in EXAMPLES} <= {*NAMES, CHAIN.name}


def test_a_milestone_waits_for_every_lesson_that_its_script_imports(learner):
    turn_green("code")
    assert milestone("code") == ""
    turn_green("proxy", "graph")
    assert milestone("code").startswith("Your proxy, graph and code turn a function into a graph")
    assert milestone("code").endswith("To see it: `kata run examples/code.py`")


def test_a_lesson_that_was_green_and_has_changed_is_not_the_learners(learner):
    turn_green("proxy", "graph", "code")
    workspace.file_of("graph").write_text("mine = 1\n")
    assert milestone("code") == ""


def test_a_milestone_waits_for_what_its_lessons_import_too(learner):
    turn_green("capture", "backend")
    assert milestone("backend") == ""  # `capture` imports `code` and `graph`
    turn_green("proxy", "graph", "code")
    assert "torch.compile" in milestone("backend")


def test_check_shows_the_milestone_of_a_green_core(learner, judge: Judge):
    turn_green("proxy", "graph", "code")
    with mock.patch.object(check, "Judge", lambda: contextlib.nullcontext(judge)):
        first, *rest = play("check", "code").screen.splitlines()
    assert first.startswith(("done      code", "starred   code"))
    assert "Your proxy, graph and code turn a function into a graph" in rest[0]
    assert "`kata run examples/code.py`" in " ".join(rest)


def watched(*verdicts: Verdict) -> list[str]:
    """Return what a watch prints for each verdict."""
    shown = []
    for each in verdicts:
        console = open_console()
        with console.capture() as capture:
            watch = Watch(mock.Mock(), console, mock.Mock(), each.lesson)
            watch.judged = progress.hash_of(each.lesson)
            watch.conclude(each)
        shown.append(capture.get())
    return shown


def test_watch_shows_the_milestone_when_the_core_turns_green_and_not_again(learner):
    turn_green("proxy")
    write_cores("graph")
    words = "Your proxy records into your graph"
    verdicts = [verdict("graph", RED), verdict("graph"), verdict("graph")]
    assert [words in each for each in watched(*verdicts)] == [False, True, False]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_runs_on_written_lessons(file: Path, learner):
    write_cores(*NAMES)
    played = play("run", str(file))
    assert played.code == 0, played.screen
    assert "lent" not in played.screen
    assert "the same numbers: False" not in played.screen
    assert len(played.screen.splitlines()) > 1
