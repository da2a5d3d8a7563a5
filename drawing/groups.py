"""Partitions: their names, the lines between them, and the edges that cross these."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from drawing.edges import Edge
from drawing.layout import Layout

SLASH = "l10-5"


def groups(layout: Layout) -> Iterator[str]:
    """Write each group's name on the right, and a line where one ends and another begins."""
    scale = layout.scale
    for run in layout.groups:
        middle = (scale.top_of(run.first) + scale.top_of(run.last + 1)) / 2
        at = f'x="{layout.width:g}" y="{middle + 4:g}"'
        yield f'<text class="group" {at}>{escape(run.name)}</text>'
    for row in borders(layout):
        yield f'<path class="border" d="M0 {scale.top_of(row):g}H{layout.width:g}"/>'


def borders(layout: Layout) -> list[int]:
    """The rows in front of which a group begins, other than the first."""
    return [run.first for run in layout.groups][1:]


def is_cut(edge: Edge, layout: Layout) -> bool:
    """Whether an edge leads from one group into another."""
    nodes = layout.panel.nodes
    before, after = nodes[edge.source].group, nodes[edge.target].group
    return bool(before and after) and before != after


def slash(edge: Edge, layout: Layout) -> str:
    """A stroke through a cut edge, at the first border that it crosses."""
    row = next(row for row in borders(layout) if row > edge.source)
    return f"M{edge.x - 5:g} {layout.scale.top_of(row) + 2.5:g}{SLASH}"
