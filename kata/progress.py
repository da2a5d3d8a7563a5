"""How each lesson stands: what its last run said, and whether that still holds.

A result is kept in ``.kata/results/<lesson>.json`` beside a key: a hash of all that the run
depended on. Where the key has changed, the result is out of date.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kata import workspace
from kata.paths import CORES, ROOT
from kata.verdict import PASSED, Count, End, Verdict
from kata.workspace import is_pristine, write
from lessons import COURSE, TOGETHER, Lesson

# A run that was cut short from outside says nothing about the lesson.
NO_RESULT = (End.STOPPED, End.BROKEN)
NEEDS = {lesson.name: lesson.needs for lesson in COURSE}


@dataclass(frozen=True)
class Result:
    """What a run said, in short.

    Attributes:
        lesson: The lesson's name.
        state: ``todo``, ``started``, ``red``, ``done`` or ``starred``.
        core: How many tests of the core passed.
        stretch: How many of the others.
        has_passed: Whether the core was green in this run, or in one before.
        key: The hash of what it depended on.
        green: The hash of the lesson's file when its core was last green; empty if it never was.
    """

    lesson: str
    state: str
    core: Count
    stretch: Count
    has_passed: bool
    key: str
    green: str = ""

    @property
    def is_current(self) -> bool:
        """Whether nothing has changed since that the result depends on."""
        return self.key == key_of(self.lesson)


def remember(verdict: Verdict, key: str) -> None:
    """Keep what a run said, if it was of all the lesson's tests.

    Args:
        verdict: What it said.
        key: ``key_of`` the lesson before the run: a file saved meanwhile wasn't judged.
    """
    if verdict.ending.how in NO_RESULT or verdict.step:
        return
    before = recall(verdict.lesson)
    is_green = verdict.count(stretch=False).is_green
    result = Result(
        lesson=verdict.lesson,
        state=verdict.state,
        core=verdict.count(stretch=False),
        stretch=verdict.count(stretch=True),
        has_passed=verdict.state in PASSED or (before is not None and before.has_passed),
        key=key,
        green=key.partition(":")[0] if is_green else getattr(before, "green", ""),
    )
    # The verdict is shown even if the memory can't be written.
    with contextlib.suppress(OSError):
        write(file_of(verdict.lesson), json.dumps(asdict(result), indent=1).encode())


def recall(lesson: str) -> Result | None:
    """Return what the last run of the lesson said; ``None`` if there is no result to read."""
    try:
        content = json.loads(file_of(lesson).read_text(encoding="utf-8"))
        content.update({name: Count(**content[name]) for name in ("core", "stretch")})
        return Result(**content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def file_of(lesson: str) -> Path:
    return workspace.HERE.memory / "results" / f"{lesson}.json"


def key_of(lesson: str) -> str:
    """Return a hash of the lesson's file, and one of what else its result depends on.

    These are the siblings that are the learner's, and the suite with the reference. A colon is
    between the two.
    """
    state = hashlib.sha256(key_of_the_judge())
    for name in all_needs(lesson):
        state.update(hash_of(name).encode() if is_yours(name) else b"lent")
    return f"{hash_of(lesson)}:{state.hexdigest()}"


def hash_of(lesson: str) -> str:
    """Return a hash of what the lesson's file holds now."""
    return hashlib.sha256(workspace.yours(lesson)).hexdigest()


def is_yours(lesson: str) -> bool:
    """Return whether other lessons use the learner's file: its core was green as it is now."""
    result = recall(lesson)
    return result is not None and result.green == hash_of(lesson)


def siblings_of(lesson: str) -> tuple[str, ...] | None:
    """Return the lessons that are the learner's when another is judged.

    For the finale and the chain these are all that have been written, ``None``.
    """
    if lesson in TOGETHER:
        return None
    return tuple(name for name in all_needs(lesson) if is_yours(name))


@cache
def key_of_the_judge() -> bytes:
    """A hash of the suite and of the reference, which lends pieces."""
    folders = (CORES, *(ROOT / "tests" / name for name in ("stretch", "models", "suite", "oracle")))
    files = [*(ROOT / "tests").glob("*.py"), *(f for each in folders for f in each.rglob("*.py"))]
    return b"".join(hashlib.sha256(file.read_bytes()).digest() for file in sorted(files))


def all_needs(lesson: str) -> tuple[str, ...]:
    """The lessons that it imports, directly or not."""
    direct = NEEDS[lesson]
    return tuple(dict.fromkeys((*direct, *(name for need in direct for name in all_needs(need)))))


class Standing(NamedTuple):
    """One lesson's row.

    Attributes:
        lesson: The lesson.
        is_pristine: Whether its files are the stubs.
        result: What the last run said, if there was one.
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
    """Every lesson, the finale and the chain, in order."""
    return [Standing(each, is_pristine(each.name), recall(each.name)) for each in COURSE]


def next_of(rows: list[Standing]) -> Standing | None:
    """The lesson to go on with; ``None`` if all are done.

    It is the first one begun and not done, or else the first one left after the last one done, or
    else the first one left. The finale and the chain count once all their lessons are written.
    """
    left = [
        row
        for row in rows
        if (not row.is_done or row.is_stale)
        and not (row.is_pristine and row.lesson.name in TOGETHER)
    ]
    begun = [row for row in left if not row.is_pristine]
    last = max((number for number, row in enumerate(rows) if row.is_done), default=-1)
    ahead = [row for row in rows[last + 1 :] if row in left]
    return next(iter(begun or ahead or left), None)
