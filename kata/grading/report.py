"""What a report says: people, lessons, grades; as a page, as a table, and as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kata.verdict import PASSED, Count, End, State, Verdict, reason_of
from lessons import LESSONS, Lesson

# How many seconds all tests of a lesson may compute.
TOTAL = 120.0
COMMON = 3
NONE = Count()
# How much of a text that a submission brings is kept.
LINES, WIDTH, LONGEST = 30, 120, 200


EARLY = (State.HUNG, State.MEMORY, State.CRASHED, State.NOT_JUDGED)
CUT_SHORT = {
    End.TIME: State.HUNG,
    End.MEMORY: State.MEMORY,
    End.CRASHED: State.CRASHED,
    End.EXITED: State.CRASHED,
    End.INTERRUPTED: State.CRASHED,
    End.BROKEN: State.NOT_JUDGED,
    End.STOPPED: State.NOT_JUDGED,
}


@dataclass(frozen=True)
class Failure:
    """What to read first if a lesson isn't green.

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
    failure: Failure | None = None
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
        stuck = [grade for grade in self.grades(lesson) if grade.state not in PASSED]
        found = [grade.failure.diagnosis for grade in stuck if grade.failure]
        # Of two that are as frequent, the one met first.
        return Counter(found).most_common(COMMON)


# --- a grade ------------------------------------------------------------------------------------


def grade_of(verdict: Verdict) -> Grade:
    """The grade that a verdict earns; a run that was cut short has its own word."""
    return Grade(
        lesson=verdict.lesson,
        state=CUT_SHORT.get(verdict.ending.how) or verdict.state,
        core=verdict.count(stretch=False),
        stretch=verdict.count(stretch=True),
        failure=failure_of(verdict),
        lent=verdict.lent,
        borrowed=tuple(map(shortened, verdict.borrowed)),
    )


def failure_of(verdict: Verdict) -> Failure | None:
    """Return what to read first: how the run was cut short, and the failure that is known."""
    first = verdict.first_failure
    if not verdict.is_finished:
        text = shortened("\n".join([verdict.ending.text, *([first.text] if first else [])]))
        return Failure(shortened(verdict.ending.during), first_words(text), text)
    if not first:
        return None
    shown = replace(first, text=shortened(first.text))
    return Failure(shortened(first.headline), first_words(reason_of(shown)), shown.text)


def not_judged(lesson: str, error: Exception) -> Grade:
    """The grade of a lesson whose run failed."""
    text = shortened(f"{type(error).__name__}: {error}")
    return Grade(lesson, State.NOT_JUDGED, failure=Failure("", first_words(text), text))


def first_words(text: str) -> str:
    return (text.splitlines() or [""])[0][:LONGEST]


def shortened(text: str) -> str:
    """Text of a bearable length, without characters that control a terminal."""
    lines = text[: LINES * WIDTH * 4].splitlines()
    kept = ["".join(c if c.isprintable() else "�" for c in line)[:WIDTH] for line in lines[:LINES]]
    more = [f"… {len(lines) - LINES} more lines"] if len(lines) > LINES else []
    return "\n".join(kept + more)


# --- its forms -----------------------------------------------------------------------------------


def to_json(summary: Summary) -> str:
    """The whole report: each object has the fields of a class here."""
    return json.dumps(asdict(summary), indent=2) + "\n"


def to_html(summary: Summary) -> str:
    """The report as one page that needs nothing else; all that was handed in is escaped in it."""
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    return environment.get_template("page.html").render(summary=summary)


def to_csv(summary: Summary) -> str:
    """The report as a table for a spreadsheet: a row per person, a column per lesson."""
    table = io.StringIO()
    rows = csv.writer(table)
    rows.writerow(["name", "done", *(lesson.name for lesson in summary.lessons), "look at"])
    for person in summary.people:
        states = [grade.state for grade in person.grades]
        cells = [person.name, person.count(*PASSED), *states, "; ".join(person.flags)]
        rows.writerow(map(as_text, cells))
    return table.getvalue()


def as_text(cell: object) -> object:
    """A cell that a spreadsheet doesn't take for a formula."""
    return f"'{cell}" if str(cell).startswith(("=", "+", "-", "@")) else cell
