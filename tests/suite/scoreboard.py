"""What a learner reads at the end of a run of pytest: what `kata check` would show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from kata import progress
from kata.showing import show_failures, show_score
from kata.terminal import open_console
from kata.verdict import End, Ending, Report, Verdict
from lessons import LESSONS, TOGETHER
from tests.suite.implementations import Implementation
from tests.suite.plugin import LEFT_OUT, LOADER, SUBJECT, lesson_of, order_of
from tests.suite.reporting import content_of

CATEGORIES = ("passed", "failed", "error", "todo", "skipped")
HASHES = pytest.StashKey[dict[str, str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Switch off pytest's own failure section: ours says more in fewer lines."""
    if config.stash[SUBJECT].is_learners:
        config.option.tbstyle = "no"
        config.option.reportchars = ""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note what the learner's files hold: a save during a run changes nothing about it."""
    if session.config.stash[SUBJECT].is_here:
        lessons = {lesson_of(item) or "" for item in session.items} - {"", *TOGETHER}
        session.config.stash[HASHES] = {lesson: progress.hash_of(lesson) for lesson in lessons}


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.stash[SUBJECT].is_learners and not order_of(config):
        verdicts = list(verdicts_of(terminalreporter, config.stash[LOADER]))
        show(terminalreporter, verdicts)
        if is_whole(terminalreporter):
            remember(verdicts, config.stash.get(HASHES, {}))
        if left_out := config.stash.get(LEFT_OUT, 0):
            terminalreporter.line(f"left out: {left_out} slow; `-m slow` runs them")


def is_whole(terminal: pytest.TerminalReporter) -> bool:
    """Return whether the run was of whole files, and came to their end."""
    config, session = terminal.config, terminal._session
    ended = {each.nodeid for name in CATEGORIES for each in terminal.stats.get(name, ())}
    is_part = config.stash[SUBJECT].step or terminal.stats.get("deselected")
    is_part = is_part or any("::" in each for each in config.args)
    return not is_part and session is not None and len(ended) == session.testscollected


def remember(verdicts: list[Verdict], hashes: dict[str, str]) -> None:
    """Keep what was said of the learner's files: others use the lessons that are green now."""
    for verdict in verdicts:
        if verdict.lesson in hashes:
            keep = progress.remember if all(verdict.planned) else progress.remember_green
            keep(verdict, hashes[verdict.lesson])


def show(terminal: pytest.TerminalReporter, verdicts: list[Verdict]) -> None:
    """Write the failures of each lesson, then the scores."""
    console = open_console(stream=terminal._tw._file, width=terminal._tw.fullwidth)
    for verdict in verdicts:
        show_failures(console, verdict)
    if verdicts:
        terminal.section("lessons")
    for verdict in verdicts:
        # With -k or -m, or one file, only a part was run: green is then all that can be said.
        is_part = terminal.stats.get("deselected") or not all(verdict.planned)
        show_score(console, verdict, green="green" if is_part else "")


def verdicts_of(
    terminal: pytest.TerminalReporter, load: Callable[[str], Implementation]
) -> Iterator[Verdict]:
    """Yield what the run says of each lesson that it was about."""
    reports = [each for name in CATEGORIES for each in terminal.stats.get(name, ())]
    for lesson in LESSONS:
        own = [each for each in reports if getattr(each, "lesson", None) == lesson.name]
        if own:
            found = tuple(Report(**content_of(each)) for each in own)
            planned = Counter(each.is_stretch for each in found)
            yield Verdict(
                lesson.name,
                found,
                Ending(End.FINISHED),
                planned=(planned[False], planned[True]),
                lent=load(lesson.name).lent,
            )
