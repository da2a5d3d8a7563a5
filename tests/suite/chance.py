"""Random programs: the same ones each time, and a test that fails shows a small one.

A test asks ``chance`` for all that is random in its program::

    @by_chance(20)
    def test_a_random_chain_is_undone(lesson, chance):
        source = random_chain(chance)
        with showing(source):
            undone(lesson, function_of(source))

``chance`` is a ``random.Random``. When a program fails, hypothesis draws others, and tries the one
that fails with lower numbers, earlier elements and fewer turns of a loop over ``several``, as long
as it fails. So let the first of several choices be the simplest.
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

from tests.suite.expect import is_todo, labelled

Test = Callable[..., None]
# How long to look for a smaller program that fails, by the processor's clock, and among how many.
SECONDS = 1.0
MOST = 1000


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
        self.error: Exception | None = None
        self.traceback: TracebackType | None = None

    def run(self, programs: int) -> None:
        """Raise what the smallest program raises that fails; nothing if none does."""
        try:
            for seed in range(programs):
                self.attempt(Random(seed))
        except Exception as error:
            if is_todo(error):
                raise
            self.look_for_a_smaller_one()
            assert self.error is not None
            raise self.error.with_traceback(self.traceback) from None

    def look_for_a_smaller_one(self) -> None:
        """Attempt programs that hypothesis draws, and makes smaller as long as they fail."""
        deadline = time.process_time() + SECONDS

        @settings(
            max_examples=MOST,
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
            if time.process_time() > deadline:
                raise _Enough
            self.attempt(chance)

        with contextlib.suppress(Exception, _Enough):
            search()

    def attempt(self, chance: Random) -> None:
        """Run the test with one program."""
        try:
            self.test(chance=chance)
        except Exception as error:
            self.error, self.traceback = error, error.__traceback__
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
