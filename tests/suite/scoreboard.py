"""What a learner reads at the end of a run: the first failure of each lesson, then the score."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from kata.stubs import modules_of
from lessons import LESSONS
from tests.suite.expect import WIDTH
from tests.suite.implementations import Implementation

CATEGORIES = ("passed", "failed", "error", "todo")
NAMED = 5
PRINTED = 5


@dataclass
class Score:
    """How one lesson stands: its reports by outcome."""

    lesson: str
    reports: dict[str, list[pytest.TestReport]] = field(
        default_factory=lambda: {category: [] for category in CATEGORIES}
    )

    @property
    def red(self) -> list[pytest.TestReport]:
        return self.reports["failed"] + self.reports["error"]

    def count(self, *, stretch: bool) -> tuple[int, int]:
        """Tests passed and tests in all, of the core or of the stretch."""
        counts = [
            sum(report.is_stretch == stretch for report in self.reports[category])
            for category in CATEGORIES
        ]
        return counts[0], sum(counts)

    @property
    def state(self) -> str:
        """``todo``, ``started``, ``red``, ``done`` (the core is green) or ``starred`` (all is)."""
        core, all_core = self.count(stretch=False)
        stretch, all_stretch = self.count(stretch=True)
        if not core + stretch + len(self.red):
            return "todo"
        if core == all_core and stretch == all_stretch:
            return "starred"
        if core == all_core > 0:
            return "done"
        return "red" if self.red else "started"


COLOURS = {"todo": "yellow", "started": "yellow", "red": "red", "done": "green", "starred": "green"}


def replace_pytest_report(config: pytest.Config) -> None:
    """Switch off pytest's own failure section: ours says more in fewer lines."""
    config.option.tbstyle = "no"
    config.option.reportchars = ""


def show(terminal: pytest.TerminalReporter, load: Callable[[str], Implementation]) -> None:
    """Write the failures, then one line per lesson, then what was lent."""
    scores = list(scores_of(terminal))
    for score in scores:
        show_failures(terminal, score)
    if scores:
        terminal.section("lessons")
    for score in scores:
        show_score(terminal, score)
        lent = load(score.lesson).lent
        if lent and score.state != "todo":
            terminal.line(f"          lent by the reference: {', '.join(lent)}")
    for reason, times in reasons_for_skipping(terminal).items():
        terminal.line(f"skipped: {times} ({reason})")


def reasons_for_skipping(terminal: pytest.TerminalReporter) -> Counter[str]:
    """Why tests were skipped, and how many for each reason; a todo is none of these."""
    reports = terminal.stats.get("skipped", ())
    return Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)


def scores_of(terminal: pytest.TerminalReporter) -> Iterator[Score]:
    for lesson in LESSONS:
        score = Score(lesson.name)
        for category in CATEGORIES:
            score.reports[category] = [
                report
                for report in terminal.stats.get(category, ())
                if getattr(report, "lesson", None) == lesson.name
            ]
        if any(score.reports.values()):
            yield score


def show_failures(terminal: pytest.TerminalReporter, score: Score) -> None:
    """Write the first failure in full and the others by name, those of the same text by number."""
    if not score.red:
        return
    first, *others = sorted(score.red, key=lambda report: report.is_stretch)
    alike = sum(report.longrepr == first.longrepr for report in others)
    terminal.section(f"{score.lesson}: {headline(first)}", red=True)
    terminal.line(str(first.longrepr))
    show_prints(terminal, first)
    if alike:
        terminal.line(f"(and the same in {alike} more test{'s' * (alike > 1)})")
    rest = [sentence(report) for report in others if report.longrepr != first.longrepr]
    if rest:
        terminal.line("")
        terminal.line(textwrap.fill(also_red(list(dict.fromkeys(rest))), WIDTH))


def show_prints(terminal: pytest.TerminalReporter, report: pytest.TestReport) -> None:
    """Write the end of what the code printed while the test ran."""
    printed = report.capstdout.splitlines()
    if printed:
        terminal.line("")
        terminal.line("printed meanwhile:" if len(printed) <= PRINTED else "printed last:")
        for line in printed[-PRINTED:]:
            terminal.line(f"    {line}")


def headline(report: pytest.TestReport) -> str:
    """The test's sentence, the case of it that failed, and whether it is beyond the core.

    What comes before all tests, such as an import that fails, has a title of its own.
    """
    if hasattr(report, "title"):
        return report.title
    _, _, case = report.nodeid.split("::")[-1].partition("[")
    words = [sentence(report), f"[{case}" if case else "", "(stretch)" if report.is_stretch else ""]
    return " ".join(word for word in words if word)


def also_red(sentences: list[str]) -> str:
    more = f"; and {len(sentences) - NAMED} more" if len(sentences) > NAMED else ""
    return f"also red: {'; '.join(sentences[:NAMED])}{more}"


def sentence(test: pytest.TestReport | pytest.Item) -> str:
    """The test's name as the sentence it is, without its parameters."""
    name = test.nodeid.split("::")[-1].split("[")[0]
    return name.removeprefix("test_").replace("_", " ")


def show_score(terminal: pytest.TerminalReporter, score: Score) -> None:
    core, all_core = score.count(stretch=False)
    stretch, all_stretch = score.count(stretch=True)
    # With -k or -m only a part was run: green is then all that can be said.
    partly = score.state in ("done", "starred") and terminal.stats.get("deselected")
    terminal.write(f"{'green' if partly else score.state:<10}", **{COLOURS[score.state]: True})
    parts = [f"{core:>3} of {all_core}"] if all_core else []
    parts += [f"stretch {stretch} of {all_stretch}"] if all_stretch else []
    line = f"{score.lesson:<16}{', '.join(parts)}"
    if score.state == "todo":
        line = f"{score.lesson:<16}not started: open {place_of(score.lesson)}"
    terminal.line(line)


def place_of(lesson: str) -> str:
    """Where the learner writes: one file, or the folder of a lesson in several steps."""
    stubs = [module.stub for module in modules_of(lesson)]
    return f"lessons/{stubs[0] if len(stubs) == 1 else lesson + '/'}"
