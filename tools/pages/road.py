"""The place of a page in the course, from the table of lessons.

A title that names a lesson gets the lesson's number, which navigation and browser then show too.
The line below it says how much work the lesson is, and links to its other pages. A lesson's page
shows the lesson's commands and its files, and ends with a link to the next lesson.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kata.paths import CORES, ROOT, STRETCHES, lesson_files
from kata.steps import functions_of, steps_of, steps_of_functions
from kata.stubs import first_line, stub
from lessons import LESSONS, Lesson
from tools.pages.differences import differences
from tools.pages.quoting import REMARK
from tools.pages.torch_places import pinned

FILES = "### The files { data-search-exclude }"
HINTS = "\n## Hints\n"
EXERCISE = "\n## The exercise\n"
IN_TORCH = "\n## In the real torch\n"
STRETCH = re.compile(r'^\?\?\? note "Stretch: .*\n', re.MULTILINE)
WHERE = (
    "    Write it in the same file, in any order; `pytest tests/stretch/test_{}.py` runs its tests."
)
COUNTERPARTS = re.compile(r"^## In torch\n(?:(?!## ).*\n)*", re.MULTILINE)
DIFFERENCES = "\n## Where ours differs\n\n```differences\n{}\n```\n"
# The stretches of some lessons import them.
SHARED = [Path(f"solutions/stretch/{name}.py") for name in ("_paths", "_aliasing")]
FILE = """
    ??? {box} "Show {label}"

        ```python title="{path}"
        --8<--
        {path}
        --8<--
        ```
"""


FIRST = """
    The first function that you write, from `{path}`:

    ```python
{code}
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
                if folder == "solutions":
                    rest = f"\n{opening(lesson)}\n{with_differences(rest, lesson.name)}"
                return f"{title}\n\n{line(folder, lesson, number)}\n{{ .road }}\n{rest}"
    return text


def line(folder: str, lesson: Lesson, number: int) -> str:
    """The line below the title: for a lesson what it takes, then the pages beside this one."""
    facts = [f"`{lesson.name}`"]
    if folder == "lessons":
        facts += [f"lesson {number} of {len(LESSONS)}", f"{lesson.minutes} minutes"]
        facts += [functions_to_write(lesson.name), "[go to the exercise](#the-exercise)"]
        links = [f"[`{name}`]({name}.md)" for name in lesson.needs]
        facts += [f"uses {', '.join(links)}"] if links else []
    if folder == "solutions":
        facts += ["code without its docstrings", "[performance](../performance.md)"]
    # A lesson links to its solution at the end.
    hidden = {folder, "solutions"} if folder == "lessons" else {folder}
    others = [
        f"[{NAMES[other]}](../{other}/{lesson.name}.md)" for other in KINDS if other not in hidden
    ]
    return " · ".join([*facts, *others, "[glossary](../glossary.md)"])


def opening(lesson: Lesson) -> str:
    """Return what the whole of a solution does, in a sentence."""
    length = len((CORES / f"{lesson.name}.py").read_text(encoding="utf-8").splitlines())
    return f"The core has {length} lines with its docstrings. It shows how to {lesson.summary}."


def functions_to_write(lesson: str) -> str:
    """Return how many functions and methods of a lesson's stub are to be written, in words."""
    count = len(steps_of_functions(lesson))
    return f"{count} function{'s' * (count != 1)}"


def next_step(number: int) -> str:
    """Return the last line of a lesson's page."""
    solution = f"[the solution](../solutions/{LESSONS[number - 1].name}.md)"
    if number == len(LESSONS):
        return f"Done? Compare with {solution}. [All lessons](../index.md#the-lessons)."
    name, title = LESSONS[number].name, LESSONS[number].title
    following = f"[{number + 1} · {title}]({name}.md), `{name}`"
    return f"Done? Compare with {solution}. Next lesson: {following}."


def with_files(text: str, lesson: str) -> str:
    """Return a lesson's page with its commands, and with the files before the hints.

    The exercise begins with what it is like: a mistake, its cause, and green.

    >>> page = with_files(HINTS, "path_of_module")
    >>> [line.strip() for line in page.splitlines() if "Show" in line]
    ... # doctest: +NORMALIZE_WHITESPACE
    ['??? example "Show the stub"', '??? success "Show `path_of_module.py`"',
     '??? success "Show `stretch/path_of_module.py`"', '??? success "Show `stretch/_paths.py`"']
    """
    version = pinned("torch").rpartition(".")[0]
    text = with_commands(text, lesson).replace(IN_TORCH, f"{IN_TORCH}\ntorch {version}:\n")
    text = STRETCH.sub(rf"\g<0>\n{WHERE.format(lesson)}\n", text)
    text = text.replace(HINTS, f"\n{FILES}\n\n{files_of(lesson)}\n{HINTS}")
    return text.replace(EXERCISE, f"{EXERCISE}\n```strip\n{lesson}\n```\n")


def with_differences(text: str, lesson: str) -> str:
    """Return a solution's page with its differences from torch, below its counterparts there."""
    if not any(differences(lesson)):
        return text
    table = DIFFERENCES.format(lesson)
    return COUNTERPARTS.sub(lambda found: f"{found[0].rstrip()}\n{table}\n", f"{text}\n")


def with_commands(text: str, lesson: str) -> str:
    """Return a lesson's page with the commands that judge the lesson, and those for one step each.

    What the first command says is what it says before you start.
    """
    not_started = f"todo      {lesson:<16}not started: open lessons/{lesson}.py"
    check = [f"$ kata check {lesson}", not_started, f"$ kata watch {lesson}"]
    steps = [
        f"$ kata check {lesson} --step {number}  # {step.title}"
        for number, step in steps_of(lesson).items()
    ]
    for comment, lines in (("<!-- check -->", check), ("<!-- steps -->", steps)):
        text = text.replace(comment, "\n".join(["```console", *lines, "```"]))
    return text


def files_of(lesson: str) -> str:
    """Return the two tabs, and the command that times the learner's code."""
    path = f"lessons/{lesson}.py"
    stub = FIRST.format(path=path, code=textwrap.indent(first_hole(lesson), "    "))
    stub += FILE.format(box="example", label="the stub", path=path)
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


def first_hole(lesson: str) -> str:
    """Return the first function that a lesson's stub leaves to you, with its docstring.

    >>> print(first_hole("path_of_module").splitlines()[0])
    def path_of_module(self, mod: nn.Module) -> str:
    """
    source = stub(lesson).decode()
    name = next(iter(steps_of_functions(lesson)))
    first = dict(functions_of(ast.parse(source).body))[name]
    lines = source.splitlines()[first_line(first) - 1 : first.end_lineno]
    return textwrap.dedent("\n".join(REMARK.sub("", line) for line in lines))


def paths_of(lesson: str) -> Iterator[Path]:
    """Yield the paths of the reference's files, below the repository's root."""
    stretch = [path.relative_to(ROOT) for path in lesson_files(STRETCHES, lesson)]
    yield from (path.relative_to(ROOT) for path in lesson_files(CORES, lesson))
    yield from stretch
    text = "".join((ROOT / path).read_text(encoding="utf-8") for path in stretch)
    yield from (path for path in SHARED if path.stem in text)
