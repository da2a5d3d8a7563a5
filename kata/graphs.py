"""A model's graph as a picture: alone, or beside torch's with the first difference marked."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from torch.fx import Graph

from drawing import Panel, Picture
from drawing.listing import panel
from kata.comparing import first_difference, rows
from kata.tracing import build, trace

WHOSE = {"lessons": "your tracer", "solutions": "the reference", "torch": "torch"}
MARK = "first difference"


class Shown(NamedTuple):
    """The picture, the lines that say what it is, and whether there is no difference in it."""

    picture: Picture
    says: tuple[str, ...]
    same: bool = True


def show(model: str, impl: str, *, compare: bool = False) -> Shown:
    """Trace a model and list what is to be drawn.

    Args:
        model: a model of torchvision, or ``package.module:Class``.
        impl: whose tracer: ``lessons``, ``solutions`` or ``torch``.
        compare: whether torch's graph is to stand beside it, where that is another one.

    Raises:
        GraphError: the model isn't there, or it cannot be traced.
    """
    ours = trace(build(model), impl)
    title = f"{model}: traced by {WHOSE[impl]}"
    if compare:
        shown = compared(title, ours.graph, trace(build(model), "torch").graph, WHOSE[impl])
    else:
        shown = alone(title, f"{title}, {len(ours.graph.nodes)} nodes", ours.graph)
    lent = (f"lent by the reference: {', '.join(ours.lent)}",) if ours.lent else ()
    return shown._replace(says=(*shown.says, *lent))


def alone(title: str, says: str, graph: Graph) -> Shown:
    description = f"{says}. The list runs downwards, each top-level module has a column."
    return Shown(Picture(title, description, (panel(graph),)), (says,))


def compared(title: str, ours: Graph, theirs: Graph, whose: str) -> Shown:
    """Both graphs, unless they are the same: then one is enough."""
    difference = first_difference(rows(ours), rows(theirs))
    if difference is None:
        return alone(title, f"{title}: the same graph as torch's, {len(ours.nodes)} nodes", ours)
    position, fields = difference
    says = f"{title}: differs from torch's graph from node {position} on ({', '.join(fields)})"
    panels = (marked(ours, position, whose), marked(theirs, position, "torch"))
    return Shown(Picture(title, f"{says}.", panels), (says,), same=False)


def marked(graph: Graph, position: int, heading: str) -> Panel:
    """A graph's nodes, the one at a position marked, if there are so many."""
    names = [node.name for node in islice(graph.nodes, position, position + 1)]
    return replace(panel(graph, marks=dict.fromkeys(names, MARK)), heading=heading)
