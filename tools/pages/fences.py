"""Find every fence of a page, in tabs, hints and notes too, as the site's Markdown does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Indented, quoted, with any words after the language.
OPENING = re.compile(r"^(?P<prefix>[ \t>]*)(?P<ticks>`{3,}|~{3,})(?P<info>[^`\n]*)$", re.MULTILINE)
# To the next line with the same prefix and the same ticks.
FENCE = re.compile(
    OPENING.pattern + r"\n(?P<text>(?:.*\n)*?)(?P=prefix)(?P=ticks)[ \t]*$", re.MULTILINE
)
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


def fences(page: str) -> Iterator[Fence]:
    """Yield the fences of a page in order; what is within a fence is text.

    Raises:
        FenceError: A fence is never closed, or is on the line of a bullet.
    """
    for number, line in enumerate(without_fences(page).splitlines(), start=1):
        if OPENING.match(line):
            raise FenceError(f"line {number}: never closed")
        if AFTER_A_BULLET.match(line):
            raise FenceError(f"line {number}: put the fence on a line of its own")
    for found in FENCE.finditer(page):
        lines = found["text"].splitlines()
        text = "\n".join(line.removeprefix(found["prefix"]) for line in lines)
        inner = slice(*found.span("text"))
        yield Fence(found["info"].strip(), found["prefix"], text, *found.span(), inner)


def without_fences(page: str) -> str:
    """The page with every fence blank, so that nothing within is taken for a heading."""
    return FENCE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), page)
