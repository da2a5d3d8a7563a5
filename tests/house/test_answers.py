"""The suite rejects wrong answers with the cause in words, and accepts right ones of any shape."""

from __future__ import annotations

import pytest

from tests.suite.answers import Answer, all_answers, judge
from tests.suite.expect import WIDTH
from tests.suite.explain import LINES

ANSWERS = all_answers()
LEAST_WRONG, LEAST_RIGHT = 10, 3


@pytest.mark.parametrize("answer", [a for a in ANSWERS if a.fails], ids=str)
def test_a_wrong_answer_is_rejected_in_words(answer: Answer):
    texts = judge(answer).texts(of=answer.fails)
    assert texts, f"{answer} passes {answer.fails}"
    assert any(answer.says in " ".join(text.split()) for text in texts), "\n".join(texts)
    assert all(fits_a_terminal(text) for text in texts), "\n".join(texts)


@pytest.mark.slow  # each one meets a whole suite
@pytest.mark.parametrize("answer", [a for a in ANSWERS if not a.fails], ids=str)
def test_a_right_answer_of_another_shape_is_accepted(answer: Answer):
    verdict = judge(answer)
    assert not verdict.texts(), "\n".join(verdict.texts())
    assert verdict.count("passed") > 0, "no test ran"


@pytest.mark.parametrize("lesson", sorted({answer.lesson for answer in ANSWERS}))
def test_each_lesson_has_enough_answers(lesson: str):
    answers = [answer for answer in ANSWERS if answer.lesson == lesson]
    assert sum(bool(answer.fails) for answer in answers) >= LEAST_WRONG
    assert sum(not answer.fails for answer in answers) >= LEAST_RIGHT
    assert all(answer.change.__doc__ for answer in answers), "the mistake isn't said in words"


def fits_a_terminal(text: str) -> bool:
    lines = text.splitlines()
    return len(lines) <= LINES and all(len(line) <= WIDTH for line in lines)
