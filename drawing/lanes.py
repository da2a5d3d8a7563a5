"""Lanes: where a value travels that isn't used on the next line.

A value keeps one lane from the row that makes it to the last row that takes it. Lanes lie to the
right of all names in their rows, and no two touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

LANE = 7.0
CLEARANCE = 10.0


class Span(NamedTuple):
    """The rows from a value's maker to its last user."""

    first: int
    last: int


def pack(spans: Sequence[Span], right_ends: Sequence[float]) -> list[float]:
    """Choose each span's lane, as far to the left as is free.

    Short spans are placed first, so that they lie inside the long ones.

    Args:
        spans: The rows that each lane passes; one may begin where another ends.
        right_ends: For each row, where its text ends.

    Returns:
        The horizontal position of each lane.
    """
    order = sorted(range(len(spans)), key=lambda i: (spans[i].last - spans[i].first, spans[i]))
    chosen: dict[int, float] = {}
    for number in order:
        span = spans[number]
        taken = [place for other, place in chosen.items() if overlap(spans[other], span)]
        nearest = max(right_ends[span.first : span.last + 1]) + CLEARANCE
        chosen[number] = first_free(nearest, taken)
    return [chosen[number] for number in range(len(spans))]


def overlap(one: Span, other: Span) -> bool:
    """Return whether two lanes pass a row together; one may end where the other begins."""
    return one.first < other.last and other.first < one.last


def first_free(nearest: float, taken: list[float]) -> float:
    """The leftmost place from ``nearest`` on that keeps its distance from those taken."""
    place = nearest
    for other in sorted(taken):
        if abs(other - place) < LANE:
            place = other + LANE
    return place
