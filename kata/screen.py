"""What the watch shows: the verdict of the last save, and what can be done next."""

from __future__ import annotations

import time

from rich.console import Console

from kata.commands.hint import next_hint, what_is_left
from kata.judging import Report, Verdict
from kata.naming import place_of
from kata.prose import show_prose
from kata.showing import show_failure, show_rest, show_score
from kata.terminal import show_labelled

KEYS = "r run again · h hint · n next lesson · q quit"
SHORT_KEYS = "r again · h hint · n next · q quit"


class Screen:
    """The terminal of a watch: each verdict begins at the top of it.

    Args:
        console: where to write; one that is no terminal is written line below line.
        has_keys: whether the learner can press keys.
    """

    def __init__(self, console: Console, *, has_keys: bool) -> None:
        self.console = console
        self.has_keys = has_keys
        self.top = ""

    @property
    def lines(self) -> int | None:
        """How many lines a verdict may take, so that all of it can be seen."""
        if not self.can_clear:
            return None
        # The last line is the cursor's.
        return self.console.height - 1 - bool(self.top) - self.has_keys

    @property
    def can_clear(self) -> bool:
        return self.console.is_terminal and not self.console.is_dumb_terminal

    def welcome(self, lesson: str, *, can_fork: bool) -> None:
        self.console.print(f"watching: save {place_of(lesson)}, and it is judged", soft_wrap=True)
        self.console.print("importing torch and the tests; this is done once", style="quiet")
        if not can_fork:
            text = "this system has no fork: each run is a process of its own, and takes longer"
            self.console.print(text, style="quiet", soft_wrap=True)

    def judging(self, lesson: str, *, again: bool) -> None:
        """Say that a run has begun, below what is there; of one asked for, above what it says."""
        self.top = f"run again: {lesson}, at {time.strftime('%H:%M:%S')}" if again else ""
        if self.console.is_terminal:
            self.console.print(f"{self.top or f'judging {lesson}'} …", style="quiet")

    def first_failure(self, lesson: str, report: Report) -> None:
        """Show a failure while the other tests go on."""
        self.clear()
        show_failure(self.console, lesson, report, self.lines)

    def core_is_green(self, so_far: Verdict) -> None:
        """Show that the lesson is done, while the tests of the stretch go on."""
        self.clear()
        show_labelled(self.console, "done", f"{so_far.lesson}: the core is green", style="done")

    def verdict(self, verdict: Verdict, *, shown: Report | None) -> None:
        """Show what a run said, but for the failure that is shown already."""
        if shown is None:
            self.clear()
        if verdict.first_failure and shown is None:
            show_failure(self.console, verdict.lesson, verdict.first_failure, self.lines)
        show_rest(self.console, verdict, self.lines)
        show_score(self.console, verdict)
        self.keys()

    def hint(self, lesson: str) -> None:
        """Show the next hint, and what there is after it."""
        self.console.print()
        show_prose(self.console, next_hint(lesson))
        self.console.print()
        show_prose(self.console, what_is_left(lesson, "`h`"))
        self.keys()

    def last_lesson(self) -> None:
        self.console.print("that was the last lesson", style="quiet")
        self.keys()

    def keys(self) -> None:
        if self.has_keys:
            wide = len(KEYS) <= self.console.width
            self.console.print(KEYS if wide else SHORT_KEYS, style="quiet")

    def clear(self) -> None:
        """Begin at the top, and say there what the verdict to come is about."""
        if self.can_clear:
            self.console.clear()
            if self.top:
                self.console.print(self.top, style="quiet", soft_wrap=True)
