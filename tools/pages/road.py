"""The place of a page in the course, from the table of lessons.

A title that names a lesson gets the lesson's number, which navigation and browser then show too.
The line below it says how much work the lesson is, and links to its other pages. A lesson's page
shows the lesson's files, folded, and ends with a link to the next lesson.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kata.paths import CORES, ROOT, SOLUTIONS, lesson_files
from kata.stubs import stubs
from lessons import LESSONS, Lesson

FILES = "### The files { data-search-exclude }"
HINTS = "\n## Hints\n"
SHARED = Path("solutions/stretch/_paths.py")  # the stretches of some lessons import it
FILE = """
    ??? {box} "Show {label}"

        ```python title="{path}"
        --8<--
        {path}
        --8<--
        ```
"""


class Kind(NamedTuple):
    """A kind of page that each lesson has one of.

    Attributes:
        heading: The title as the file has it.
        title: The title as the page shows it.
    """

    heading: str
    title: str


KINDS = {
    "lessons": Kind("# {0.title}", "{1} · {0.title}"),
    "solutions": Kind("# {0.title}: the solution", "Solution {1} · {0.title}"),
    "api": Kind("# API: `{0.name}`", "API {1} · `{0.name}`"),
}
NAMES = {"lessons": "lesson", "solutions": "solution", "api": "API"}


def signposted(text: str) -> str:
    """Return a page with its number and its links; a page of no lesson stays as it is.

    >>> print(signposted("# A graph becomes Python again: the solution").splitlines()[0])
    # Solution 3 · A graph becomes Python again
    """
    heading, _, rest = text.partition("\n")
    for number, lesson in enumerate(LESSONS, start=1):
        for folder, kind in KINDS.items():
            if heading == kind.heading.format(lesson):
                title = f"# {kind.title.format(lesson, number)}"
                if folder == "lessons":
                    rest = f"{with_files(rest, lesson.name)}\n\n{next_step(number)}"
                return f"{title}\n\n{line(folder, lesson, number)}\n{{ .road }}\n{rest}"
    return text


def line(folder: str, lesson: Lesson, number: int) -> str:
    """The line below the title: for a lesson what it takes, then the pages beside this one."""
    facts: list[str] = []
    if folder == "lessons":
        facts = [f"Lesson {number} of {len(LESSONS)}", f"{lesson.minutes} minutes"]
        facts += [functions_of(lesson), "[go to the exercise](#the-exercise)"]
        facts += [f"uses {', '.join(map(link_to, lesson.needs))}"] if lesson.needs else []
    if folder == "solutions":
        facts = ["Code without its docstrings", "[performance](../performance.md)"]
    # A lesson links to its solution at the end.
    hidden = {folder, "solutions"} if folder == "lessons" else {folder}
    others = [
        f"[{NAMES[other]}](../{other}/{lesson.name}.md)" for other in KINDS if other not in hidden
    ]
    return " · ".join([*facts, *others, "[glossary](../glossary.md)"])


def functions_of(lesson: Lesson) -> str:
    """Return how many functions and methods of a lesson's stub are to be written, in words."""
    count = all_stubs()[f"{lesson.name}.py"].count("raise NotImplementedError(")
    return f"{count} function{'s' * (count != 1)}"


@cache
def all_stubs() -> dict[str, str]:
    return stubs()


def link_to(name: str) -> str:
    """A link to a lesson from another one's page."""
    number = [lesson.name for lesson in LESSONS].index(name) + 1
    return f"[{number} · {LESSONS[number - 1].title}]({name}.md)"


def next_step(number: int) -> str:
    """Return the last line of a lesson's page."""
    solution = f"[the solution](../solutions/{LESSONS[number - 1].name}.md)"
    if number == len(LESSONS):
        return f"Done? Compare with {solution}. [All lessons](../index.md#the-lessons)."
    return f"Done? Compare with {solution}. Next lesson: {link_to(LESSONS[number].name)}."


def with_files(text: str, lesson: str) -> str:
    """Return a lesson's page with the files, below a heading of their own, before the hints.

    >>> page = with_files(HINTS, "path_of_module")
    >>> [line.strip() for line in page.splitlines() if "Show" in line]
    ... # doctest: +NORMALIZE_WHITESPACE
    ['??? example "Show the stub"', '??? success "Show `path_of_module.py`"',
     '??? success "Show `stretch/path_of_module.py`"', '??? success "Show `stretch/_paths.py`"']
    """
    return text.replace(HINTS, f"\n{FILES}\n\n{files_of(lesson)}\n{HINTS}")


def files_of(lesson: str) -> str:
    """Return the two tabs, and the command that times the learner's code."""
    stub = FILE.format(box="example", label="the stub", path=f"lessons/{lesson}.py")
    if (ROOT / f"given/{lesson}.py").exists():
        stub += FILE.format(box="example", label="what is given", path=f"given/{lesson}.py")
    solution = "".join(
        FILE.format(box="success", label=f"`{path.relative_to('solutions')}`", path=path)
        for path in paths_of(lesson)
    )
    return (
        f'=== "Exercise"\n{stub}\n=== "Solution"\n{solution}\n'
        f"How fast is yours? `pytest benchmarks/test_{lesson}.py --impl lessons` compares its "
        "time with torch's."
    )


def paths_of(lesson: str) -> Iterator[Path]:
    """Yield the paths of the reference's files, below the repository's root."""
    stretch = [path.relative_to(ROOT) for path in lesson_files(SOLUTIONS, lesson)]
    yield from (path.relative_to(ROOT) for path in lesson_files(CORES, lesson))
    yield from stretch
    if any(SHARED.stem in (ROOT / path).read_text(encoding="utf-8") for path in stretch):
        yield SHARED
