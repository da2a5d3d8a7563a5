"""What the command shows: one graph, or two beside each other with the first difference marked."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from torch.fx import Graph

from kata.comparing import first_difference, rows
from kata.drawing import Panel, Picture
from kata.graph.command import WHOSE
from kata.graph.models import build
from kata.graph.part import part
from kata.graph.tracing import trace
from kata.pictures.record import panel

MARK = "first difference"


@dataclass(frozen=True)
class Subject:
    """What to show.

    Attributes:
        model: a model of torchvision, or ``package.module:Class``.
        impl: whose tracer: ``lessons``, ``solutions`` or ``torch``.
        module: the path of the part to show; all of it if empty.
        against: the implementation to compare with, if any.
    """

    model: str
    impl: str = "lessons"
    module: str = ""
    against: str | None = None

    @property
    def title(self) -> str:
        name = f"{self.model}, {self.module}" if self.module else self.model
        return f"{name}: traced by {WHOSE[self.impl]}"

    @property
    def file_name(self) -> str:
        words = [self.model, self.module, self.impl, f"against-{self.against}" * bool(self.against)]
        return re.sub(r"[^\w.-]+", "-", "-".join(word for word in words if word))


class Shown(NamedTuple):
    """The picture, the lines that say what it is, and whether there is no difference in it."""

    picture: Picture
    says: tuple[str, ...]
    same: bool = True


def show(subject: Subject) -> Shown:
    """Trace and list what is to be drawn.

    Raises:
        GraphError: the model isn't there, or it cannot be traced.
    """
    ours = trace(build(subject.model), subject.impl)
    if subject.against is None:
        shown = alone(subject, ours.graph)
    else:
        theirs = trace(build(subject.model), subject.against)
        shown = compared(subject, ours.graph, theirs.graph)
    lent = (f"lent by the reference: {', '.join(ours.lent)}",) if ours.lent else ()
    return shown._replace(says=(*shown.says, *lent))


def alone(subject: Subject, graph: Graph, says: str = "") -> Shown:
    drawn = part(panel(graph), subject.module)
    says = says or f"{subject.title}, {len(drawn.nodes)} nodes"
    description = f"{says}. The list runs downwards, each top-level module has a column."
    return Shown(Picture(subject.title, description, (drawn,)), (says,))


def compared(subject: Subject, ours: Graph, theirs: Graph) -> Shown:
    """Both graphs, unless they are the same: then one is enough."""
    difference = first_difference(rows(ours), rows(theirs))
    if difference is None:
        says = f"{subject.title}: the same graph as torch's, {len(ours.nodes)} nodes"
        return alone(subject, ours, says)
    position, fields = difference
    says = f"{subject.title}: differs from torch's graph from node {position} on"
    if fields[0] not in ("missing", "extra"):
        says += f" ({', '.join(fields)})"
    panels = (
        part(marked(ours, position, WHOSE[subject.impl]), subject.module),
        part(marked(theirs, position, WHOSE["torch"]), subject.module),
    )
    if not any(node.mark for panel in panels for node in panel.nodes):
        says += f", outside of {subject.module}"
    return Shown(Picture(subject.title, f"{says}.", panels), (says,), same=False)


def marked(graph: Graph, position: int, heading: str) -> Panel:
    """A graph's nodes, the one at a position marked, if there are so many."""
    names = [node.name for node in islice(graph.nodes, position, position + 1)]
    return replace(panel(graph, marks=dict.fromkeys(names, MARK)), heading=heading)
