"""From what a run said to a grade: what counts is the instructor's own list of tests.

A run on somebody else's code is asked for each test of that list, no more and no less, and for the
controls, which fail with a word that was made up for it. Anything else makes it void.
"""

from __future__ import annotations

import re
import secrets
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kata.grading.report import Failure, Grade, Share, State
from kata.judging import End, Report, Request, Verdict

CONTROLS = "tests/suite/controls.py"
LINES, WIDTH, LONGEST = 30, 120, 200
ALSO_RED = 8
STATES = {
    End.TIME: State.HUNG,
    End.MEMORY: State.MEMORY,
    End.CRASHED: State.CRASHED,
    End.EXITED: State.CRASHED,
    End.INTERRUPTED: State.CRASHED,
}
CAUSE = re.compile(r"^likely cause: +(.*(?:\n {14}.*)*)", re.MULTILINE)


@dataclass(frozen=True)
class Limits:
    """What one run may take.

    Attributes:
        seconds: for one test, or for the import of the lesson.
        total: for all tests of a lesson, in seconds.
        memory: in GiB, beyond what torch takes.
    """

    seconds: float = 10.0
    total: float = 120.0
    memory: float = 4.0


@dataclass(frozen=True)
class Exam:
    """The tests of one lesson, as a run on the instructor's own stub reports them.

    Attributes:
        tests: each test that isn't skipped there, by its node id.
        skipped: those that are: they need what this machine doesn't have.
        controls: what each run must fail besides.
    """

    lesson: str
    tests: dict[str, Report]
    skipped: frozenset[str]
    controls: frozenset[str]

    @classmethod
    def of(cls, verdict: Verdict) -> Exam:
        """The exam that a run on the stub sat.

        Raises:
            ValueError: the run on the stub didn't come to its end, or something passed.
        """
        own = [each for each in verdict.reports if not is_control(each)]
        outcomes = {each.outcome for each in own}
        if not verdict.is_finished or not own or not outcomes <= {"todo", "skipped"}:
            raise ValueError(f"{verdict.lesson}: the stub itself isn't todo {verdict.ending.text}")
        return cls(
            lesson=verdict.lesson,
            tests={each.nodeid: each for each in own if each.outcome == "todo"},
            skipped=frozenset(each.nodeid for each in own if each.outcome == "skipped"),
            controls=frozenset(each.nodeid for each in verdict.reports if is_control(each)),
        )

    def grade(self, verdict: Verdict, word: str) -> Grade:
        """The grade that a run on a submission earns; ``word`` is what its controls fail with."""
        said = {each.nodeid: each for each in verdict.reports if not is_control(each)}
        objections = list(self.objections(verdict, said, word)) if verdict.is_finished else []
        # Of a run that doesn't count, nothing is counted.
        passed = {each for each in self.tests if not objections and is_passed(said.get(each))}
        return Grade(
            lesson=self.lesson,
            state=State.VOID if objections else self.state(verdict, said, passed),
            core=self.share(passed, stretch=False),
            stretch=self.share(passed, stretch=True),
            seconds=round(verdict.seconds, 2),
            failure=void(objections) if objections else self.failure(verdict, said),
            also_red=() if objections else tuple(self.also_red(said)),
            lent=verdict.lent,
        )

    def objections(self, verdict: Verdict, said: dict[str, Report], word: str) -> Iterator[str]:
        """Why a run that came to its end doesn't count."""
        if unheard := self.tests.keys() - said.keys():
            yield f"{len(unheard)} of the lesson's tests didn't report"
        if strangers := said.keys() - self.tests.keys() - self.skipped:
            yield f"{len(strangers)} results are of tests that the lesson doesn't have"
        controls = {each.nodeid: each for each in verdict.reports if is_control(each)}
        for nodeid in sorted(self.controls):
            control = controls.get(nodeid)
            if control is None or control.outcome != "failed" or word not in control.text:
                yield objection_of(control, nodeid)

    def state(self, verdict: Verdict, said: dict[str, Report], passed: set[str]) -> State:
        if not verdict.is_finished:
            return STATES.get(verdict.ending.how, State.NOT_JUDGED)
        core = self.share(passed, stretch=False)
        if core.of and core.passed == core.of:
            return State.STARRED if passed == self.tests.keys() else State.DONE
        if any(is_red(said.get(nodeid)) for nodeid in self.tests):
            return State.RED
        return State.STARTED if passed else State.TODO

    def share(self, passed: set[str], *, stretch: bool) -> Share:
        tests = [nodeid for nodeid, test in self.tests.items() if test.is_stretch == stretch]
        return Share(sum(nodeid in passed for nodeid in tests), len(tests))

    def red(self, said: dict[str, Report]) -> list[Report]:
        """The reports of tests that failed, in the exam's order, the core first."""
        red = [nodeid for nodeid in self.tests if is_red(said.get(nodeid))]
        return [
            said[nodeid] for nodeid in sorted(red, key=lambda each: self.tests[each].is_stretch)
        ]

    def failure(self, verdict: Verdict, said: dict[str, Report]) -> Failure | None:
        if not verdict.is_finished:
            text = clipped(verdict.ending.text)
            return Failure(clipped(verdict.ending.during), first_line(text), text)
        red = self.red(said)
        if not red:
            return None
        test = self.tests[red[0].nodeid]
        text = clipped(red[0].text) or "the test was skipped by the code that it judges"
        return Failure(clipped(red[0].title or test.headline), diagnosis(text), text)

    def also_red(self, said: dict[str, Report]) -> Iterator[str]:
        sentences = [self.tests[each.nodeid].sentence for each in self.red(said)[1:]]
        yield from list(dict.fromkeys(sentences))[:ALSO_RED]


