"""The terminal: the one place that decides about width, colours and characters.

Every command writes through the console made here. Colour and bold type repeat what the words say:
nothing is told by them alone, so ``NO_COLOR``, ``--plain`` and a pipe lose nothing.
"""

from __future__ import annotations

import codecs
import locale
import os
import re
import sys
import textwrap
import unicodedata
from typing import Any, TextIO, cast

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
# What ASCII has instead of the characters that we print, one for each: columns stay where they are.
IN_ASCII = str.maketrans("…→←–—−·─•×≤≥‘’“”", "~><-----*x<>''\"\"")
# Where the text beside a label begins.
LABEL = 10
IN_BACKTICKS = re.compile(r"`[^`\n]+`")
LIST_ITEM = re.compile(r" *(?:(?:[-*]|\d+\.) +)?")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def open_console(
    *,
    plain: bool = False,
    stderr: bool = False,
    stream: TextIO | None = None,
    width: int | None = None,
) -> Console:
    """A console that fits the terminal: its width, its colours, its characters.

    Args:
        plain: No colours, no bold type, no redrawn lines, ASCII alone.
        stderr: Write to standard error.
        stream: Write there instead.
        width: The columns, where they are known.
    """
    stream = stream or (sys.stderr if stderr else sys.stdout)
    return PipeConsole(
        file=cast("TextIO", Spelling(stream, plain=plain)),
        width=width,
        theme=THEME,
        color_system=None if plain else "auto",
        force_interactive=False if plain else None,
        no_color=True if plain else None,
        # What learners wrote is shown as it is.
        markup=False,
        highlight=False,
        emoji=False,
    )


class PipeConsole(Console):
    """A console whose reader may stop reading (`| head`), which isn't a failure of the command."""

    def on_broken_pipe(self) -> None:
        """Leave it to the command line, where rich would end Python with exit code 1."""
        raise BrokenPipeError


def show_labelled(console: Console, label: str, text: str, *, style: str = "") -> None:
    """Print a text beside its label: further lines stand under the first one's words."""
    head = f"{label:<{LABEL}}"
    for number, line in enumerate(beside_label(text, console.width)):
        shown = Text.assemble((head, style) if not number else " " * LABEL, line)
        console.print(shown, soft_wrap=True)


def beside_label(text: str, width: int) -> list[str]:
    """The lines that a text takes beside a label, where the terminal has this width."""
    return textwrap.wrap(text, max(width - LABEL, 1), break_on_hyphens=False) or [""]


def clipped(text: str, width: int, *, fill: str = "") -> str:
    """One line of at most this width, an ellipsis where it was cut; filled up to it, if wanted."""
    if len(text) > width:
        return text[: width - 1] + "…"
    return text + fill * (width - len(text))


def harmless(text: str) -> str:
    """Text from the code that was judged, its control characters spelt out."""
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
    """A line of prose on several lines; those after the first stand under its words."""
    item = LIST_ITEM.match(line)
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * (item.end() if item else 0),
        break_on_hyphens=False,
        break_long_words=False,
    ) or [""]


class Spelling:
    """A text stream that writes what the terminal's encoding lacks in other characters."""

    def __init__(self, stream: TextIO, *, plain: bool = False) -> None:
        self.stream = stream
        self.encoding = "ascii" if plain or is_ascii_only() else stream.encoding or "utf-8"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        self.stream.write(spelt(text, self.encoding))
        return len(text)


def is_ascii_only() -> bool:
    """Return whether the locale is ``C`` or ``POSIX``, which promise no more than ASCII."""
    return os.name == "posix" and locale.setlocale(locale.LC_CTYPE) in ("C", "POSIX")


def spelt(text: str, encoding: str) -> str:
    """The text in characters that the encoding has, one for each."""
    return text.encode(encoding, "nearest").decode(encoding)


def nearest(error: UnicodeError) -> tuple[str, int]:
    """Return what to write for characters that an encoding lacks: similar ASCII, or ``?``."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end].translate(IN_ASCII)
    letters = (unicodedata.normalize("NFKD", each)[0] for each in lacking)
    return "".join(each if each.isascii() else "?" for each in letters), error.end


codecs.register_error("nearest", nearest)
