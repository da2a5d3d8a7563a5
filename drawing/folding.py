"""A long list in two columns: cut near its middle, where a single value goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from drawing.picture import Node, Panel
from drawing.sizes import column_of

LONG = 40


def fold(panel: Panel) -> list[Panel]:
    """Return both halves of a panel, or the panel alone if it is short or can't be cut.

    A node of the second half keeps the inputs that are in that half.
    """
    middle = len(panel.nodes) / 2
    cut = min(cuts(panel), key=lambda row: abs(row - middle), default=0)
    if len(panel.nodes) <= LONG or abs(cut - middle) > middle / 2:
        return [panel]
    first, second = panel.nodes[:cut], panel.nodes[cut:]
    return [replace(panel, nodes=first), replace(panel, nodes=tuple(within(second)))]


def cuts(panel: Panel) -> Iterator[int]:
    """The rows where a column begins, and one value of those above is used."""
    nodes = panel.nodes
    if panel.is_tree or any(node.group or node.note for node in nodes):
        return
    for row in range(1, len(nodes)):
        above = {node.name for node in nodes[:row]}
        used = {name for node in nodes[row:] for name in node.inputs} & above
        if len(used) == 1 and column_of(nodes[row]) != column_of(nodes[row - 1]):
            yield row


def within(nodes: tuple[Node, ...]) -> Iterator[Node]:
    names = {node.name for node in nodes}
    for node in nodes:
        yield replace(node, inputs=tuple(name for name in node.inputs if name in names))
