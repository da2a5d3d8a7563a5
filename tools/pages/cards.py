"""A Markdown extension: tables and long names that fit a phone.

Each cell of a table knows its column, so that a row can be shown as a card. A dotted name may be
broken after a dot.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString

# After the inline patterns, which have run at 20: a heading's text is known then.
AFTER_INLINE = 15
# Shorter names go to the next line as a whole.
LONG = 28


class Labels(Treeprocessor):
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
    """Allow a line to end after each dot or slash."""
    first, *others = re.split(r"(?<=[./])(?=\w)", str(name.text))
    name.text = AtomicString(first)
    for part in others:
        SubElement(name, "wbr").tail = AtomicString(part)


class Cards(Extension):
    """Register the tree processor."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (Markdown's name)
        """Run once the tree is built."""
        md.treeprocessors.register(Labels(md), "cards", AFTER_INLINE)


def makeExtension(**options: Any) -> Cards:  # noqa: N802 (Markdown's name)
    """Return the extension; Markdown finds it under this name."""
    return Cards(**options)
