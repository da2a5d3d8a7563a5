"""The terminal: the one place that decides about width, colours and characters.

Every command writes through the console made here. Colour and bold type repeat what the words say,
so ``NO_COLOR``, a pipe and ``TERM=dumb`` lose nothing.
"""

from __future__ import annotations

import io
import re
import sys
import textwrap
from typing import TextIO

from rich.console import Console
from rich.text import Text
from rich.theme import Theme

THEME = Theme(
    {
        "todo": "yellow",
        "edited": "yellow",
        "started": "yellow",
        "red": "red",
        "green": "green",
        "done": "green",
        "starred": "bold green",
        "lent": "magenta",
        "code": "cyan",
        "heading": "bold",
        "quiet": "dim",
    }
)
# Where the text beside a label begins.
LABEL = 10
IN_BACKTICKS = re.compile(r"`[^`\n]+`")
LIST_ITEM = re.compile(r" *(?:(?:[-*]|\d+\.) +)?")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def open_console(
    *, stderr: bool = False, stream: TextIO | None = None, width: int | None = None
) -> Console:
    """Return a console that fits the terminal: its width, its colours, its characters."""
    stream = stream or (sys.stderr if stderr else sys.stdout)
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")  # a character that the terminal lacks is a `?`
    # What learners wrote is shown as it is.
    return Console(
        file=stream, width=width, theme=THEME, markup=False, highlight=False, emoji=False
    )


def show_labelled(console: Console, label: str, text: str, *, style: str = "") -> None:
    """Print a text beside its label: further lines are indented like the first."""
    head = f"{label:<{LABEL}}"
    lines = textwrap.wrap(text, max(console.width - LABEL, 1), break_on_hyphens=False) or [""]
    for number, line in enumerate(lines):
        shown = Text.assemble((head, style) if not number else " " * LABEL, line)
        console.print(shown, soft_wrap=True)


def clipped(text: str, width: int, *, fill: str = "") -> str:
    """One line of at most this width, an ellipsis where it was cut; filled up to it, if wanted."""
    if len(text) > width:
        return text[: width - 1] + "…"
    return text + fill * (width - len(text))


def harmless(text: str) -> str:
    """Text from the judged code, with its control characters escaped."""
    return CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


def show_prose(console: Console, text: str) -> None:
    """Print text of the pages: each line filled to the console's width, blocks of code as is."""
    in_code = False
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        for part in [line] if in_code or fence else filled(line, console.width):
            shown = Text(part)
            shown.highlight_regex(IN_BACKTICKS, "code")
            console.print(shown, soft_wrap=True)
        in_code ^= fence


def filled(line: str, width: int) -> list[str]:
    """A line of prose on several lines; all but the first are indented."""
    item = LIST_ITEM.match(line)
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * (item.end() if item else 0),
        break_on_hyphens=False,
        break_long_words=False,
    ) or [""]
