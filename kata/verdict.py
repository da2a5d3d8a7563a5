"""The result of a run: a report per test, how the run ended, and the state of the lesson."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from lessons import TOGETHER

CAUSE = "likely cause:"
# Longer than any sentence that you want to read in a list.
LONGEST = 240
# How a text begins that compares two values: these are left to the full text.
COMPARISONS = ("expected:", "the graphs differ")
# A place in the learner's code, which may be below a note.
FRAME = re.compile(r"  \S+:\d+, in ")


class State(StrEnum):
    """The state of a lesson: a verdict's, or why a person's lesson has none."""

    TODO = "todo"
    STARTED = "started"
    RED = "red"
    DONE = "done"
    STARRED = "starred"
    HUNG = "hung"
    MEMORY = "memory"
    CRASHED = "crashed"
    UNREADABLE = "unreadable"
    NOT_JUDGED = "not judged"
    WAITING = "waiting"


# The lesson counts as done.
PASSED = (State.DONE, State.STARRED)


@dataclass(frozen=True)
class Count:
    """How many tests of the core (or the stretch) passed, were planned, and were skipped."""

    passed: int = 0
    planned: int = 0
    skipped: int = 0

    @property
    def is_green(self) -> bool:
        """Whether all of them ran, and none failed or is todo."""
        return self.passed + self.skipped == self.planned > 0

    def __str__(self) -> str:
        return f"{self.passed} of {self.planned}"


@dataclass(frozen=True)
class Report:
    """What one test said.

    Attributes:
        outcome: ``passed``, ``failed``, ``todo`` or ``skipped``.
        is_stretch: Whether the test asks for more than the core.
        text: The explanation of a failure, the reason for a skip, the task of a todo.
        printed: The end of what the judged code printed during the test.
        title: What failed before the test could ask anything, if it was that.
        line: Where the function is that a todo waits for, in the lesson's file.
    """

    nodeid: str
    sentence: str
    outcome: str
    is_stretch: bool
    text: str = ""
    printed: str = ""
    title: str = ""
    line: int = 0

    @property
    def case(self) -> str:
        """The case of a test that runs on several; empty for one that has none."""
        return self.nodeid.split("::")[-1].partition("[")[2].removesuffix("]")

    @property
    def headline(self) -> str:
        """The title, or else the sentence, the case, and whether it is beyond the core."""
        if self.title:
            return self.title
        case = f"[{self.case}]" if self.case else ""
        words = (self.sentence, case, "(stretch)" if self.is_stretch else "")
        return " ".join(filter(None, words))


class End(StrEnum):
    """How a run can end."""

    RUNNING = "still running"
    FINISHED = "finished"
    TIME = "time limit"
    MEMORY = "memory limit"
    CRASHED = "crashed"
    EXITED = "exited early"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    BROKEN = "could not be run"


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    Attributes:
        sentence: What happened; empty for a run that finished.
        during: The sentence of the test in which it ended; empty for the import of the lesson.
        place: Where the judged code was, and below it that line; empty if it isn't known.
    """

    how: End
    sentence: str = ""
    during: str = ""
    place: str = ""

    @property
    def text(self) -> str:
        """What a learner reads: the sentence, the test, the place and its line."""
        if self.how in (End.RUNNING, End.FINISHED):
            return ""
        lines = [self.sentence]
        if self.how in (End.TIME, End.MEMORY, End.CRASHED, End.EXITED, End.INTERRUPTED):
            lines.append(f"  during: {self.during or 'the import of the lesson'}")
        if self.place:
            lines.append(f"  {self.place}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Verdict:
    """All that a run said.

    Attributes:
        reports: One per test that ended, in the order in which they ran.
        planned: How many tests were to run, of the core and of the stretch.
        lent: The pieces that came from the reference.
        borrowed: What in the lesson is the reference's own, or torch's.
        step: The step whose tests alone were to run; 0 for all tests.
    """

    lesson: str
    reports: tuple[Report, ...]
    ending: Ending
    planned: tuple[int, int] = (0, 0)
    lent: tuple[str, ...] = ()
    borrowed: tuple[str, ...] = ()
    step: int = 0

    def of(self, outcome: str) -> tuple[Report, ...]:
        """The reports of one outcome."""
        return tuple(report for report in self.reports if report.outcome == outcome)

    @property
    def failures(self) -> tuple[Report, ...]:
        """The failures to read: those of the core, and of the stretch once the core is green."""
        failed, is_next = self.of("failed"), self.count(stretch=False).is_green
        core = tuple(report for report in failed if not report.is_stretch)
        return core or (failed if is_next or not self.planned[0] else ())

    @property
    def first_failure(self) -> Report | None:
        """The failure to read first."""
        return next(iter(self.failures), None)

    @property
    def is_finished(self) -> bool:
        return self.ending.how is End.FINISHED

    def count(self, *, stretch: bool) -> Count:
        """The tests of the core, or of the stretch."""
        outcomes = Counter(each.outcome for each in self.reports if each.is_stretch == stretch)
        return Count(outcomes["passed"], self.planned[stretch], outcomes["skipped"])

    @property
    def yours(self) -> tuple[str, ...] | None:
        """The learner's pieces of the finale or the chain; ``None`` for a lesson."""
        if self.lesson not in TOGETHER:
            return None
        return tuple(name for name in TOGETHER[self.lesson].needs if name not in self.lent)

    @property
    def state(self) -> State:
        """``todo``, ``started``, ``red``, ``done`` (the core is green) or ``starred`` (all is)."""
        core, stretch = self.count(stretch=False), self.count(stretch=True)
        is_red = bool(self.failures) or not self.is_finished
        # Where only tests of the stretch were asked for, these decide.
        if core.is_green or (stretch.is_green and not core.planned):
            if self.yours is not None and len(self.yours) < len(TOGETHER[self.lesson].needs):
                return State.STARTED
            is_all = stretch.is_green or not (stretch.planned or is_red)
            # The finale and the chain have no stretch.
            return State.STARRED if is_all and self.lesson not in TOGETHER else State.DONE
        if is_red:
            return State.RED
        return State.STARTED if core.passed + stretch.passed else State.TODO


def reason_of(report: Report) -> str:
    """Return the likely cause of a failure, or else its error, or its test."""
    first = report.text.partition("\n")[0]
    raised = "" if first.startswith(COMPARISONS) else first
    return cause_of(report) or first_sentence(raised or report.sentence)


def cause_of(report: Report) -> str:
    """Return the likely cause in a failure's text; empty if the suite named none."""
    found: list[str] = []
    for line in report.text.splitlines():
        if found and (FRAME.match(line) or not line.startswith(" ")):
            break
        if found or line.startswith(CAUSE):
            found.append(line.removeprefix(CAUSE).strip())
    return first_sentence(" ".join(found))


def first_sentence(text: str) -> str:
    return re.split(r"(?<=[.;])\s", text[:LONGEST], maxsplit=1)[0].rstrip(";")


def sentence_of(nodeid: str) -> str:
    """The name of a test as the sentence it is, without its parameters."""
    name = nodeid.rsplit("::", maxsplit=1)[-1].split("[", maxsplit=1)[0].removeprefix("test_")
    words = re.sub(r"_s(?=_|$)", "'s", name).replace("_", " ")  # `torch_s`
    return re.sub(r"\b(is|are|do|does)nt\b", r"\1n't", words)
