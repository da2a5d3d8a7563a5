"""Submissions for tests of grading: what people might hand in, the honest and the other ones."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from kata.paths import CORES
from kata.stubs import stubs
from lessons import LESSONS
from tests.suite.answers import Answer, all_answers

IMPORTS = re.compile(r"^from tests\.suite\.answers import .*\n", re.MULTILINE)
FUTURE = "from __future__ import annotations\n"
# A whole path_of_module.py, right in the stretch as well: each path is checked against the tree.
STARRED = """
class PathOfModule:
    above, top = {}, None

    def path_of_module(self, mod):
        for is_fresh in (False, True):
            if is_fresh or self.top is not self.root:
                self.top, self.above = self.root, {id(self.root): ("", None)}
                self.enter(self.root)
            names = self.names_up_from(mod)
            if names is not None:
                return ".".join(reversed(names))
        raise NameError(f"{type(mod).__name__} is not below {type(self.root).__name__}")

    def enter(self, parent):
        for name, child in parent._modules.items():
            if child is not None and id(child) not in self.above:
                self.above[id(child)] = name, parent
                self.enter(child)

    def names_up_from(self, mod):
        names = []
        while mod is not self.root:
            name, parent = self.above.get(id(mod), ("", None))
            if parent is None or parent._modules.get(name) is not mod:
                return None
            names.append(name)
            mod = parent
        return names
"""
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
    for path, text in {**stubs(), **(files or {})}.items():
        (lessons / path).parent.mkdir(parents=True, exist_ok=True)
        (lessons / path).write_text(text, encoding="utf-8")
    return lessons


def solved(*lessons: str) -> dict[str, str]:
    """The files of somebody who solved these lessons: the cores."""
    return {
        f"{lesson}.py": (CORES / f"{lesson}.py").read_text(encoding="utf-8") for lesson in lessons
    }


def wrong_answers(lesson: str) -> dict[str, dict[str, str]]:
    """The files of each wrong answer to the core of a lesson, by the answer's name."""
    answers = [each for each in all_answers() if each.lesson == lesson and each.fails]
    return {each.change.__name__: answered(each) for each in answers if each.is_of_the_core}


def answered(answer: Answer) -> dict[str, str]:
    """The core, which an answer changes at its end."""
    core = (CORES / f"{answer.lesson}.py").read_text(encoding="utf-8")
    module = inspect.getmodule(answer.change)
    assert module is not None
    changes = IMPORTS.sub(STAND_INS, inspect.getsource(module)).replace(FUTURE, "")
    call = f"\n{answer.change.__name__}(__import__('sys').modules[__name__])\n"
    return {f"{answer.lesson}.py": core + changes + call}


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
STOPPING = """
import os, signal

class PathOfModule:
    def path_of_module(self, mod):
        os.kill(os.getppid(), signal.SIGSTOP)
"""
# How many lessons each of thirty people has solved after a day; most are in the middle.
PROGRESS = (0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 5, 5, 5, 6, 6, 7, 8, 10)


def thirty_people(folder: Path) -> None:
    """Hand in what thirty people might: solved as far as they came, then a mistake in the next.

    Twenty-five work honestly, each at a pace and with a mistake of their own. Five others hang,
    crash, take all memory, recurse forever, or stop the process that judges them.
    """
    names = [lesson.name for lesson in LESSONS]
    for number, done in enumerate(PROGRESS):
        mistakes = list(wrong_answers(names[done]).values()) if 0 < done < len(names) else [{}]
        files = solved(*names[:done]) | mistakes[number % len(mistakes)]
        hand_in(folder, f"person {number + 1:02}", files)
    for number, text in enumerate((ENDLESS, EXITING, GREEDY, RECURSIVE, STOPPING), start=26):
        hand_in(folder, f"person {number}", solved("create_arg") | {"path_of_module.py": text})
