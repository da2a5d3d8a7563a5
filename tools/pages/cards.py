"""Tables and long names that fit a phone.

Each cell of a table knows its column, so that a row can be shown as a card. A dotted name may be
broken after a dot.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement

from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString

# Shorter names go to the next line as a whole.
LONG = 28


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
    """Allow a line to end after each dot or slash."""
    first, *others = re.split(r"(?<=[./])(?=\w)", str(name.text))
    name.text = AtomicString(first)
    for part in others:
        SubElement(name, "wbr").tail = AtomicString(part)
