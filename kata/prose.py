"""Show a text of the pages on the terminal: paragraphs filled to its width, code as it is."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

IN_BACKTICKS = re.compile(r"`[^`\n]+`")
LIST_ITEM = re.compile(r"(?:[-*]|\d+\.) +")
FENCE = "```"


def show_prose(console: Console, text: str) -> None:
    """Print paragraphs, lists and blocks of code as the pages have them, at the console's width."""
    for line in wrapped(text, console.width):
        shown = Text(line)
        shown.highlight_regex(IN_BACKTICKS, "code")
        console.print(shown, soft_wrap=True)


def wrapped(text: str, width: int) -> Iterator[str]:
    """The lines of a text in Markdown: paragraphs filled, code and blank lines left as they are."""
    in_code = False
    for line in joined_paragraphs(text):
        in_code ^= line.lstrip().startswith(FENCE)
        if in_code or not line.strip() or line.lstrip().startswith(FENCE):
            yield line
        else:
            yield from filled(line, width)


def joined_paragraphs(text: str) -> Iterator[str]:
    """The text with each paragraph, and each item of a list, on one line."""
    held, in_code = "", False
    for line in text.splitlines():
        fence = line.lstrip().startswith(FENCE)
        stands_alone = in_code or fence or not line.strip()
        if held and (stands_alone or LIST_ITEM.match(line.lstrip())):
            yield held
            held = ""
        if stands_alone:
            yield line
        else:
            held = f"{held} {line.strip()}" if held else line
        in_code ^= fence
    if held:
        yield held


def filled(line: str, width: int) -> list[str]:
    """A line of prose on several lines; those after the first stand under its words."""
    indent = len(line) - len(line.lstrip())
    item = LIST_ITEM.match(line.lstrip())
    hanging = " " * (indent + (item.end() if item else 0))
    return textwrap.wrap(
        line, width, subsequent_indent=hanging, break_on_hyphens=False, break_long_words=False
    )
