"""How many lines a verdict may take, and what of a failure fits into them."""

from __future__ import annotations

from typing import NamedTuple

from kata.terminal import filled, harmless
from kata.verdict import Report

# A lesson's verdict fits a terminal. Besides the failure, the other reasons and what is to be noted
# it has a line that counts them, a blank one, the score, and a note; on a narrow one some take two.
LINES = 25
BESIDES = 4
NARROW, BROKEN = 60, 2
# Lower than this, a terminal shows neither what was printed nor the hint, and no blank line.
LOW = 15
# What is shown of a failure's text even where there is no room for it.
LEAST = 4
ENDING = 10
PRINTED = 5


class Space(NamedTuple):
    """The part of a terminal that a verdict may take.

    Attributes:
        width: its columns.
        lines: its lines, where nothing may scroll away; ``None`` for a terminal that scrolls.
    """

    width: int
    lines: int | None = None

    @property
    def is_low(self) -> bool:
        return self.lines is not None and self.lines < LOW

    @property
    def besides(self) -> int:
        return BESIDES - self.is_low + BROKEN * (self.width < NARROW)

    def text(self, report: Report) -> list[str]:
        """The explanation: laid out for 80 columns, and broken where there are fewer."""
        text = report.text.partition("\ntry: ")[0] if self.is_low else report.text
        return fitted(self.broken(text), self.room_for_text(report))

    def broken(self, text: str) -> list[str]:
        """A text in lines that are no wider than the terminal."""
        return [
            part
            for line in harmless(text).splitlines()
            for part in (filled(line, self.width) if len(line) > self.width else [line])
        ]

    def room_for_text(self, report: Report) -> int:
        lines = min(self.lines or LINES, LINES)
        return max(LEAST, lines - 1 - self.besides - len(self.printed(report)))

    def printed(self, report: Report) -> list[str]:
        """The end of what the code printed while the test ran, below a line that says so."""
        lines = report.printed.splitlines()
        most = PRINTED if self.lines is None or self.lines > LINES - PRINTED else 1
        if self.is_low or not lines:
            return []
        head = "printed meanwhile:" if len(lines) <= most else "printed last:"
        return [head, *(f"    {harmless(line)}" for line in lines[-most:])]

    def room_below(self, first: Report) -> int:
        """How many lines are left below the first failure and above the score."""
        above = 1 + len(self.text(first)) + len(self.printed(first))
        return min(LINES, self.lines or LINES) - above - self.besides


def fitted(lines: list[str], room: int) -> list[str]:
    """At most so many lines; the cause stands at the end, and stays."""
    if len(lines) <= room:
        return lines
    ending = min(ENDING, room // 2)
    return [*lines[: room - ending - 1], "…", *lines[len(lines) - ending :]]
