"""What a report says: people, lessons, grades; and its three files, JSON, CSV and HTML.

``docs/grading.md`` describes each field of the JSON, which are those of the classes here. A change
of a meaning raises ``SCHEMA``.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kata.verdict import Count
from lessons import LESSONS, Lesson

SCHEMA = 3
COMMON = 3
NONE = Count()


class State(StrEnum):
    """How one lesson of one person stands: as a verdict says, or why there is none."""

    TODO = "todo"
    STARTED = "started"
    RED = "red"
    DONE = "done"
    STARRED = "starred"
    HUNG = "hung"
    MEMORY = "memory"
    CRASHED = "crashed"
    UNREADABLE = "unreadable"
    NOT_JUDGED = "not judged"
    WAITING = "waiting"


GREEN = (State.DONE, State.STARRED)
EARLY = (State.HUNG, State.MEMORY, State.CRASHED, State.NOT_JUDGED)


@dataclass(frozen=True)
class Limits:
    """What a run may take: seconds for a test or the import, seconds in all, GiB beyond torch's."""

    seconds: float = 10.0
    total: float = 120.0
    memory: float = 4.0


@dataclass(frozen=True)
class Failure:
    """What is to be read first where a lesson isn't green.

    People with the same ``diagnosis``, the likely cause in one line, are counted together.
    """

    test: str
    diagnosis: str
    text: str


@dataclass(frozen=True)
class Grade:
    """One lesson of one person."""

    lesson: str
    state: State
    core: Count = NONE
    stretch: Count = NONE
    seconds: float = 0.0
    failure: Failure | None = None
    also_red: tuple[str, ...] = ()
    lent: tuple[str, ...] = ()
    borrowed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Person:
    """What one person handed in, lesson by lesson, in the lessons' order."""

    name: str
    grades: tuple[Grade, ...]
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def count(self, *states: State) -> int:
        return sum(grade.state in states for grade in self.grades)


@dataclass(frozen=True)
class Summary:
    """All submissions, graded; people are in the order of their names."""

    people: tuple[Person, ...]
    made: str
    seconds: float
    versions: dict[str, str]
    limits: dict[str, float]

    @property
    def lessons(self) -> list[Lesson]:
        """The lessons that were graded, in their order."""
        return [each for each in LESSONS if self.grades(each.name)]

    def grades(self, lesson: str) -> list[Grade]:
        """The grades of one lesson."""
        return [grade for each in self.people for grade in each.grades if grade.lesson == lesson]

    def states(self, lesson: str) -> dict[State, int]:
        """Return how many people have each state in a lesson, in the order of ``State``."""
        counts = Counter(grade.state for grade in self.grades(lesson))
        return {state: counts[state] for state in State if counts[state]}

    def diagnoses(self, lesson: str) -> list[tuple[str, int]]:
        """Return what stops most people in a lesson's core, each with the number of people."""
        stuck = [grade for grade in self.grades(lesson) if grade.state not in GREEN]
        found = [grade.failure.diagnosis for grade in stuck if grade.failure]
        # Of two that are as frequent, the one met first.
        return Counter(found).most_common(COMMON)


def to_json(summary: Summary) -> str:
    """The whole report, as ``docs/grading.md`` describes it."""
    return json.dumps({"schema": SCHEMA, **asdict(summary)}, indent=2) + "\n"


def to_csv(summary: Summary) -> str:
    """A row per person, two columns per lesson, for a spreadsheet."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    columns = [column for each in summary.lessons for column in (each.name, f"{each.name} core")]
    writer.writerow(["name", "done", "starred", *columns, "flags"])
    for person in summary.people:
        writer.writerow([harmless(cell) for cell in row(person)])
    return out.getvalue()


def to_html(summary: Summary) -> str:
    """The report as one page that needs nothing else; all that was handed in is escaped in it."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("page.html")
    return page.render(summary=summary)


def row(person: Person) -> Iterator[str]:
    yield person.name
    yield str(person.count(*GREEN))
    yield str(person.count(State.STARRED))
    for grade in person.grades:
        yield grade.state
        # "3/5" would be a date in a spreadsheet.
        yield str(grade.core) if grade.core.planned else ""
    yield "; ".join(person.flags)


def harmless(cell: str) -> str:
    """The cell's text, such that no spreadsheet takes it for a formula."""
    return f"'{cell}" if cell.lstrip()[:1] in ("=", "+", "-", "@", "|", "%") else cell
