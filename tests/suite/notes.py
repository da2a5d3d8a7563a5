"""Say why a trace stops: a note on the error, next to the learner's own line."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator

from torch.fx.proxy import TraceError

from tests.suite.expect import Cause, words_of

# What Python, torch's proxies and its tracer raise where something isn't recorded. A comparison
# that failed is none of these: it has its cause already.
STOPS = (TraceError, TypeError, NameError, RuntimeError)
JUDGED = ("lessons.", "solutions.", "tests.answers.")


@contextlib.contextmanager
def noting(
    *, cause: Cause, hint: str = "", on: tuple[type[Exception], ...] = STOPS
) -> Iterator[None]:
    """Note the cause on an error of the block, and let it pass as it is.

    Args:
        cause: The cause, in words a learner understands, with a predicate of the error. A bare
            string is noted on what torch raises; the learner's own errors speak for themselves.
        hint: What to try next.
        on: The types of errors that have this cause; all others pass without a note.
    """
    try:
        yield
    except on as error:
        if isinstance(cause, str):
            cause = (not is_learners_own(error), cause)
        words = words_of(cause, error)
        if words:
            error.add_note(f"likely cause: {words}")
        if words and hint:
            error.add_note(f"try: {hint}")
        raise


def is_learners_own(error: BaseException) -> bool:
    """Return whether a line of the judged code raised an error, and not what that line called."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return f"{frame.f_globals.get('__name__', '')}.".startswith(JUDGED)
