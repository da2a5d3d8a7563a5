"""A list that is a ring: a link from each row to the next, and from the last to the first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from drawing.edges import DOWN, RIGHT
from drawing.layout import Layout

NEAR, FAR = 13.0, 24.0
UP = "m-2.5 3l2.5-3 2.5 3"


def ring(layout: Layout) -> Iterator[str]:
    """Write an arrow with two heads for each link, and a line where the next node goes."""
    places = layout.places
    for one, other in pairwise(places):
        x, top, bottom = one.x - NEAR, one.y + 4, other.y - 4
        path = f"M{x:g} {bottom:g}V{top:g}{UP}M{x:g} {top:g}V{bottom:g}{DOWN}"
        yield f'<path class="ring {one.node.link}" d="{path}"/>'
    first, last = places[0], places[-1]
    x, far = last.x - 7, last.x - FAR
    path = f"M{x:g} {last.y:g}H{far:g}V{first.y:g}H{x:g}{RIGHT}M{x - 1:g} {last.y:g}h1{RIGHT}"
    yield f'<path class="ring {last.node.link}" d="{path}"/>'
    for place in places:
        if place.node.mark:
            # Before the first row is after the last: the end of the list.
            y = layout.height if place is first else layout.scale.top_of(place.row)
            yield f'<path class="caret" d="M{place.x - 8:g} {y:g}h{60:g}"/>'
