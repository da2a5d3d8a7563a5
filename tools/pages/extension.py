"""The Markdown extension of the site: steps that every page goes through.

Before Markdown reads a page, its text is rewritten: the home page gets its facts, a lesson's pages
get their numbers and links, names in torch become links, and doctests become code. Afterwards
tables and long names are prepared for a phone.
"""

from __future__ import annotations

from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

from tools.pages.cards import Cards
from tools.pages.doctests import with_fenced_sessions
from tools.pages.home import with_pieces
from tools.pages.road import signposted
from tools.pages.torch_places import linked

STEPS = (with_pieces, signposted, linked, with_fenced_sessions)
# Markdown looks for fences at 25, and replaces inline patterns at 20: a heading's text is known
# afterwards.
BEFORE_FENCES, AFTER_INLINE = 40, 15


class Rewriting(Preprocessor):
    """Rewrite the text of a page, step by step."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines of the rewritten page."""
        text = "\n".join(lines)
        for step in STEPS:
            text = step(text)
        return text.split("\n")


class SiteExtension(Extension):
    """Register what rewrites the text, and what prepares the tree."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (Markdown's name)
        """Add both to an instance of Markdown."""
        md.preprocessors.register(Rewriting(md), "rewriting", BEFORE_FENCES)
        md.treeprocessors.register(Cards(md), "cards", AFTER_INLINE)


def makeExtension(**options: Any) -> SiteExtension:  # noqa: N802 (Markdown's name)
    """Return the extension; Markdown finds it under this name."""
    return SiteExtension(**options)
