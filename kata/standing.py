"""How each lesson stands, from what is remembered: nothing is judged to know it."""

from __future__ import annotations

from typing import NamedTuple

from kata import results
from kata.copies import pristine, yours
from kata.results import PASSED, Result
from lessons import LESSONS, Lesson


class Standing(NamedTuple):
    """One lesson's row.

    Attributes:
        lesson: the lesson.
        is_pristine: whether its files are the stubs.
        result: what the last run said, if there was one.
    """

    lesson: Lesson
    is_pristine: bool
    result: Result | None

    @property
    def state(self) -> str:
        """The result's state; ``todo`` for a stub, ``edited`` for work that was never judged."""
        if self.is_pristine:
            return "todo"
        return self.result.state if self.result else "edited"

    @property
    def is_stale(self) -> bool:
        """Whether the state is that of another time: the lesson, or what judges it, has changed."""
        return not self.is_pristine and self.result is not None and not self.result.is_current

    @property
    def is_done(self) -> bool:
        return self.state in PASSED

    def shown(self, part: str) -> str:
        """The counts of the core or the stretch; empty where there are none to show."""
        if self.is_pristine or self.result is None:
            return ""
        count = getattr(self.result, part)
        return str(count) if count.planned else ""


def standings() -> list[Standing]:
    """Every lesson, in order."""
    return [
        Standing(lesson, yours(lesson.name) == pristine(lesson.name), results.recall(lesson.name))
        for lesson in LESSONS
    ]


def next_of(rows: list[Standing]) -> Standing | None:
    """The lesson to go on with: the first one begun and not done, or else the first one left."""
    left = [row for row in rows if not row.is_done or row.is_stale]
    begun = [row for row in left if not row.is_pristine]
    return next(iter(begun or left), None)
