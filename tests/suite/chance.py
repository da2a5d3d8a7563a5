"""Random programs: the same ones each time, and a test that fails shows a small one.

A test asks ``chance`` for all that is random in its program::

    @by_chance(20)
    def test_a_random_chain_is_undone(lesson, chance):
        source = random_chain(chance)
        with showing(source):
            undone(lesson, function_of(source))

``chance`` is a ``random.Random`` whose numbers hypothesis draws. When the test fails, hypothesis
runs it again with lower numbers, earlier elements and fewer turns of a loop over ``several``, as
long as it fails. So let the first of several choices be the simplest.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import time
from collections.abc import Callable, Iterator
from random import Random
from types import TracebackType
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st

from tests.suite.expect import labelled
from tests.suite.todo import is_todo

Test = Callable[..., None]
# How long to look for a smaller program, by the processor's clock.
SECONDS = 1.0


class _Enough(BaseException):
    """The search for a smaller program ends; hypothesis catches nothing but an ``Exception``."""


def by_chance(programs: int) -> Callable[[Test], Test]:
    """Run a test with so many random programs, and fail with the smallest one that fails."""

    def decorated(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            _Search(functools.partial(test, **fixtures)).run(programs)

        signature = inspect.signature(test)
        wanted = [each for each in signature.parameters.values() if each.name != "chance"]
        run.__signature__ = signature.replace(parameters=wanted)  # type: ignore[attr-defined]
        return run

    return decorated


class _Search:
    """The runs of one test.

    Attributes:
        error: What the smallest program raised that has failed so far.
        traceback: The same without what hypothesis calls.
    """

    def __init__(self, test: Test) -> None:
        self.test = test
        self.deadline = float("inf")
        self.error: Exception | None = None
        self.traceback: TracebackType | None = None

    def run(self, programs: int) -> None:
        """Raise what the smallest program raises that fails; nothing if none does."""

        @settings(
            max_examples=programs,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            print_blob=False,  # a profile that hypothesis takes on a build server prints it
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,  # or else it adds its own notes to the error
        )
        @given(st.randoms(use_true_random=False))
        def search(chance: Random) -> None:
            self.attempt(chance)

        try:
            search()
        except (Exception, _Enough):
            if self.error is None:
                raise
        if self.error is not None:
            raise self.error.with_traceback(self.traceback)

    def attempt(self, chance: Random) -> None:
        """Run the test with one program."""
        if time.process_time() > self.deadline:
            raise _Enough
        try:
            self.test(chance=chance)
        except Exception as error:
            if self.error is None:
                self.deadline = time.process_time() + SECONDS
            self.error, self.traceback = error, error.__traceback__
            if is_todo(error):
                raise _Enough from None
            raise


def several(chance: Random, most: int) -> Iterator[int]:
    """Yield up to so many numbers: any number of turns, of which hypothesis can leave out each."""
    for number in range(most):
        if chance.randrange(most) == 0:
            return
        yield number


def function_of(source: str, **names: object) -> Callable[..., Any]:
    """The function ``forward`` of a program's text.

    Args:
        source: The text, which defines it.
        names: What the text may use.
    """
    exec(compile(source, "<random>", "exec", dont_inherit=True), names)
    return names["forward"]  # type: ignore[return-value]


@contextlib.contextmanager
def showing(program: str) -> Iterator[None]:
    """Show a program with any failure of the block."""
    try:
        yield
    except Exception as error:
        error.add_note(labelled("program", program))
        raise
