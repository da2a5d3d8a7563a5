"""The command ``watch``: judge a lesson each time it is saved, the newest save first."""

from __future__ import annotations

import argparse
import contextlib
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import NoReturn

from rich.console import Console
from watchfiles import PythonFilter, watch

from kata import progress
from kata.arguments import add_lesson, add_step, check_step
from kata.judge import Judge, Request, Run
from kata.showing import show_failure, show_green, show_rest, show_score
from kata.terminal import open_console, show_labelled
from kata.verdict import PASSED, Report, Verdict
from lessons import NAMES

# How long to wait before the files are looked at again: short, as the learner waits.
IDLE, BUSY = 0.05, 0.01
# How long changes are gathered, and between two looks at them, in milliseconds.
DEBOUNCE, STEP = 50, 10
KEYS = "Ctrl-C: quit"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    add_lesson(parser, nargs="?", help="the lesson to watch (default: whichever is saved)")
    add_step(parser)
    words = "the folder of the lessons, if not lessons/; results are kept next to it"
    parser.add_argument("--lessons", metavar="DIR", type=Path, help=words)


def main(arguments: argparse.Namespace) -> int:
    """Watch until the learner quits."""
    check_step([arguments.lesson] if arguments.lesson else (), arguments.step)
    folder = (arguments.lessons or progress.HERE.lessons).resolve()
    with (
        progress.working_in(folder),
        Judge() as judge,
        contextlib.closing(Saves(folder)) as saves,
    ):
        Watch(judge, open_console(), saves, arguments.lesson, arguments.step).watch()
    return 0


class Watch:
    """A watch: the run in progress, and the lessons to judge after it.

    Args:
        lesson: The only lesson to judge; ``None`` for every one that is saved.
        step: The number of the step whose tests alone run; 0 for all of them.
    """

    def __init__(
        self, judge: Judge, console: Console, saves: Saves, lesson: str | None, step: int = 0
    ) -> None:
        self.judge, self.console, self.saves = judge, console, saves
        self.only, self.step = lesson, step
        self.pending = [lesson or lesson_to_go_on_with()]
        self.run: Run | None = None
        self.shown: Report | None = None
        self.is_core_shown = False

    def watch(self) -> NoReturn:
        """Watch until the learner quits."""
        file = f"lessons/{self.pending[0]}.py"
        self.console.print(f"watching: save {file}, and it is judged", soft_wrap=True)
        self.console.print("importing torch and the tests; this is done once", style="quiet")
        while True:
            time.sleep(BUSY if self.run else IDLE)
            self.notice()
            self.follow()

    def notice(self) -> None:
        """Judge what was saved next, in place of the run in progress."""
        saved = self.saves.poll()
        if self.only:
            saved = {self.only} if saved & {self.only, *progress.all_needs(self.only)} else set()
        if saved:
            if self.run is not None:
                self.run.stop()
            self.run = None
            waiting = [lesson for lesson in self.pending if lesson not in saved]
            self.pending = [*sorted(saved, key=NAMES.index), *waiting]

    def follow(self) -> None:
        """Go on with the run in progress, or begin the next one."""
        if self.run is not None:
            verdict = self.run.poll()
            if verdict is None:
                self.show_early(self.run.verdict_so_far())
            else:
                self.conclude(verdict, self.run.request)
        elif self.pending:
            self.begin(self.pending.pop(0))

    def begin(self, lesson: str) -> None:
        self.shown, self.is_core_shown = None, False
        request = progress.request(lesson, step=self.step, kernels=self.judge.kernels)
        self.run = self.judge.start(request)
        if self.console.is_terminal:
            self.console.print(f"judging {lesson} …", style="quiet")

    def show_early(self, so_far: Verdict) -> None:
        """Show the core's first failure, or that it has none, while the other tests go on."""
        first = so_far.first_failure
        if self.shown is None and first is not None and not first.is_stretch:
            self.shown = first
            self.clear()
            show_failure(self.console, so_far.lesson, first)
        elif not (self.is_core_shown or self.step) and so_far.count(stretch=False).is_green:
            self.is_core_shown = True
            self.clear()
            words = f"{so_far.lesson}: the core is green!"
            show_labelled(self.console, "done", words, style="done")

    def conclude(self, verdict: Verdict, request: Request) -> None:
        """Show the verdict, and keep it."""
        self.run = None
        before = progress.recall(verdict.lesson)
        was_green = before is not None and before.state in PASSED
        progress.remember(verdict, progress.hash_of(verdict.lesson, request.sources))
        is_green = verdict.state in PASSED and verdict.is_finished
        self.show(verdict, is_news=is_green and not (was_green or verdict.step))

    def show(self, verdict: Verdict, *, is_news: bool) -> None:
        """Show a verdict, apart from the failure that is shown already."""
        if self.shown is None:
            self.clear()
        if is_news:
            show_green(self.console, verdict, progress.milestone(verdict.lesson))
        else:
            if verdict.first_failure and self.shown is None:
                show_failure(self.console, verdict.lesson, verdict.first_failure)
            show_rest(self.console, verdict)
            show_score(self.console, verdict)
        self.console.print(KEYS, style="quiet")

    def clear(self) -> None:
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self.console.clear()


def lesson_to_go_on_with() -> str:
    row = progress.next_of(progress.standings())
    return row.lesson.name if row else NAMES[0]


class Saves:
    """The saves in a folder of lessons, each reported once."""

    def __init__(self, folder: Path) -> None:
        self.changed: SimpleQueue[str] = SimpleQueue()
        self.is_over = threading.Event()
        threading.Thread(target=self.listen, args=(folder,), daemon=True).start()

    def listen(self, folder: Path) -> None:
        """Gather what changes; a folder that is gone has no more changes."""
        for changes in watch(
            folder,
            watch_filter=PythonFilter(),
            debounce=DEBOUNCE,
            step=STEP,
            rust_timeout=1000,
            stop_event=self.is_over,
        ):
            for _, path in changes:
                self.changed.put(Path(path).stem)

    def poll(self) -> set[str]:
        """The lessons that were saved since the last call."""
        return {self.changed.get() for _ in range(self.changed.qsize())} & set(NAMES)

    def close(self) -> None:
        """Listen no longer."""
        self.is_over.set()
