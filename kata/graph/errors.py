"""What stands between a model and its picture."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class GraphError(RuntimeError):
    """A graph that cannot be shown; the message says why, and what to do."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown word: the nearest ones, if any is near."""
    names = difflib.get_close_matches(word, sorted(known))
    return f": did you mean {' or '.join(names)}?" if names else ""
