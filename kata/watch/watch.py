"""The watch: what is saved is judged, the newest save first; a key does the rest."""

from __future__ import annotations

import time

from kata import places, results
from kata.judging import Judge, Report, Request, Running, Verdict
from kata.naming import NAMES
from kata.standing import next_of, standings
from kata.watch.changes import Changes
from kata.watch.keys import Read
from kata.watch.screen import Screen

# How long to wait for a key before the files are looked at again: short, since the learner waits.
IDLE, BUSY = 0.05, 0.01
# How many tests that failed lately run before the others.
REMEMBERED = 30


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
        self.changes = Changes(places.HERE.lessons)
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

    def press(self, key: str) -> None:
        """Do what a key stands for; other keys do nothing."""
        actions = {"r": self.again, "h": self.hint, "n": self.next_lesson, "q": self.quit}
        action = actions.get(key.lower())
        if action is not None:
            action()

    def notice(self) -> None:
        """Let the lessons that were saved be judged: at once, and before those that waited."""
        saved = self.changes.poll()
        if self.only:
            saved = {self.only} if saved & {self.only, *results.all_needs(self.only)} else set()
        if saved:
            self.drop()
            waiting = [lesson for lesson in self.pending if lesson not in saved]
            self.pending = [*sorted(saved, key=NAMES.index), *waiting]

    def follow(self) -> None:
        """Go on with the run in progress, or begin the next one."""
        if self.running is not None:
            verdict = self.running.poll()
            if verdict is None:
                self.show_early(self.running.so_far)
            else:
                self.conclude(verdict)
        elif self.pending:
            self.begin(self.pending.pop(0))

    def begin(self, lesson: str) -> None:
        self.current = lesson
        self.key = results.key_of(lesson)
        self.shown, self.is_core_shown = None, False
        first = self.failed_before.get(lesson, ())
        self.running = self.judge.start(Request(lesson, places.HERE.lessons, first=first))
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
        results.remember(verdict, self.key)

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
    row = next_of(standings())
    return row.lesson.name if row else NAMES[0]
