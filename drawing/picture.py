"""The data of a picture: nodes in order, in panels side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

OPCODES = ("placeholder", "get_attr", "call_module", "call_function", "call_method", "output")
# What takes time, and is a bar of a time line.
BARS = ("forward", "backward", "gather", "compute", "held")


@dataclass(frozen=True)
class Node:
    """One row of a picture.

    Attributes:
        name: The node's name, unique in its panel.
        op: Its opcode; or ``lesson``, ``goal``, ``module``, ``parameter``, ``value``.
        target: What it calls or reads, in words.
        inputs: The names of earlier nodes whose values it takes.
        module: The dotted path of the module it belongs to; its first part is its column.
        group: The partition it belongs to, or the line of a time line.
        mark: A word that singles the node out, such as ``new``; a number becomes a badge.
        label: What is written in place of the name.
        note: The text after it, in a softer colour.
        parent: In a tree, the name of the row above it.
        link: In a ring, whether the link to the next row is ``kept`` or ``new``.
        line: The line of the picture's source that made it, counted from 1.
        start, end: Of a bar, when it begins and ends.
    """

    name: str
    op: str
    target: str = ""
    inputs: tuple[str, ...] = ()
    module: str = ""
    group: str = ""
    mark: str = ""
    label: str = ""
    note: str = ""
    parent: str = ""
    link: str = ""
    line: int = 0
    start: float = 0
    end: float = 0

    @property
    def text(self) -> str:
        return self.label or self.name


@dataclass(frozen=True)
class Panel:
    """A list of nodes, in order; as a tree where nodes have parents.

    Attributes:
        nodes: The nodes.
        heading: The text above them; of a step, what happens in it.
        line: Of a step, the line of the picture's source that it is about, counted from 1.
    """

    nodes: tuple[Node, ...]
    heading: str = ""
    line: int = 0

    @property
    def is_tree(self) -> bool:
        return any(node.parent for node in self.nodes)

    @property
    def is_ring(self) -> bool:
        return any(node.link for node in self.nodes)


class Moment(NamedTuple):
    """A moment of a time line: what is to be seen until ``time``, in words."""

    time: float
    says: str


class Link(NamedTuple):
    """A node, and the node of the next panel that corresponds to it."""

    panel: int
    left: str
    right: str


@dataclass(frozen=True)
class Picture:
    """Panels side by side, with the words that replace them for readers who can't see them.

    Where there is a ``source``, a reader can go through the picture step by step. A single panel
    grows: its nodes say which line made them. Several panels are the steps of a change, each one
    state of the same graph, and the links say which nodes a step replaces by which. Where there
    are ``moments``, each panel is a time line, and a reader goes from one to the next.
    """

    title: str
    description: str
    panels: tuple[Panel, ...]
    links: tuple[Link, ...] = ()
    source: str = ""
    moments: tuple[Moment, ...] = ()

    @property
    def plays(self) -> bool:
        """Return whether a reader can go through it step by step."""
        return bool(self.source or self.moments)

    @property
    def changes(self) -> bool:
        """Return whether the panels are the steps of a change."""
        return bool(self.source) and len(self.panels) > 1

    @property
    def still(self) -> Picture:
        """The picture without steps: of a change, the first step and the last."""
        if not self.changes:
            return self
        first, *_, last = self.panels
        ends = replace(first, heading="before"), replace(last, heading="after")
        return replace(self, panels=ends, links=())
