"""Count the work a call does, for tests of growth: counts repeat where seconds don't."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from tests.suite.expect import holds


def is_linear(work: Callable[[int], Callable[[], object]], size: int, what: str) -> None:
    """Fail unless it takes about twice the steps if there is twice as much of ``what``.

    Args:
        work: Makes the call to count for a size; what it does itself isn't counted.
        size: The smaller of the two sizes.
        what: What there is twice as much of.
    """
    work(size)()  # work that is done once per process, such as an import, isn't counted
    factor = lines_run(work(2 * size)) / lines_run(work(size))
    holds(
        factor < 2.5, f"twice the steps for twice the {what}", got=f"{factor:.1f} times the steps"
    )


def lines_run(call: Callable[[], object]) -> int:
    """Return how many lines of Python ran during ``call()``, in every frame below it."""
    count = 0

    def count_lines(frame: FrameType, event: str, argument: object) -> Callable:
        nonlocal count
        count += event == "line"
        return count_lines

    before = sys.gettrace()
    sys.settrace(count_lines)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
