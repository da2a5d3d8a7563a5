"""The command ``card``: the course as a graph, with the lessons that you have done."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path

from drawing import Node, Panel, Picture
from drawing.figure import write_page
from kata.arguments import UsageError
from kata.progress import all_needs, standings
from kata.terminal import open_console, show_prose
from lessons import COURSE, FINALE, LESSONS, PARTS, TOGETHER


def course(done: Collection[str] = ()) -> Picture:
    """The lessons as a graph: an edge leads to each from the lessons that it needs."""
    nodes: dict[str, Node] = {}
    for lesson in COURSE:
        needs = [name for name in lesson.needs if not implied(name, lesson.needs)]
        nodes[lesson.name] = Node(
            lesson.name,
            "goal" if lesson.name in TOGETHER else "lesson",
            inputs=tuple(sorted(needs, key=list(nodes).index)),
            module=lesson.part,
            mark="done" * (lesson.name in done),
            note=lesson.title + f", {lesson.minutes} min" * bool(lesson.minutes),
        )
    return Picture(
        "The lessons, and what each needs",
        f"{len(LESSONS)} lessons in {len(PARTS)} columns, one per part of the course. An arrow "
        "leads from each lesson to those that use what you write in it.",
        (Panel(tuple(nodes.values())),),
    )


def implied(name: str, needs: Collection[str]) -> bool:
    """Return whether another one of these lessons needs ``name``, directly or not."""
    return any(name in all_needs(other) for other in needs)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's argument."""
    parser.add_argument("--out", type=Path, default=Path("card.html"), metavar="FILE")


def main(arguments: argparse.Namespace) -> int:
    """Write the page; before the finale there is none."""
    done = [row.lesson.name for row in standings() if row.is_done]
    if FINALE.name not in done:
        raise UsageError("your card comes after the finale: `kata check finale`")
    write_page(course(done), arguments.out)
    ticks = f"To tick them on the site's first page, add #done={','.join(done)} to its address."
    show_prose(open_console(), f"wrote {arguments.out}. {ticks}")
    return 0
