"""The command ``watch``: what is saved is judged, the newest save first; a key does the rest."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from kata import progress, workspace
from kata.judging import Judge, Report, Request, Running, Verdict
from kata.keys import Read, keys
from kata.naming import NAMES, add_lesson
from kata.saves import Saves
from kata.screen import Screen
from kata.terminal import open_console
from kata.workspace import Workspace

# How long to wait for a key before the files are looked at again: short, since the learner waits.
IDLE, BUSY = 0.05, 0.01
# How many tests that failed lately run before the others.
REMEMBERED = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    add_lesson(parser, nargs="?", help="the lesson to watch (default: whichever is saved)")
    parser.add_argument(
        "--lessons",
        metavar="DIR",
        type=Path,
        help="where the lessons lie, if not in lessons/; what is remembered lies beside them",
    )


def main(arguments: argparse.Namespace) -> int:
    """Watch until the learner quits."""
    if arguments.lessons:
        folder = arguments.lessons.resolve()
        workspace.HERE = Workspace(folder, folder.parent / ".kata")
    with ended_by_signals(), Judge() as judge, keys() as read_key:
        screen = Screen(open_console(plain=arguments.plain), has_keys=read_key is not None)
        Watch(judge, screen, arguments.lesson).run(read_key)
    return 0


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """End in good order when the terminal is closed or the process is told to end."""
    wanted = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = [signal.signal(number, lambda *_: sys.exit(0)) for number in wanted]
    try:
        yield
    finally:
        for number, handler in zip(wanted, before, strict=True):
            signal.signal(number, handler)


class Watch:
    """The state of a watch: the lesson it is about, the run in progress, those to come.

    Args:
        judge: runs the tests.
        screen: shows what they say.
        lesson: the only lesson to judge; ``None`` for whichever is saved.
    """

    def __init__(self, judge: Judge, screen: Screen, lesson: str | None = None) -> None:
        self.judge = judge
        self.screen = screen
        self.only = lesson
        self.current = lesson or lesson_to_go_on_with()
        self.saves = Saves(workspace.HERE.lessons.resolve())
        self.pending = [self.current]
        self.running: Running | None = None
        self.key = ""
        self.shown: Report | None = None
        self.is_core_shown = False
        self.asked_again: str | None = None
        self.failed_before: dict[str, tuple[str, ...]] = {}
        self.is_on = True

    def run(self, read_key: Read | None) -> None:
        """Watch until the learner quits."""
        self.screen.welcome(self.current, can_fork=self.judge.fork)
        while self.is_on:
            seconds = BUSY if self.running else IDLE
            if read_key is None:
                time.sleep(seconds)
            else:
                self.press(read_key(seconds))
            self.notice()
            self.follow()
        self.saves.close()

    def press(self, key: str) -> None:
        """Do what a key stands for; other keys do nothing."""
        actions = {"r": self.again, "h": self.hint, "n": self.next_lesson, "q": self.quit}
        action = actions.get(key.lower())
        if action is not None:
            action()

    def notice(self) -> None:
        """Let the lessons that were saved be judged: at once, and before those that waited."""
        saved = self.saves.poll()
        if self.only:
            saved = {self.only} if saved & {self.only, *progress.all_needs(self.only)} else set()
        if saved:
            self.drop()
            waiting = [lesson for lesson in self.pending if lesson not in saved]
            self.pending = [*sorted(saved, key=NAMES.index), *waiting]

    def follow(self) -> None:
        """Go on with the run in progress, or begin the next one."""
        if self.running is not None:
            verdict = self.running.poll()
            if verdict is None:
                self.show_early(self.running.partial_verdict)
            else:
                self.conclude(verdict)
        elif self.pending:
            self.begin(self.pending.pop(0))

    def begin(self, lesson: str) -> None:
        self.current = lesson
        self.key = progress.key_of(lesson)
        self.shown, self.is_core_shown = None, False
        first = self.failed_before.get(lesson, ())
        self.running = self.judge.start(Request(lesson, workspace.HERE.lessons, first=first))
        self.screen.judging(lesson, again=lesson == self.asked_again)
        self.asked_again = None

    def show_early(self, so_far: Verdict) -> None:
        """Show the core's first failure, or that it has none, as soon as that is known."""
        first = so_far.first_failure
        if self.shown is None and first is not None and not first.is_stretch:
            self.shown = first
            self.screen.first_failure(so_far.lesson, first)
        elif not self.is_core_shown and so_far.is_green(stretch=False):
            self.is_core_shown = True
            self.screen.core_is_green(so_far)

    def conclude(self, verdict: Verdict) -> None:
        self.running = None
        self.screen.verdict(verdict, shown=self.shown)
        failed = (each.nodeid for each in verdict.of("failed"))
        before = self.failed_before.get(verdict.lesson, ())
        # What failed before the last run too: an edit that breaks it again is told at once.
        self.failed_before[verdict.lesson] = tuple(dict.fromkeys((*failed, *before)))[:REMEMBERED]
        progress.remember(verdict, self.key)

    def drop(self) -> None:
        """Stop the run in progress: what it judges is no longer what the file holds."""
        if self.running is not None:
            self.running.stop()
            self.running = None

    def again(self) -> None:
        self.drop()
        self.asked_again = self.current
        self.pending.insert(0, self.current)

    def hint(self) -> None:
        self.screen.hint(self.current)

    def next_lesson(self) -> None:
        position = NAMES.index(self.current) + 1
        if position == len(NAMES):
            self.screen.last_lesson()
            return
        self.drop()
        self.current = NAMES[position]
        self.only = self.only and self.current
        self.pending = [self.current]

    def quit(self) -> None:
        self.drop()
        self.is_on = False


def lesson_to_go_on_with() -> str:
    row = progress.next_of(progress.standings())
    return row.lesson.name if row else NAMES[0]
