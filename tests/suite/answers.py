"""Answers that a learner might write, and how the suite judges them.

An answer is a change to a fresh copy of the reference: of its core, where a test of the core is to
notice it. ``tests/answers/<lesson>.py`` holds them::

    @wrong("test_the_first_of_two_names_is_the_path", says="first registered name")
    def the_last_name_wins(lesson):
        '''Builds the index by overwriting.'''

        @on(lesson.PathOfModule)
        def path_of_module(self, mod): ...

    @right
    def a_plain_scan(lesson): ...
"""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from torch.nn.modules import module as hooks_of_modules

from kata.paths import ROOT, suites
from lessons import LESSONS
from tests.suite.implementations import Implementation, fresh_reference
from tests.suite.plugin import LOADER

Change = Callable[[ModuleType], None]


@dataclass(frozen=True)
class Answer:
    """One answer to a lesson.

    Attributes:
        change: Edits the fresh copy of the reference.
        fails: The test that must catch a wrong answer; empty for a right one.
        says: The words its failure must show the learner.
        never: Words that no failure may show: a cause that is not the mistake.
        core_only: A right answer that passes the core, and leaves the stretch.
    """

    change: Change
    fails: str = ""
    says: str = ""
    never: str = ""
    core_only: bool = False

    @property
    def lesson(self) -> str:
        return self.change.__module__.rpartition(".")[2]

    @property
    def is_of_the_core(self) -> bool:
        """Whether it changes the core alone: the core's suite has its tests."""
        asked = self.core_only or (self.fails and defines(suites(self.lesson)[0], self.fails))
        return bool(asked)

    def __str__(self) -> str:
        return f"{self.lesson}-{self.change.__name__}"


def wrong(fails: str, *, says: str, never: str = "") -> Callable[[Change], Answer]:
    """Mark a change as a wrong answer: the test that must catch it, the words it must show."""
    return lambda change: Answer(change, fails=fails, says=says, never=never)


def right(
    change: Change | None = None, *, core_only: bool = False
) -> Answer | Callable[[Change], Answer]:
    """Mark a change as a right answer of another shape (with ``core_only``, of the core)."""
    if change is None:
        return lambda change: Answer(change, core_only=core_only)
    return Answer(change)


def on(owner: object) -> Callable[[Any], Any]:
    """Put a function or a class on a module or a class, in the place of what has its name."""

    def put(piece: Any) -> Any:
        setattr(owner, piece.__name__, piece)
        return piece

    return put


def around(owner: object) -> Callable[[Any], Any]:
    """Like ``on``, for a function that gets the one it replaces as its first argument."""

    def put(piece: Any) -> Any:
        original = getattr(owner, piece.__name__)

        def replacement(*args: Any, **kwargs: Any) -> Any:
            return piece(original, *args, **kwargs)

        setattr(owner, piece.__name__, replacement)
        return replacement

    return put


def all_answers() -> list[Answer]:
    """Every answer of every lesson, in order."""
    return [
        answer
        for lesson in LESSONS
        for answer in vars(importlib.import_module(f"tests.answers.{lesson.name}")).values()
        if isinstance(answer, Answer)
    ]


@dataclass
class Outcome:
    """What a run of the suite said: reports by outcome, and the text on the terminal."""

    reports: list[pytest.TestReport] = field(default_factory=list)
    terminal: str = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.reports.append(report)

    def texts(self) -> list[str]:
        """Return what the learner reads for the failures."""
        return [str(report.longrepr) for report in self.reports if report.failed]

    def count(self, outcome: str) -> int:
        outcomes = (
            "todo" if getattr(report, "todo", False) else report.outcome for report in self.reports
        )
        return sum(each == outcome for each in outcomes)


WHOLE = "not slow"
CORE = "core"


def judge(answer: Answer, *, marks: str = WHOLE, plugins: Iterable[object] = ()) -> Outcome:
    """Run all of the lesson's tests on an answer."""
    judged = InTurn([answer], whole=True)
    run_suite(*suites(answer.lesson), "-m", marks, plugins=[judged, *plugins])
    return judged.outcome


