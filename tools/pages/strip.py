"""Red, its cause, green: one mistake of each lesson, as the runner shows it.

The mistake is a wrong answer in ``tests/answers/``, if there is one that rewrites a short function.
What the runner says of it is in ``strips.json``, which ``tests/project/test_strips.py`` compares
with the runner's own screen. A fence called ``strip`` names a lesson.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from kata.paths import ROOT
from tools.pages.differences import as_html
from tools.pages.quoting import UnknownNameError, quote

SCREENS = Path(__file__).with_name("strips.json")
LONGEST = 14  # lines
HEADINGS = (
    "A mistake",
    "You save, and the screen tells you the cause",
    "You correct it, and it's green",
)


class Mistake(NamedTuple):
    """A wrong answer, and the function that it rewrites.

    Attributes:
        answer: The name of the answer.
        says: What it does wrong, in a sentence without a subject.
        code: The function as a learner writes it; empty where the answer rewrites something else.
        right: The same function of the core.
    """

    answer: str
    says: str
    code: str = ""
    right: str = ""


def mistakes(lesson: str) -> list[Mistake]:
    """Return the mistakes of a lesson, those first that rewrite one short function."""
    source = (ROOT / f"tests/answers/{lesson}.py").read_text(encoding="utf-8")
    found = [
        mistake_of(each, source, lesson)
        for each in ast.parse(source).body
        if isinstance(each, ast.FunctionDef)
        and any(ast.unparse(mark).startswith("wrong(") for mark in each.decorator_list)
    ]
    return sorted(found, key=lambda mistake: not mistake.code)


def mistake_of(answer: ast.FunctionDef, source: str, lesson: str) -> Mistake:
    without_code = Mistake(answer.name, (ast.get_docstring(answer) or "").partition("\n\n")[0])
    *others, written = answer.body
    if len(others) > 1 or not isinstance(written, ast.FunctionDef):
        return without_code
    marks = " ".join(map(ast.unparse, written.decorator_list))
    owner = re.fullmatch(r"on\((?:lesson\.?(\w*)|by_signature_in\(lesson\))\)", marks)
    if owner is None:
        return without_code
    try:
        right = quote(f"{lesson}.py: {'.'.join(filter(None, (owner[1], written.name)))}")
    except UnknownNameError:
        return without_code
    lines = source.splitlines()[written.lineno - 1 : written.end_lineno]
    code = textwrap.dedent("\n".join(lines)).replace("lesson.", "")
    too_long = max(code.count("\n"), right.count("\n")) >= LONGEST
    return without_code if too_long else without_code._replace(code=code, right=right)


@cache
def screens() -> dict[str, dict[str, str]]:
    """What the runner says: by lesson, the answer's name and the lines about its failure."""
    found: dict[str, dict[str, str]] = json.loads(SCREENS.read_text(encoding="utf-8"))
    return found


def strip_fence(
    source: str, language: str, css_class: str, options: Any, md: Any, **others: Any
) -> str:
    """Show the strip of the lesson that a fence names; for superfences."""
    lesson = source.strip()
    shown = screens()[lesson]
    mistake = next(each for each in mistakes(lesson) if each.answer == shown["answer"])
    wrong = python(mistake.code, md) or f"<p>{as_html(mistake.says)}</p>"
    parts = (
        f"<p>{HEADINGS[0]} in <code>lessons/{lesson}.py</code>:</p>{wrong}",
        f"<p>{HEADINGS[1]}:</p>{screen('red', lesson, cause_of(shown['says']))}",
        f"<p>{HEADINGS[2]}:</p>{python(mistake.right, md)}{screen('done', lesson)}",
    )
    items = "".join(f"<li>{part}</li>" for part in parts)
    return f'<ol class="strip" data-search-exclude="">{items}</ol>'


def cause_of(says: str) -> str:
    """What the runner says, from the expected value on; a comparison of graphs is too wide."""
    return says[max(says.find("expected:"), 0) :]


def python(code: str, md: Any) -> str:
    # Imported late: the site has it, and the suite may not.
    from pymdownx.highlight import Highlight  # type: ignore[import-untyped]

    html: str = Highlight(md).highlight(code, "python") if code else ""
    return html


def screen(state: str, lesson: str, says: str = "") -> str:
    """What the terminal shows: the lesson's line, and what is wrong."""
    line = f'<b class="{state}">{state:<9}</b> {lesson}'
    return f"<pre><code>{line}\n{escape(says)}</code></pre>"
