"""Submissions for tests of grading: what people might hand in, the honest and the other ones."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from kata.layers import has_core
from kata.stubs import CORES, SOLUTIONS, stubs
from lessons import LESSONS
from tests.answers.path_of_module import ParentPointers, foreign
from tests.house.tampering import TAMPERING
from tests.suite.answers import Answer, all_answers

IMPORTS = re.compile(r"^from tests\.suite\.answers import .*\n", re.MULTILINE)
PRIVATE = re.compile(r"^from \.+(?P<name>_\w+) import .*\n", re.MULTILINE)
FUTURE = "from __future__ import annotations\n"
# A whole path_of_module.py, right in the stretch as well.
STARRED = "\n\n".join(
    [
        FUTURE,
        inspect.getsource(foreign),
        inspect.getsource(ParentPointers).replace("ParentPointers", "PathOfModule"),
    ]
)
# What an answer is written with, where the suite isn't at hand.
STAND_INS = """
def wrong(**_):
    return lambda change: change


def right(change=None, **_):
    return change or (lambda change: change)


test_name = str
"""


def hand_in(folder: Path, name: str, files: dict[str, str] | None = None) -> Path:
    """Write a submission on pristine stubs; return the folder of its lessons."""
    lessons = folder / name / "lessons"
    for path, text in {
        **{str(path): text for path, text in stubs().items()},
        **(files or {}),
    }.items():
        (lessons / path).parent.mkdir(parents=True, exist_ok=True)
        (lessons / path).write_text(text, encoding="utf-8")
    return lessons


def solved(*lessons: str) -> dict[str, str]:
    """The files of somebody who solved these lessons: the cores, or all where there are none."""
    return {path: text for lesson in lessons for path, text in solution_of(lesson).items()}


def solution_of(lesson: str) -> dict[str, str]:
    if has_core(lesson):
        return {f"{lesson}.py": (CORES / f"{lesson}.py").read_text(encoding="utf-8")}
    files = {
        str(path.relative_to(SOLUTIONS)): path.read_text(encoding="utf-8")
        for path in [SOLUTIONS / f"{lesson}.py", *(SOLUTIONS / lesson).glob("*.py")]
        if path.exists()
    }
    return {path: standing_alone(text) for path, text in files.items()}


def standing_alone(text: str) -> str:
    """The text with the reference's private helpers in it: nobody hands in those."""
    whole = PRIVATE.sub(lambda found: helpers_in(found) or found[0], text)
    # The helpers' annotations are written for it.
    return whole if whole == text or FUTURE in text else FUTURE + whole


def helpers_in(found: re.Match[str]) -> str:
    """The source of a helper that several lessons share; empty for one of the lesson's own."""
    file = SOLUTIONS / f"{found['name']}.py"
    return file.read_text(encoding="utf-8").split(FUTURE)[1] if file.exists() else ""


def wrong_answers(lesson: str) -> dict[str, dict[str, str]]:
    """The files of each wrong answer to a lesson, by the answer's name."""
    answers = [each for each in all_answers() if each.lesson == lesson and each.fails]
    return {each.change.__name__: answered(each) for each in answers}


def answered(answer: Answer) -> dict[str, str]:
    """The solution, which an answer changes at the end of its first file."""
    files = solution_of(answer.lesson)
    first = (
        f"{answer.lesson}.py" if f"{answer.lesson}.py" in files else f"{answer.lesson}/__init__.py"
    )
    module = inspect.getmodule(answer.change)
    assert module is not None
    changes = IMPORTS.sub(STAND_INS, inspect.getsource(module)).replace(FUTURE, "")
    call = f"\n{answer.change.__name__}(__import__('sys').modules[__name__])\n"
    return {**files, first: files[first] + changes + call}


ENDLESS = """
class PathOfModule:
    def path_of_module(self, mod):
        while True:
            pass
"""
EXITING = "import os\n\nos._exit(3)\n"
GREEDY = """
class PathOfModule:
    def path_of_module(self, mod):
        return [bytearray(2**30) for _ in range(64)]
"""
RECURSIVE = """
class PathOfModule:
    def path_of_module(self, mod):
        return self.path_of_module(mod)
"""
# How many lessons each of thirty people has solved after a day; most are in the middle.
PROGRESS = (0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 5, 5, 5, 6, 6, 7, 8, 10)


def a_room_of_thirty(folder: Path) -> None:
    """Hand in what thirty people might: solved as far as they came, then a mistake in the next.

    Twenty-five work honestly, each at a pace and with a mistake of their own. Five others hang,
    crash, take all memory, recurse for ever, or help themselves to the reference.
    """
    names = [lesson.name for lesson in LESSONS]
    for number, done in enumerate(PROGRESS):
        mistakes = list(wrong_answers(names[done]).values()) if 0 < done < len(names) else [{}]
        files = solved(*names[:done]) | mistakes[number % len(mistakes)]
        hand_in(folder, f"person {number + 1:02}", files)
    imports = TAMPERING["imports_solutions"]
    for number, text in enumerate((ENDLESS, EXITING, GREEDY, RECURSIVE, imports), start=26):
        hand_in(folder, f"person {number}", solved("create_arg") | {"path_of_module.py": text})
