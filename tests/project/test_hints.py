"""The hints: the page's own words, one more each time, and none that reveals a line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kata.commands import hint
from kata.commands.hint import hints_of
from kata.paths import CORES
from kata.stubs import stub
from lessons import NAMES
from tests.project.stage import play

# Shorter ones (`else:`, `return path`) are in every program.
TELLING = 8


@pytest.mark.parametrize("lesson", NAMES)
def test_a_lesson_has_at_least_three_hints_and_none_contains_a_line_of_the_solution(lesson: str):
    hints = hints_of(lesson)
    assert len(hints) >= 3
    assert [each.level for each in hints] == list(range(1, len(hints) + 1))
    assert all(len(each.text) > 80 for each in hints)
    lines = lines_of((CORES / f"{lesson}.py").read_text()) - lines_of(stub(lesson).decode())
    for each in hints_of(lesson):
        text = normalised(each.text)
        assert not [line for line in lines if line in text], f"hint {each.level}"


def lines_of(source: str) -> set[str]:
    """The telling lines of a module, normalised, without comments and imports."""
    lines = (re.sub(r"\s*# .*|^(from|import) .*", "", line) for line in source.splitlines())
    return {line for line in map(normalised, lines) if len(line) >= TELLING}


def normalised(text: str) -> str:
    """The text without white space and quotation marks, so that layout hides nothing."""
    return re.sub(r"[\s`'\"]+", "", text)


PAGE = """
??? tip "Hint 1: a question"
    What is a hint?

??? tip "Hint 2 (step 2): the other step"
    A second one.
"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch) -> None:
    """A lesson's page with two hints."""
    (tmp_path / "tracer.md").write_text(PAGE)
    monkeypatch.setattr(hint, "PAGES", tmp_path)


def test_each_call_shows_one_more_hint_and_then_what_helps(learner, page):
    first, second, third = (" ".join(play("hint", "tracer").screen.split()) for _ in range(3))
    assert first == "Hint 1 of 2: a question What is a hint? 1 more: `kata hint tracer`"
    assert second.startswith("Hint 2 of 2: the other step A second one. That was the last hint.")
    assert third.startswith("There are no more hints. Here is the last one again: Hint 2 of 2")
    assert "`docs/lessons/tracer.md`" in third
    assert "`kata solution tracer --show-me`" in third


def test_a_step_has_its_own_hints(learner, page):
    play("hint", "tracer")
    assert play("hint", "tracer", "--step", "2").screen.startswith("Hint 1 of 1: the other step")
    assert play("hint", "tracer").screen.startswith("Hint 2 of 2")
    assert play("hint", "tracer", "--step", "1").screen.startswith("There are no more hints.")
    assert "has no step 9" in play("hint", "tracer", "--step", "9").screen


@pytest.mark.parametrize("word", ["lessons/tracer.py", "tracer.py", "tests/test_tracer.py"])
def test_a_lesson_may_be_named_by_its_file(word: str, learner, page):
    assert play("hint", word).screen.startswith("Hint 1 of 2")
