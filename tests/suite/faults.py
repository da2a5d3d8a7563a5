"""Let calls into user code fail, one after the other."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator
from types import FrameType

INJECTED = "injected"


@contextlib.contextmanager
def failing_at(number: int, error: type[BaseException], file: str) -> Iterator[list[str]]:
    """Raise the error at the start of a certain call of a function of ``file``, in this thread.

    Yields the names of the functions that were called.
    """
    called: list[str] = []

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename == file:
            called.append(frame.f_code.co_qualname)
            if len(called) == number:
                raise error(INJECTED)

    before = sys.gettrace()
    sys.settrace(count)
    try:
        yield called
    finally:
        sys.settrace(before)


def fail_at_each_call(
    run: Callable[[], object],
    error: type[BaseException],
    check: Callable[[], object],
    step: int = 1,
) -> list[str]:
    """Let the first call into the caller's file fail, then the second, and so on to the last.

    Args:
        run: What to run each time.
        error: The error that the call raises.
        check: Looks at what is left, after each failure.
        step: With 2, every other call fails, and so on.

    Returns:
        The names of the functions that were called when no failure was left to come.
    """
    file = sys._getframe(1).f_code.co_filename
    for number in itertools.count(1, step):
        failure: BaseException | None = None
        with failing_at(number, error, file) as called:
            try:
                run()
            except BaseException as raised:
                failure = raised
        if len(called) < number:
            if failure is not None:
                raise failure
            return called
        assert INJECTED in str(root_of(failure)), f"at {called[-1]}: {failure!r} came instead"
        check()
    raise AssertionError("no end")


def root_of(failure: BaseException | None) -> BaseException | None:
    while failure is not None and failure.__cause__ is not None:
        failure = failure.__cause__
    return failure
