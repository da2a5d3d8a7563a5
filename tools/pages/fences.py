"""Find every fence of a page, in tabs, hints and notes too, as the site's Markdown does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# Indented, quoted, with any words after the language.
OPENING = re.compile(r"^(?P<prefix>[ \t>]*)(?P<ticks>`{3,}|~{3,})(?P<info>[^`\n]*)$")
# Markdown takes a fence after a bullet for code within the line: it would be shown, not run.
AFTER_A_BULLET = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+(?:`{3,}|~{3,})[^`]*$")
LANGUAGE = re.compile(r"\s*\{?\s*\.?(?P<language>[\w+-]*)")
TITLE = re.compile(r'title="([^"]*)"')
# A file on a line of its own, or several between two lines of scissors.
SNIPPET = re.compile(r'-+8<-+ "(?P<line>[^":\n]+)[^"\n]*"|-+8<-+\n(?P<block>[^"]+?)\n-+8<-+')


class FenceError(ValueError):
    """A fence that the site wouldn't show as it is meant."""


@dataclass(frozen=True)
class Fence:
    """A fenced block of a page.

    Attributes:
        info: The text after the backticks.
        prefix: The prefix of every line: an indentation, or the mark of a quotation.
        text: The lines within, without the prefix.
        start: Where the fence begins in the page.
        end: Where it ends.
        inner: Where its text begins and ends.
    """

    info: str
    prefix: str
    text: str
    start: int
    end: int
    inner: slice

    @property
    def language(self) -> str:
        found = LANGUAGE.match(self.info)
        return found["language"] if found else ""

    @property
    def title(self) -> str:
        found = TITLE.search(self.info)
        return found[1] if found else ""

    @property
    def snippets(self) -> list[str]:
        """The files that the fence consists of; empty where the page has its own text."""
        paths: list[str] = []
        for found in SNIPPET.finditer(self.text):
            paths += (found["line"] or found["block"]).split("\n")
        own_text = SNIPPET.sub("", self.text).strip()
        return [] if own_text else [path.partition(":")[0].strip() for path in paths]

    def in_place(self, text: str) -> str:
        """The text as it stands within this fence, with the prefix on every line."""
        return "".join(f"{self.prefix}{line}".rstrip() + "\n" for line in text.splitlines())


@dataclass
class Open:
    """A fence whose end isn't met yet."""

    opening: re.Match[str]
    start: int
    first: int
    lines: list[str] = field(default_factory=list)

    def is_closed_by(self, line: str) -> bool:
        prefix = self.opening["prefix"]
        return line.startswith(prefix) and line[len(prefix) :].rstrip() == self.opening["ticks"]

    def closed(self, last: int, end: int) -> Fence:
        prefix, info = self.opening["prefix"], self.opening["info"].strip()
        text = "\n".join(line.removeprefix(prefix) for line in self.lines)
        return Fence(info, prefix, text, self.start, end, slice(self.first, last))


def fences(page: str) -> Iterator[Fence]:
    """Yield the fences of a page in order; what is within a fence is text."""
    current: Open | None = None
    start = 0
    for number, line in enumerate(page.splitlines(keepends=True), start=1):
        end, bare = start + len(line), line.rstrip("\n")
        if current is not None and current.is_closed_by(bare):
            yield current.closed(start, start + len(bare))
            current = None
        elif current is not None:
            current.lines.append(bare)
        elif opening := OPENING.match(bare):
            current = Open(opening, start, end)
        elif AFTER_A_BULLET.match(bare):
            raise FenceError(f"line {number}: put the fence on a line of its own")
        start = end
    if current is not None:
        raise FenceError(f"line {page.count(chr(10), 0, current.start) + 1}: never closed")