def loader_of(answer: Answer) -> Callable[[str], Implementation]:
    """Return a loader of a fresh reference that the answer has changed."""

    def load(lesson: str) -> Implementation:
        implementation = fresh_reference(lesson, core=answer.is_of_the_core)
        if lesson == answer.lesson:
            with implementation.active() as module:
                answer.change(module)
        return implementation

    return load


@cache
def judge_in_turn(lesson: str, *, wrong: bool) -> dict[str, Outcome]:
    """Judge the answers to a lesson.

    Args:
        lesson: Its name.
        wrong: The wrong answers, by the test that each names; else the right ones, by the first
            case of each test of the core (all cases are a slow test, as the stretch is).
    """
    own = [each for each in all_answers() if each.lesson == lesson]
    judged = InTurn([each for each in own if bool(each.fails) == wrong])
    run_suite(*suites(lesson), "-m", WHOLE if wrong else CORE, plugins=[judged])
    return judged.outcomes


class InTurn:
    """A plugin that lets answers meet their tests in one session: to collect it takes longer."""

    def __init__(self, answers: list[Answer], *, whole: bool = False) -> None:
        self.answers = answers
        self.whole = whole  # all tests, or those that are asked of an answer
        self.outcomes: dict[str, Outcome] = {}
        self.outcome = Outcome()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for answer in self.answers:
            session.config.stash[LOADER] = cache(loader_of(answer))
            self.outcome = self.outcomes[str(answer)] = Outcome()
            asked = session.items if self.whole else asked_of(answer, session.items)
            # After a wrong answer's first failure comes another file, or none.
            is_one = answer.fails and not self.whole
            for item, following in zip(asked, [*asked[1:], None], strict=True):
                after = None if is_one else following
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if is_one and self.outcome.count("failed"):
                    break
            forget_hooks()
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.outcome.pytest_runtest_logreport(report)


def forget_hooks() -> None:
    """Remove the hooks on all modules that an answer has left in torch."""
    for name, hooks in vars(hooks_of_modules).items():
        if name.startswith("_global_forward_"):
            hooks.clear()


def asked_of(answer: Answer, items: list[pytest.Function]) -> list[pytest.Function]:
    """All cases of the test that a wrong answer fails; the first of each test for a right one."""
    if answer.fails:
        return [item for item in items if item.originalname == answer.fails]
    return first_cases(items)


def first_cases(items: list[pytest.Function]) -> list[pytest.Function]:
    """The first case of each test."""
    found: dict[tuple[Path, str], pytest.Function] = {}
    for item in items:
        found.setdefault((item.path, item.originalname), item)
    return list(found.values())


class FirstCases:
    """A plugin that runs the first case of each test alone."""

    @pytest.hookimpl(trylast=True)  # when the tests are chosen
    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        items[:] = first_cases(items)


def defines(file: str, test: str) -> bool:
    """Return whether a test of this name is in a file of the suite."""
    return f"\ndef {test}(" in (ROOT / file).read_text(encoding="utf-8")


def judge_folder(folder: Path, *arguments: str, plugins: Iterable[object] = ()) -> Outcome:
    """Run the suite as a learner does, on the lessons in ``folder``."""
    return run_suite(f"--lessons={folder}", *arguments, plugins=plugins)


# A run inside a run needs none of these; `unraisableexception` collects the whole heap twice.
OFF = ("faulthandler", "benchmark", "xdist", "unraisableexception", "tests.suite.alone")


def run_suite(*arguments: str, impl: str = "lessons", plugins: Iterable[object] = ()) -> Outcome:
    """Run pytest in this process, as a learner sees it, and collect what it says."""
    outcome = Outcome()
    quiet = [*(f"-pno:{name}" for name in OFF), f"--impl={impl}"]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.chdir(ROOT):
        pytest.main([*arguments, *quiet], plugins=[outcome, *plugins])
    outcome.terminal = out.getvalue()
    return outcome
