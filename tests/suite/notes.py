"""Say why a trace stops: a note on the error, beside the learner's own line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch.fx.proxy import TraceError

# What Python, torch's proxies and its tracer raise where something isn't recorded. A comparison
# that failed is none of these: it has its cause already.
STOPS = (TraceError, TypeError, NameError, RuntimeError)


@contextlib.contextmanager
def noting(
    *, cause: str, hint: str = "", on: tuple[type[Exception], ...] = STOPS
) -> Iterator[None]:
    """Note the likely cause on an error of the block, and let it pass as it is.

    Args:
        cause: the likely cause, in words a learner understands.
        hint: what to try next.
        on: the types of errors that have this cause; all others pass without a note.
    """
    try:
        yield
    except on as error:
        error.add_note(f"likely cause: {cause}")
        if hint:
            error.add_note(f"try: {hint}")
        raise
