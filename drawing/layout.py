"""The place of everything in a panel: one row per node, downwards in the order of the list.

A long list is in two columns, cut near its middle, where a single value goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from drawing.edges import Edge, route
from drawing.picture import Node, Panel
from drawing.sizes import Run, Scale, Spot, column_of, columns, runs

BLOCK_PADDING = 8.0
GROUP_GAP = 16.0
RING = 26.0
# More rows than that are folded.
LONG = 40


@dataclass(frozen=True)
class Block:
    """Rows of one column that follow each other, on one ground."""

    name: str
    left: float
    right: float
    first: int
    last: int


@dataclass(frozen=True)
class Layout:
    """A panel, laid out; all positions are relative to its upper left corner.

    The brackets of the groups are at the horizontal position ``brackets``.
    """

    panel: Panel
    scale: Scale
    places: tuple[Spot, ...]
    edges: tuple[Edge, ...]
    blocks: tuple[Block, ...]
    groups: tuple[Run, ...]
    brackets: float
    width: float

    @property
    def height(self) -> float:
        return self.scale.top_of(len(self.places))


def lay_out(panel: Panel, scale: Scale) -> Layout:
    """Lay out one panel."""
    places = tuple(place_nodes(panel, scale))
    edges = (*tree_edges(places), *route(places, scale))
    blocks = tuple(find_blocks(places, edges))
    width = max([place.right for place in places] + [edge.x for edge in edges])
    groups = tuple(run for run in runs([node.group for node in panel.nodes]) if run.name)
    brackets = width + GROUP_GAP
    if groups:
        width += 1.5 * GROUP_GAP + max(scale.width_of(run.name) for run in groups)
    return Layout(panel, scale, places, edges, blocks, groups, brackets, width)


def place_nodes(panel: Panel, scale: Scale) -> Iterator[Spot]:
    """Give each node its row, and its column's distance from the left."""
    numbers = depths(panel) if panel.is_tree else column_numbers(panel)
    margin = left_margin(panel, numbers, scale)
    for row, (node, number) in enumerate(zip(panel.nodes, numbers, strict=True)):
        x = margin + number * scale.column
        yield Spot(node, row, x, scale.middle_of(row), x + scale.text_gap + text_width(node, scale))


def text_width(node: Node, scale: Scale) -> float:
    parts = [part for part in (node.text, node.note, "" if node.link else node.mark) if part]
    return sum(map(scale.width_of, parts)) + scale.tag_gap * (len(parts) - 1)


def column_numbers(panel: Panel) -> list[int]:
    number_of = columns(panel)
    return [number_of[column_of(node)] for node in panel.nodes]


def depths(panel: Panel) -> list[int]:
    """Return how deep each row of a tree is."""
    depth: dict[str, int] = {"": -1}
    for node in panel.nodes:
        depth[node.name] = depth[node.parent] + 1
    return [depth[node.name] for node in panel.nodes]


def left_margin(panel: Panel, numbers: list[int], scale: Scale) -> float:
    """Enough room for the names of the blocks, which stand to the left of them."""
    needed = [
        scale.width_of(run.name) + 2 * BLOCK_PADDING - numbers[run.first] * scale.column
        for run in labelled_runs(panel)
    ]
    return max([RING if panel.is_ring else scale.radius + 1, *needed])


def labelled_runs(panel: Panel) -> list[Run]:
    """The runs of a column that get a ground: several nodes of a module, where there are more."""
    names = [column_of(node) for node in panel.nodes]
    if panel.is_tree or len(set(names)) == 1:
        return []
    return [run for run in runs(names) if run.name and run.first < run.last]


def find_blocks(places: tuple[Spot, ...], edges: tuple[Edge, ...]) -> Iterator[Block]:
    for run in labelled_runs(Panel(tuple(place.node for place in places))):
        inside = range(run.first, run.last + 1)
        ends = [places[row].right for row in inside]
        ends += [edge.x for edge in edges if edge.source in inside and edge.target in inside]
        left = places[run.first].x - BLOCK_PADDING
        yield Block(run.name, left, max(ends) + BLOCK_PADDING / 2, run.first, run.last)


def tree_edges(places: tuple[Spot, ...]) -> Iterator[Edge]:
    """Edges from each row of a tree to the rows below it."""
    by_name = {place.node.name: place for place in places}
    for place in places:
        if place.node.parent:
            parent = by_name[place.node.parent]
            start = f"M{parent.x:g} {parent.y + 5:g}"
            path = f"{start}V{place.y:g}H{place.x - 6:g}"
            yield Edge(parent.row, place.row, "branch", path, parent.x)


def fold(panel: Panel) -> list[Panel]:
    """Return both halves of a panel, or the panel alone if it is short or can't be cut."""
    middle = len(panel.nodes) / 2
    cut = min(cuts(panel), key=lambda row: abs(row - middle), default=0)
    if len(panel.nodes) <= LONG or abs(cut - middle) > middle / 2:
        return [panel]
    return [replace(panel, nodes=half) for half in (panel.nodes[:cut], panel.nodes[cut:])]


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
