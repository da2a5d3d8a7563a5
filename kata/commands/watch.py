"""The command ``watch``: what is saved is judged, the newest save first."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from rich.console import Console

from kata import progress, workspace
from kata.commands.hint import next_hint, what_is_left
from kata.judging import Judge, Report, Request, Running, Verdict
from kata.lesson_names import NAMES, add_lesson, add_step, check_step
from kata.milestones import milestone
from kata.saved_files import Saves, can_type, line_typed
from kata.showing import show_failure, show_green, show_rest, show_score
from kata.terminal import open_console, show_labelled, show_prose
from kata.verdict import PASSED
from kata.workspace import Workspace

# How long to wait for a line before the files are looked at again: short, as the learner waits.
IDLE, BUSY = 0.05, 0.01
# How many tests that failed lately run before the others.
REMEMBERED = 30
KEYS = "Enter: a hint · Ctrl-C: quit"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    add_lesson(parser, nargs="?", help="the lesson to watch (default: whichever is saved)")
    add_step(parser)
    parser.add_argument(
        "--lessons",
        metavar="DIR",
        type=Path,
        help="the folder of the lessons, if not lessons/; results are kept next to it",
    )


def main(arguments: argparse.Namespace) -> int:
    """Watch until the learner quits."""
    if arguments.lessons:
        folder = arguments.lessons.resolve()
        workspace.HERE = Workspace(folder, folder.parent / ".kata")
    check_step([arguments.lesson] if arguments.lesson else (), arguments.step)
    screen = Screen(open_console(plain=arguments.plain))
    with Judge() as judge, contextlib.closing(Saves(workspace.HERE.lessons.resolve())) as saves:
        Watch(judge, screen, saves, arguments.lesson, arguments.step).run()
    return 0


class Screen:
    """The terminal of a watch: each verdict begins at the top of it.

    Args:
        console: Where to write; if it isn't a terminal, lines follow one another.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.can_clear = console.is_terminal and not console.is_dumb_terminal

    @property
    def lines(self) -> int | None:
        """How many lines a verdict may take, so that all of it can be seen."""
        # The last two lines are the keys' and the cursor's.
        return self.console.height - 2 if self.can_clear else None

    def welcome(self, lesson: str) -> None:
        self.console.print(f"watching: save lessons/{lesson}.py, and it is judged", soft_wrap=True)
        self.console.print("importing torch and the tests; this is done once", style="quiet")

    def judging(self, lesson: str) -> None:
        if self.console.is_terminal:
            self.console.print(f"judging {lesson} …", style="quiet")

    def first_failure(self, lesson: str, report: Report) -> None:
        """Show a failure while the other tests go on."""
        self.clear()
        show_failure(self.console, lesson, report, self.lines)

    def core_is_green(self, so_far: Verdict) -> None:
        """Show that the lesson is done, while the tests of the stretch go on."""
        self.clear()
        show_labelled(self.console, "done", f"{so_far.lesson}: the core is green!", style="done")

    def verdict(self, verdict: Verdict, *, shown: Report | None, is_news: bool) -> None:
        """Show what a run said, but for the failure that is shown already.

        Args:
            verdict: What the run said.
            shown: The failure that is shown already.
            is_news: Whether the core wasn't green before.
        """
        if shown is None:
            self.clear()
        if is_news:
            show_green(self.console, verdict, milestone(verdict.lesson))
        else:
            if verdict.first_failure and shown is None:
                show_failure(self.console, verdict.lesson, verdict.first_failure, self.lines)
            show_rest(self.console, verdict, self.lines)
            show_score(self.console, verdict, green="green" if verdict.step else "")
        self.keys()

    def hint(self, lesson: str) -> None:
        """Show the next hint, and what there is after it."""
        self.console.print()
        show_prose(self.console, f"{next_hint(lesson)}\n\n{what_is_left(lesson, 'Enter')}")
        self.keys()

    def keys(self) -> None:
        if can_type():
            self.console.print(KEYS, style="quiet")

    def clear(self) -> None:
        if self.can_clear:
            self.console.clear()


class Watch:
    """The state of a watch: the lesson it is about, the run in progress, those to come.

    Args:
        judge: Runs the tests.
        screen: Shows what they say.
        saves: Tells which lessons are saved.
        lesson: The only lesson to judge; ``None`` for whichever is saved.
        step: The number of the step whose tests alone run; 0 for all of them.
    """

    def __init__(
        self, judge: Judge, screen: Screen, saves: Saves, lesson: str | None, step: int = 0
    ) -> None:
        self.step = step
        self.judge = judge
        self.screen = screen
        self.only = lesson
        self.current = lesson or lesson_to_go_on_with()
        self.saves = saves
        self.pending = [self.current]
        self.running: Running | None = None
        self.key = ""
        self.shown: Report | None = None
        self.is_core_shown = False
        self.failed_before: dict[str, tuple[str, ...]] = {}

    def run(self) -> None:
        """Watch until the learner quits."""
        self.screen.welcome(self.current)
        with contextlib.suppress(EOFError):
            while True:
                if line_typed(BUSY if self.running else IDLE):
                    self.screen.hint(self.current)
                self.notice()
                self.follow()

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
        yours = progress.siblings_of(lesson)
        request = Request(lesson, workspace.HERE.lessons, yours, first=first, step=self.step)
        self.running = self.judge.start(request)
        self.screen.judging(lesson)

    def show_early(self, so_far: Verdict) -> None:
        """Show the core's first failure, or that it has none, as soon as that is known."""
        first = so_far.first_failure
        if self.shown is None and first is not None and not first.is_stretch:
            self.shown = first
            self.screen.first_failure(so_far.lesson, first)
        elif not (self.is_core_shown or self.step) and so_far.count(stretch=False).is_green:
            self.is_core_shown = True
            self.screen.core_is_green(so_far)

    def conclude(self, verdict: Verdict) -> None:
        self.running = None
        before = progress.recall(verdict.lesson)
        was_green = before is not None and before.state in PASSED
        progress.remember(verdict, self.key)
        is_green = verdict.state in PASSED and verdict.is_finished
        is_news = is_green and not (was_green or verdict.step)
        self.screen.verdict(verdict, shown=self.shown, is_news=is_news)
        failed = (each.nodeid for each in verdict.of("failed"))
        earlier = self.failed_before.get(verdict.lesson, ())
        # What failed before the last run too: an edit that breaks it again is told at once.
        self.failed_before[verdict.lesson] = tuple(dict.fromkeys((*failed, *earlier)))[:REMEMBERED]

    def drop(self) -> None:
        """Stop the run in progress: what it judges is no longer what the file holds."""
        if self.running is not None:
            self.running.stop()
            self.running = None


def lesson_to_go_on_with() -> str:
    row = progress.next_of(progress.standings())
    return row.lesson.name if row else NAMES[0]
