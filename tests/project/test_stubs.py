"""The stub writer: what a stub keeps of a solution, and what it leaves for the learner to find."""

from __future__ import annotations

import subprocess
from textwrap import dedent

from kata.paths import ROOT
from kata.stubs import stub_of

SOLUTION = '''\
"""Lesson: an example."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from ._helpers import helper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PUBLIC = 1
# Only the body below reads this.
_PRIVATE = 2


class Shape:
    """A shape."""

    sides: int
    _cache: dict

    def __init__(self) -> None:  # given
        self.sides = math.floor(PUBLIC)

    def area(self, of: Callable[[], float]) -> float:
        """Return the area. It takes a function."""
        return helper(_PRIVATE)

    def faster(self) -> float:  # reference only: the inherited one will do
        return os.getpid()

    def _scale(self) -> Iterator[int]:
        yield 1


def _private() -> None:
    """Do something."""
'''

STUB = '''\
"""Lesson: an example."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PUBLIC = 1


class Shape:
    """A shape."""

    sides: int

    def __init__(self) -> None:  # given
        self.sides = math.floor(PUBLIC)

    def area(self, of: Callable[[], float]) -> float:
        """Return the area. It takes a function."""
        raise NotImplementedError("example: return the area")
'''


def test_a_stub_keeps_the_contract_and_drops_the_answer():
    assert stub_of(SOLUTION, "example") == STUB


def test_the_stub_of_a_stub_is_itself():
    assert stub_of(STUB, "example") == STUB


def test_an_exercise_without_a_docstring_is_called_by_its_name():
    stub = stub_of("class Shape:\n    def area(self):\n        return 1\n", "example")
    assert 'NotImplementedError("example: write Shape.area")' in stub


def test_a_long_task_is_broken_as_the_formatter_would():
    task = "return what is left of a very long sentence that goes on and on until the line is full"
    stub = stub_of(f'def f():\n    """{task}."""\n    return 1\n', "example")
    assert dedent(
        f"""\
        raise NotImplementedError(
            "example: {task}"
        )
        """
    ) in dedent(stub.split('"""\n', 2)[1])


def test_a_clone_on_windows_has_the_same_bytes():
    asked = ["git", "check-attr", "text", "eol", "--", "lessons/path_of_module.py"]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line.split(": ")[-1] for line in told.splitlines()] == ["auto", "lf"]
