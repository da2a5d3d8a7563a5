"""The finale on the screen: it waits for its lessons, then it is judged like one."""

from __future__ import annotations

import pytest

from kata import workspace
from kata.paths import CORES
from lessons import FINALE
from tests.project.stage import a_learner, play


@pytest.fixture
def learner():
    with a_learner() as place:
        yield place


def solve(*lessons: str) -> None:
    for name in lessons:
        workspace.write(workspace.file_of(name), (CORES / f"{name}.py").read_bytes())


def test_the_finale_waits_for_the_last_of_its_lessons(learner):
    solve(*FINALE.needs[:-1])
    assert "write these first: tracer" in play("check", "finale").screen
    assert last_row() == ["finale", "todo"]


def test_the_chain_says_which_lessons_are_missing(learner):
    solve("graph", "capture")
    missing = "code, interpreter, unflatten, split_module, schedule"
    assert f"write these first: {missing}" in " ".join(play("check", "chain").screen.split())


def test_eight_written_lessons_are_one_engine(learner):
    solve(*FINALE.needs)
    judged = play("check", "finale")
    assert judged.code == 0, judged.screen
    assert last_row()[:2] == ["finale", "done"]


def test_a_graph_that_stays_torch_s_is_named(learner):
    solve(*FINALE.needs)
    file = workspace.file_of("graph")
    file.write_text(file.read_text() + "\n\nfrom torch.fx.graph import Graph as Graph\n")
    judged = play("check", "finale")
    assert judged.code == 1
    assert "a piece is yours [Graph]" in judged.screen


def last_row() -> list[str]:
    """The words of the overview's last row."""
    rows = [line.split() for line in play().screen.splitlines()]
    return next(row for row in rows if row[:1] == [FINALE.name])
