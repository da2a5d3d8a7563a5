"""The report as one page that needs nothing else: no request leaves it, and no script runs in it.

Jinja escapes all that comes from submissions; a content security policy in the page forbids
scripts and requests, should anything slip through.
"""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kata.grading.report import EARLY, GREEN, MEANING, Grade, State, Summary
from lessons import LESSONS

HERE = Path(__file__).parent
# From the best to the worst, then what wasn't begun: the order in bars and in the legend.
ORDER = (
    State.STARRED,
    State.DONE,
    State.STARTED,
    State.RED,
    State.HUNG,
    State.MEMORY,
    State.CRASHED,
    State.UNREADABLE,
    State.NOT_JUDGED,
    State.WAITING,
    State.TODO,
)


def to_html(summary: Summary) -> str:
    """The report as one self-contained page."""
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["slug"] = lambda state: state.replace(" ", "-")
    return environment.get_template("page.html").render(
        summary=summary,
        lessons=LESSONS,
        order=ORDER,
        meaning=MEANING,
        figures=figures(summary),
        segments=segments,
        percent=percent,
        has_details=has_details,
        style=(HERE / "page.css").read_text(encoding="utf-8"),
    )


def figures(summary: Summary) -> list[tuple[int, str]]:
    """The numbers at the top of the page, each with what it counts."""
    people = summary.people

    def lessons_in(*states: State) -> int:
        return sum(person.count(*states) for person in people)

    flagged = sum(bool(person.flags) for person in people)
    return [
        (len(people), "people"),
        (lessons_in(*GREEN), "lessons done"),
        (lessons_in(State.RED), "lessons red"),
        (lessons_in(*EARLY), "runs stopped early"),
        (flagged, "people to look at"),
    ]


def segments(summary: Summary, lesson: str) -> list[tuple[State, int, float, float]]:
    """The parts of a lesson's bar: the state, its people, where it begins and how wide it is."""
    states, start, parts = summary.states(lesson), 0.0, []
    for state in ORDER:
        if states[state]:
            width = 100 * states[state] / len(summary.people)
            parts.append((state, states[state], start, width))
            start += width
    return parts


def percent(grade: Grade) -> int:
    """How much of the core passes."""
    return round(100 * grade.core.passed / grade.core.planned) if grade.core.planned else 0


def has_details(grade: Grade) -> bool:
    return grade.failure is not None
