"""Tell where the reference differs from PyTorch: the tests marked ``beyond``, as a table.

A fence called ``differences`` names a lesson. The name of each test is the sentence about ours, and
the mark's reason is the one about torch's.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html import escape
from typing import Any

from kata.paths import ROOT, suites
from kata.verdict import sentence_of

INTRODUCTION = (
    "<p>PyTorch fails these tests, and the reference passes them. "
    "They are marked <code>beyond</code>.</p>"
)
ROW = "<tr><td>{}</td><td>{}</td></tr>"


def differences(lesson: str) -> Iterator[tuple[str, str]]:
    """Yield what each test marked ``beyond`` says about ours, and what torch does instead.

    >>> next(differences("path_of_module"))[0]
    'A module registered during the trace is found'
    """
    texts = [(ROOT / file).read_text(encoding="utf-8") for file in suites(lesson)]
    body = [statement for text in texts for statement in ast.parse(text).body]
    for test in [statement for statement in body if isinstance(statement, ast.FunctionDef)]:
        for mark in test.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.beyond":
                yield sentence(sentence_of(test.name)), sentence(ast.literal_eval(mark.args[0]))


def sentence(text: str) -> str:
    return text if text.startswith("torch") else text[0].upper() + text[1:]


def differences_fence(
    source: str, language: str, css_class: str, options: Any, md: Any, **others: Any
) -> str:
    """Show the differences of a lesson as a table; for superfences."""
    rows = "".join(ROW.format(*map(as_html, each)) for each in differences(source.strip()))
    head = "<thead><tr><th>Ours</th><th>PyTorch</th></tr></thead>"
    return f"{INTRODUCTION}<table>{head}<tbody>{rows}</tbody></table>"


def as_html(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
