"""What a learner reads at the end of a run of pytest: what `kata check` would show."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kata.showing import show_failures, show_score
from kata.terminal import open_console
from kata.verdict import End, Ending, Report, Verdict
from lessons import LESSONS
from tests.suite.implementations import Implementation

CATEGORIES = ("passed", "failed", "error", "todo", "skipped")
PRINTED_LINES, PRINTED_WIDTH = 20, 200
# More than a screen shows, and little enough to be kept for each test.
LONGEST_TEXT = 20_000


def replace_pytest_report(config: pytest.Config) -> None:
    """Switch off pytest's own failure section: ours says more in fewer lines."""
    config.option.tbstyle = "no"
    config.option.reportchars = ""


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


def content_of(report: pytest.TestReport) -> dict[str, Any]:
    """A test's report, as the runner keeps it."""
    is_todo = getattr(report, "todo", False)
    outcome = "todo" if is_todo else "failed" if report.failed else report.outcome
    return {
        "nodeid": report.nodeid,
        "sentence": sentence(report),
        "outcome": outcome,
        "is_stretch": report.is_stretch,
        "text": text_of(report)[:LONGEST_TEXT],
        "printed": printed_end(report.capstdout),
        "title": getattr(report, "title", ""),
    }


def text_of(report: pytest.TestReport) -> str:
    """The explanation of a failure, the reason for a skip, the task of a todo."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(report.longrepr or "")


def printed_end(printed: str) -> str:
    """The end of the output, however long it is."""
    lines = printed[-PRINTED_LINES * PRINTED_WIDTH :].splitlines()[-PRINTED_LINES:]
    return "\n".join(line[:PRINTED_WIDTH] for line in lines)


def sentence(test: pytest.TestReport | pytest.Item) -> str:
    """The test's name as the sentence it is, without its parameters."""
    name = test.nodeid.split("::")[-1].split("[")[0]
    possessive = re.sub(r"_s(?=_|$)", "'s", name.removeprefix("test_"))  # `torch_s`
    return possessive.replace("_", " ")
