"""The Markdown extension of the site: steps that every page goes through.

Before Markdown reads a page, its text is rewritten: a site without a box gets no word about it, the
home page gets its facts, a lesson's pages get their numbers and links, names in torch become links,
and doctests become code. Afterwards tables and long names are prepared for a phone: each cell of a
table knows its column, so that a row can be shown as a card, and a dotted name may be broken after
a dot.

Boxes that have lost their text, and Markdown that would be shown as text, end the build.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString

from tools.box.build import with_box
from tools.pages.home import with_pieces
from tools.pages.plan import with_plans
from tools.pages.road import signposted
from tools.pages.torch_places import linked

# A session at the prompt: from its first line to the next blank one.
SESSION = re.compile(r"^( *)>>> .*\n?(?:\1.*\S.*\n?)*", re.MULTILINE)
# Markdown that was meant to be a box, a tab, a fence or a file.
LEFTOVER = re.compile(r"^\s*(\?\?\?\+?|!!!|===\+?!?)\s+\S|^\s*(```|~~~)|^\s*-+8<-+", re.MULTILINE)
# Shorter names go to the next line as a whole.
LONG = 28
# Markdown looks for fences at 25, and replaces inline patterns at 20: a heading's text is known
# afterwards.
BEFORE_FENCES, AFTER_INLINE = 40, 15


class LostMarkdownError(ValueError):
    """A page isn't shown as it was meant."""


def with_fenced_sessions(text: str) -> str:
    """Return a docstring with a fence around each session; a page with fences stays as it is."""
    return text if "```" in text else SESSION.sub(fenced, f"{text}\n")


def fenced(session: re.Match[str]) -> str:
    indent = session[1]
    return f"{indent}```pycon\n{session[0].rstrip()}\n{indent}```\n\n"


class Rewriting(Preprocessor):
    """Rewrite the text of a page, step by step."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines of the rewritten page."""
        text = "\n".join(lines)
        for step in (with_box, with_pieces, with_plans, signposted, linked, with_fenced_sessions):
            text = step(text)
        return text.split("\n")


class Cards(Treeprocessor):
    """Write each column's heading into the cells below it, for the style sheet to show."""

    def run(self, root: Element) -> None:
        """Break long names, and label cells; a heading without a text isn't a heading."""
        for name in root.iter("code"):
            if len(name.text or "") > LONG and not len(name):
                break_after_dots(name)
        for table in root.iter("table"):
            headings = list(table.iter("th"))
            for row in table.iterfind("tbody/tr"):
                for heading, cell in zip(headings, row, strict=False):
                    cell.set("data-label", "".join(heading.itertext()))
            for heading in headings:
                if not "".join(heading.itertext()):
                    heading.tag = "td"


def break_after_dots(name: Element) -> None:
    """Allow a line to end after each dot, slash or parenthesis."""
    first, *others = re.split(r"(?<=[./(])(?=[\w\[])", str(name.text))
    name.text = AtomicString(first)
    for part in others:
        SubElement(name, "wbr").tail = AtomicString(part)


class Lost(Treeprocessor):
    """Refuse a page that isn't shown as it was meant, which Markdown passes over in silence."""

    def run(self, root: Element) -> None:
        """Look at every box, and at every text that isn't code."""
        for element in root.iter():
            if is_box(element) and len(element) < 2:  # the title, and nothing else
                title = "".join(element.itertext()).strip()
                raise LostMarkdownError(f"the box {title!r} has no text: is that indented?")
            for text in (element.text if element.tag != "code" else "", element.tail):
                if text and LEFTOVER.search(text):
                    raise LostMarkdownError(f"Markdown shown as text: {text.strip()[:40]!r}")


def is_box(element: Element) -> bool:
    """Return whether an element is a note, or a hint to unfold."""
    return element.tag == "details" or "admonition" in element.get("class", "").split()


class SiteExtension(Extension):
    """Register what rewrites the text, and what prepares and checks the tree."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (Markdown's name)
        """Add all to an instance of Markdown."""
        md.preprocessors.register(Rewriting(md), "rewriting", BEFORE_FENCES)
        md.treeprocessors.register(Cards(md), "cards", AFTER_INLINE)
        md.treeprocessors.register(Lost(md), "lost", AFTER_INLINE)


def makeExtension(**options: Any) -> SiteExtension:  # noqa: N802 (Markdown's name)
    """Return the extension; Markdown finds it under this name."""
    return SiteExtension(**options)
