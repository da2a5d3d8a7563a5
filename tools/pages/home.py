"""What pages show of tables: of the home page its facts, lessons and map, and the figures.

Each is a comment on a line of its own: ``<!-- facts -->``, ``<!-- start -->``, ``<!-- path -->``,
``<!-- map -->``; on the page about performance ``<!-- chart -->`` and ``<!-- figures -->``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import NamedTuple

from drawing.figure import figure
from kata.commands.card import course
from lessons import COURSE, LESSONS, TOGETHER, Lesson
from tools.pages import performance


class Band(NamedTuple):
    """Facts about a part of the course that the table of lessons doesn't have.

    Attributes:
        gives: What you can do after it.
        end: The page with which it ends; empty where it ends with its last lesson.
    """

    gives: str
    end: str = ""


BANDS = {
    "the engine": Band(
        "Your own `torch.fx`: record a model as a graph, print the graph as Python, run it.",
        "[the finale: ResNet18 on your engine](finale.md)",
    ),
    "transforms": Band(
        "Change models with it: choose what is recorded, inline, invert, find and replace, cut."
    ),
    "below the modules": Band(
        "Go where `torch.export` and `torch.compile` go: operators, module trees, fused kernels."
    ),
    "many machines": Band(
        "Know what a model needs next, and keep several processes busy with its stages.",
        "[the chain: from a model to two training processes](chain.md)",
    ),
}


def facts() -> str:
    """Return how long the course is, in a line."""
    hours = hours_of(len(LESSONS))
    first = f"First green test in minutes · first lesson in {LESSONS[0].minutes}"
    return f"{first} · {len(LESSONS)} lessons · about {hours} hours\n{{ .facts }}"


def hours_of(count: int) -> int:
    """Return how many hours the first ``count`` lessons take together.

    A part takes the hours up to its end less those up to its beginning: so the parts' hours add up.
    """
    return round(sum(lesson.minutes for lesson in LESSONS[:count]) / 60)


def start() -> str:
    """Return the commands that start the course; they clone it where its address is known."""
    address = os.environ.get("REPO_URL", "")
    commands = [f"git clone {address} fx-kata", "cd fx-kata"] if address else []
    lines = "\n".join(f"$ {each}" for each in [*commands, "pip install nox", "nox -s kata"])
    place = "" if address else "In your copy of the repository:\n\n"
    return f"{place}```console\n{lines}\n```"


def path() -> str:
    """Return the course as a list with an item for each part, in the order of its lessons."""
    parts = groupby(enumerate(LESSONS, start=1), key=lambda each: each[1].part)
    return "\n".join(line for part, lessons in parts for line in band(part, list(lessons)))


def band(part: str, lessons: list[tuple[int, Lesson]]) -> Iterator[str]:
    """Yield the lines of one part: its hours, what it gives, its lessons, its end."""
    (first, _), (last, _) = lessons[0], lessons[-1]
    about = BANDS[part]
    yield f"-   ### {part.capitalize()}\n"
    yield f"    about {hours_of(last) - hours_of(first - 1)} hours\n    {{ .hours }}\n"
    yield f"    {about.gives}\n"
    for number, lesson in lessons:
        link = f"[{lesson.title}](lessons/{lesson.name}.md)"
        yield f"    - {number} · {link} <small>`{lesson.name}` · {lesson.minutes} min</small>"
    if about.end:
        yield f"    - ◎ {about.end}"
    yield ""


def course_map() -> str:
    """Return the course as a graph, in which each lesson is a link to its page."""
    html = figure(course(), "course", "Each arrow leads to a lesson that uses what you write.")
    html = html.replace('role="img"', 'role="group"')  # it holds links
    for lesson in COURSE:
        folder = "" if lesson.name in TOGETHER else "lessons/"
        node = re.compile(rf'<g data-node="{lesson.name}">.*?</g>', re.DOTALL)
        html = node.sub(rf'<a href="{folder}{lesson.name}.html">\g<0></a>', html)
    return f'<div class="map">{html}</div>'


PIECES: dict[str, Callable[[], str]] = {
    "facts": facts,
    "start": start,
    "path": path,
    "map": course_map,
    "chart": performance.chart,
    "figures": performance.folded,
}


def with_pieces(page: str) -> str:
    """Return a page with the pieces in the place of their comments."""
    for name, piece in PIECES.items():
        if (comment := f"<!-- {name} -->") in page:
            page = page.replace(comment, piece())
    return page
