"""How a value gets from its maker to its users: a step to the next line, or a lane beside.

A value keeps one lane from the row that makes it to the last row that takes it. Lanes are to the
right of all names in their rows, and no two touch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from drawing.sizes import Scale, Spot

LANE = 7.0
CLEARANCE = 10.0
CORNER = 3.0
# A node's lane leaves below the middle of its row, and others arrive above it.
OFF_MIDDLE = 2.5
DOWN, RIGHT, LEFT = "m-2.5-3l2.5 3 2.5-3", "m-3-2.5l3 2.5-3 2.5", "m3-2.5l-3 2.5 3 2.5"


class Edge(NamedTuple):
    """One edge.

    Attributes:
        source: The row where it begins.
        target: The row where it ends.
        kind: ``step`` to the next line, ``lane`` beside the text, ``branch`` of a tree.
        path: How it is drawn.
        x: The position of its vertical part.
    """

    source: int
    target: int
    kind: str
    path: str
    x: float


class Pair(NamedTuple):
    """A value's maker and one of its users."""

    source: Spot
    target: Spot


def route(places: Sequence[Spot], scale: Scale) -> Iterator[Edge]:
    """Draw every edge between the places, each once."""
    pairs = list(pairs_of(places))
    for pair in pairs:
        if is_step(pair, scale):
            yield step(pair, scale)
    yield from lanes([pair for pair in pairs if not is_step(pair, scale)], places)


def pairs_of(places: Sequence[Spot]) -> Iterator[Pair]:
    """The makers and users among these places; of a folded list, a half has one end of some."""
    by_name = {place.name: place for place in places}
    for target in places:
        for name in dict.fromkeys(target.node.inputs):
            if name in by_name:
                yield Pair(by_name[name], target)


def is_step(pair: Pair, scale: Scale) -> bool:
    """Return whether an edge leads to the next line, and nothing is in its way there."""
    source, target = pair
    if source.node.link:  # the way to the next row is the ring's
        return False
    next_line = target.row == source.row + 1
    return next_line and (target.x >= source.x or target.right + scale.text_gap < source.x)


def step(pair: Pair, scale: Scale) -> Edge:
    """Straight down, or down and to the side."""
    source, target = pair
    start = f"M{source.x:g} {source.y + scale.radius:g}"
    if source.x == target.x:
        path = f"{start}V{target.y - scale.radius:g}{DOWN}"
    elif source.x < target.x:
        corner = f"V{target.y - CORNER:g}q0 {CORNER:g} {CORNER:g} {CORNER:g}"
        path = f"{start}{corner}H{target.x - scale.radius - 0.5:g}{RIGHT}"
    else:
        corner = f"V{target.y - CORNER:g}q0 {CORNER:g}-{CORNER:g} {CORNER:g}"
        path = f"{start}{corner}H{target.right + 3:g}{LEFT}"
    return Edge(source.row, target.row, "step", path, source.x)


def lanes(pairs: list[Pair], places: Sequence[Spot]) -> Iterator[Edge]:
    """Send each value on its own lane, from which its users branch off."""
    last_use: dict[int, int] = {}
    for source, target in pairs:
        last_use[source.row] = max(target.row, last_use.get(source.row, 0))
    spans = [Span(*item) for item in last_use.items()]
    chosen = pack(spans, [place.right for place in places])
    lane_of = {span.first: lane for span, lane in zip(spans, chosen, strict=True)}
    for pair in pairs:
        yield along(lane_of[pair.source.row], pair)


def along(lane: float, pair: Pair) -> Edge:
    """Out to the lane, down, and back to the user's text."""
    source, target = pair
    out, back = source.y + OFF_MIDDLE, target.y - OFF_MIDDLE
    path = (
        f"M{source.right + 3:g} {out:g}H{lane - CORNER:g}q{CORNER:g} 0 {CORNER:g} {CORNER:g}"
        f"V{back - CORNER:g}q0 {CORNER:g}-{CORNER:g} {CORNER:g}H{target.right + 3:g}{LEFT}"
    )
    return Edge(source.row, target.row, "lane", path, lane)


class Span(NamedTuple):
    """The rows from a value's maker to its last user."""

    first: int
    last: int


def pack(spans: Sequence[Span], right_ends: Sequence[float]) -> list[float]:
    """Choose each span's lane, as far to the left as is free.

    Short spans are placed first, so that they are inside the long ones.

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
