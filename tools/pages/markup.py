"""A built page, read: its ids, links and resources, and what looks wrong in its markup."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

# Without an end tag.
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
# What the browser fetches by itself, by tag and attribute; <a href> waits for a click.
FETCHED = {
    *(("script", "src"), ("img", "src"), ("img", "srcset"), ("iframe", "src"), ("source", "src")),
    *(("video", "src"), ("audio", "src"), ("embed", "src"), ("object", "data"), ("use", "href")),
    *(("image", "href"), ("use", "xlink:href"), ("image", "xlink:href"), ("link", "href")),
}
# A <link> of these is a statement, not a request.
NOT_FETCHED = {"canonical", "prev", "next", "alternate"}
# Markdown that was meant to be a box, a tab or a fence, and is shown as text.
LEFTOVER = re.compile(r"^\s*(\?\?\?\+?|!!!|===\+?!?)\s+\S|^\s*(```|~~~)|^\s*-+8<-+", re.MULTILINE)
ABSOLUTE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
# Within these, text is shown as it is written.
LITERAL = {"code", "pre", "script", "style", "svg", "kbd"}


@dataclass
class Element:
    """An element that is open while the page is read."""

    tag: str
    attributes: dict[str, str | None]
    line: int
    words: int = 0
    has_name: bool = False

    @property
    def classes(self) -> list[str]:
        return (self.attributes.get("class") or "").split()

    @property
    def is_box(self) -> bool:
        return self.tag == "details" or "admonition" in self.classes


@dataclass
class Markup(HTMLParser):
    """Everything the audit wants to know of one page."""

    path: Path
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    open: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.path.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs), self.getpos()[0])
        self.note_addresses(element)
        self.note_names(element)
        if tag not in VOID:
            self.open.append(element)
        elif self.open:
            self.open[-1].words += 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        while any(element.tag == tag for element in self.open):
            element = self.open.pop()
            self.judge(element)
            if self.open and not is_title(element):
                self.open[-1].words += element.words + (element.tag in {"svg", "img", "table"})
            if element.tag == tag:
                return

    def handle_data(self, data: str) -> None:
        if not self.open:
            return
        self.open[-1].words += len(data.split())
        if self.open[-1].attributes.get("id") == "__config":
            self.resources.append(json.loads(data)["search"])
        if self.open[-1].tag == "title" and len(self.open) > 1:
            self.open[-2].has_name = bool(data.strip())
        if LITERAL.isdisjoint(each.tag for each in self.open) and LEFTOVER.search(data):
            self.fault(f"Markdown shown as text: {data.strip()[:40]!r}")

    def note_addresses(self, element: Element) -> None:
        """Keep ids, links and what the browser fetches."""
        attributes = element.attributes
        self.ids += [value] if (value := attributes.get("id")) else []
        for name, value in attributes.items():
            relations = set((attributes.get("rel") or "").split())
            if value and (element.tag, name) in FETCHED and not relations & NOT_FETCHED:
                self.resources.append(value)
            elif value is not None and name == "href":
                self.links.append(value)
            elif value and name == "style":
                self.resources += addresses_in_style(value)

    def note_names(self, element: Element) -> None:
        """A picture needs a text in its place; an empty one says that it only decorates."""
        if element.tag == "img" and element.attributes.get("alt") is None:
            self.fault(f"image without alt: {element.attributes.get('src')}")

    def judge(self, element: Element) -> None:
        """Check what is known of an element only when it ends."""
        if element.is_box and not element.words:
            self.fault("a box with a title and no text: is the text below it indented?", element)
        if element.tag == "th" and not element.words:
            self.fault("a heading of a table without a text", element)
        labels = {"aria-label", "aria-labelledby"} & set(element.attributes)
        is_picture = element.tag == "svg" and element.attributes.get("role") == "img"
        if is_picture and not labels and not element.has_name:
            self.fault("picture without a title", element)

    def fault(self, message: str, element: Element | None = None) -> None:
        self.faults.append(f"line {element.line if element else self.getpos()[0]}: {message}")


def is_title(element: Element) -> bool:
    """Return whether an element is the title of a box, which doesn't count as its text."""
    return element.tag in {"summary", "title", "desc"} or "admonition-title" in element.classes


def addresses_in_style(style: str) -> Iterator[str]:
    """The addresses that a style sheet or a style attribute fetches."""
    for found in re.finditer(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", style):
        yield found[1] or found[2]


def is_external(address: str) -> bool:
    return ABSOLUTE.match(address) is not None
