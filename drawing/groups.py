"""Groups: a bracket beside the rows of each, and the edges that lead from one into another.

A group may be inside another one: ``block > block.linear``.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from drawing.edges import Edge
from drawing.layout import INSIDE, Layout
from drawing.sizes import Run

SLASH = "l10-5"
ARM = 5.0


def groups(layout: Layout) -> Iterator[str]:
    """Write a bracket and a name for each group, and a line between two that follow each other."""
    for x, runs in layout.brackets:
        for run in runs:
            yield bracket(run, x, layout)
    for run in layout.groups:
        if any(run.first == other.last + 1 for other in layout.groups):
            top = layout.scale.top_of(run.first)
            yield f'<path class="border" d="M0 {top:g}H{layout.width:g}"/>'


def bracket(run: Run, x: float, layout: Layout) -> str:
    top, bottom = layout.scale.top_of(run.first) + 2, layout.scale.top_of(run.last + 1) - 2
    at = f'x="{x + ARM:g}" y="{(top + bottom) / 2 + 4:g}"'
    return (
        f'<path class="bracket" d="M{x - ARM:g} {top:g}h{ARM:g}V{bottom:g}h-{ARM:g}"/>'
        f'<text class="group" {at}>{escape(run.name)}</text>'
    )


def is_cut(edge: Edge, layout: Layout) -> bool:
    """Return whether an edge leads from one outermost group into another."""
    nodes = layout.panel.nodes
    ends = (nodes[edge.source].group, nodes[edge.target].group)
    before, after = (each.split(INSIDE)[0] for each in ends)
    return bool(before and after) and before != after


def slash(edge: Edge, layout: Layout) -> str:
    """A stroke through a cut edge, where the first group after its source begins."""
    row = next(run.first for run in layout.groups if run.first > edge.source)
    return f"M{edge.x - 5:g} {layout.scale.top_of(row) + 2.5:g}{SLASH}"
