"""The hints: the page's own words, one more each time, and none that gives a line away."""

from __future__ import annotations

import ast
import re

import pytest

from kata.commands.hint import hints_of
from kata.paths import CORES, ROOT
from lessons import LESSONS
from tests.project.stage import play, pristine
from tests.project.test_layers import IMPORTS, code_lines, span

NAMES = [lesson.name for lesson in LESSONS]
# Shorter ones (`else:`, `return path`) are in every program.
TELLING = 8


@pytest.mark.parametrize("lesson", NAMES)
def test_a_lesson_has_three_hints_from_its_page(lesson: str):
    hints = hints_of(lesson)
    page = words((ROOT / "docs" / "lessons" / f"{lesson}.md").read_text())
    assert [hint.level for hint in hints] == [1, 2, 3]
    assert all(words(hint.text) in page and len(hint.text) > 80 for hint in hints)


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("lesson", NAMES)
def test_no_hint_contains_a_line_of_the_solution(lesson: str):
    given = {line for text in pristine((lesson,)).values() for line in lines_of_code(text)}
    for hint in hints_of(lesson):
        text = normalised(hint.text)
        lines = lines_of_code((CORES / f"{lesson}.py").read_text()) - given
        assert not [line for line in lines if line in text], f"hint {hint.level}"


def lines_of_code(source: str) -> set[str]:
    """The telling lines of a module's code, normalised: no comments, docstrings or imports."""
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, IMPORTS)]
    numbers = code_lines(source).difference(*(span([node]) for node in imports))
    lines = source.splitlines()
    kept = (re.sub(r"\s*# .*", "", lines[number - 1]) for number in numbers)
    return {line for line in map(normalised, kept) if len(line) >= TELLING}


def normalised(text: str) -> str:
    """The text without white space and quotation marks, so that layout hides nothing."""
    return re.sub(r"[\s`'\"]+", "", text)


def test_each_call_shows_one_more_hint_and_then_what_helps(learner):
    for number in (1, 2, 3):
        assert play("hint", "tracer").screen.startswith(f"Hint {number} of 3")
    shown = " ".join(play("hint", "tracer").screen.split())
    assert shown.startswith("There are no more hints. Here is the last one again: Hint 3 of 3")
    assert "`docs/lessons/tracer.md`" in shown
    assert "`kata solution tracer --show-me`" in shown


@pytest.mark.parametrize("word", ["lessons/tracer.py", "tracer.py", "tests/test_tracer.py"])
def test_a_lesson_may_be_named_by_its_file(word: str, learner):
    assert play("hint", word).screen.startswith("Hint 1 of 3")