def request(lesson: str, folder: Path, limits: Limits, word: str, closed: list[Path]) -> Request:
    """A run on somebody else's code: fenced in, and followed by the controls."""
    return Request(
        lesson,
        folder=folder,
        options=(
            CONTROLS,
            "-p",
            "kata.grading.guard",
            f"--control={word}",
            *(f"--close={path}" for path in closed),
        ),
        seconds=limits.seconds,
        total=limits.total,
        memory=int(limits.memory * 2**30),
    )


def new_word() -> str:
    return secrets.token_hex(8)


def is_control(report: Report) -> bool:
    return report.nodeid.startswith(CONTROLS)


def is_passed(report: Report | None) -> bool:
    return report is not None and report.outcome == "passed"


def is_red(report: Report | None) -> bool:
    """Whether a test failed; one that is skipped here, and not on the stub, has failed too."""
    return report is not None and report.outcome not in ("passed", "todo")


def objection_of(control: Report | None, nodeid: str) -> str:
    """What a control that didn't do its part tells: what was replaced, if it found that."""
    sentence = nodeid.rsplit("::", maxsplit=1)[-1].removeprefix("test_").replace("_", " ")
    text = control.text if control else ""
    found = re.search(r"replaced: (.+)", text)
    return f"the code {clipped(found[0])}" if found else f"the control “{sentence}” didn't fail"


def void(objections: list[str]) -> Failure:
    text = "\n".join(["This run doesn't count. What judges it was changed:", *objections])
    return Failure("", "what judges the run was changed", clipped(wrapped(text)))


def wrapped(text: str) -> str:
    return "\n".join(textwrap.fill(line, 80, subsequent_indent="  ") for line in text.splitlines())


def diagnosis(text: str) -> str:
    """The likely cause that a failure names, or its first line, on one line."""
    cause = CAUSE.search(text)
    return " ".join(cause[1].split()) if cause else first_line(text)


def first_line(text: str) -> str:
    return (text.splitlines() or [""])[0][:LONGEST]


def clipped(text: str) -> str:
    """Text of a bearable length, without characters that control a terminal."""
    lines = text[: LINES * WIDTH * 4].splitlines()
    kept = ["".join(c if c.isprintable() else "�" for c in line)[:WIDTH] for line in lines[:LINES]]
    more = [f"… {len(lines) - LINES} more lines"] if len(lines) > LINES else []
    return "\n".join(kept + more)
