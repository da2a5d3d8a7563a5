"""A Markdown extension: a doctest in a docstring's text is shown as the code that it is."""

from __future__ import annotations

import re
from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

# A session at the prompt: from its first line to the next blank one.
SESSION = re.compile(r"^( *)>>> .*\n?(?:\1.*\S.*\n?)*", re.MULTILINE)
# Before the fences are looked for, which happens at 25.
BEFORE_FENCES = 40


class FencedSessions(Preprocessor):
    """Put a fence around every session that has none in the text."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines, with fences."""
        text = "\n".join(lines) + "\n"
        return text.split("\n") if "```" in text else SESSION.sub(fenced, text).split("\n")


def fenced(session: re.Match[str]) -> str:
    indent = session[1]
    return f"{indent}```pycon\n{session[0].rstrip()}\n{indent}```\n\n"


class Doctests(Extension):
    """Register the preprocessor."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (Markdown's name)
        """Run before the fences are looked for."""
        md.preprocessors.register(FencedSessions(md), "doctests", BEFORE_FENCES)


def makeExtension(**options: Any) -> Doctests:  # noqa: N802 (Markdown's name)
    """Return the extension; Markdown finds it under this name."""
    return Doctests(**options)
