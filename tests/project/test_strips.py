"""The strips of the site show what the runner says of a mistake: ``tools/pages/strips.json``.

After a wanted change, write them anew: ``GOLDEN=write pytest --impl full
tests/project/test_strips.py``.
"""

from __future__ import annotations

import json
import os
import re

import pytest

from kata.paths import suites
from lessons import LESSONS
from tests.suite.answers import WHOLE, InTurn, all_answers, run_suite
from tools.pages.strip import SCREENS, Mistake, mistakes, screens

every_lesson = pytest.mark.parametrize("lesson", [lesson.name for lesson in LESSONS])


def screen_of(lesson: str, mistake: Mistake) -> str:
    """Return what the runner says of the first test that a mistake fails."""
    (answer,) = [each for each in all_answers() if str(each) == f"{lesson}-{mistake.answer}"]
    turn = InTurn([answer])
    run_suite(*suites(lesson), "-m", WHOLE, plugins=[turn])
    return turn.outcome.texts()[0].strip("\n")


def recorded(lesson: str) -> dict[str, str]:
    """The first mistake of which the runner names the likely cause, and what it says."""
    for mistake in mistakes(lesson):
        says = screen_of(lesson, mistake)
        if "likely cause:" in says and "tests/answers" not in says:
            return {"answer": mistake.answer, "says": says}
    return {}


def words(screen: str) -> list[str]:
    """The words and signs of a screen in any order: a message may list a set of nodes."""
    return sorted(re.findall(r"\w+|[^\w\s]", screen))


@every_lesson
def test_a_strip_shows_what_the_runner_says_of_the_mistake(lesson: str):
    if os.environ.get("GOLDEN") == "write":
        texts = screens() | {lesson: recorded(lesson)}
        SCREENS.write_text(f"{json.dumps(texts, indent=1, ensure_ascii=False)}\n", encoding="utf-8")
        screens.cache_clear()
    shown = screens()[lesson]
    assert shown, "no mistake of this lesson has a likely cause"
    known = {each.answer: each for each in mistakes(lesson)}
    assert shown["answer"] in known, "this answer is gone: write the strips anew"
    assert words(shown["says"]) == words(screen_of(lesson, known[shown["answer"]]))
    assert "likely cause:" in shown["says"]
