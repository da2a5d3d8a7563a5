"""Columns, sizes, and the place of one node.

Each top-level module has a column, in the order of their first use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from drawing.picture import Node, Panel

# What Material leaves for the text of a page on a screen of 1440 pixels.
WIDTH = 684.0
# A screen of 900 pixels and a fifth, less the heading and the legend, the controls and a caption.
HEIGHT = 960.0
ROOMY, DENSE = 20.0, 13.5
WIDEST_COLUMN, NARROWEST_COLUMN = 48.0, 14.0
LANES = 40.0


@dataclass(frozen=True)
class Scale:
    """The sizes of a panel, in pixels.

    Attributes:
        pitch: From one row to the next.
        column: From one column to the next.
    """

    pitch: float
    column: float
    radius = 4.0
    text_gap = 10.0
    tag_gap = 8.0

    @property
    def font(self) -> float:
        return 11.0 if self.pitch < 16 else 12.0

    def width_of(self, text: str) -> float:
        """The width of a text in a monospaced font, a little generously."""
        return round(len(text) * self.font * 0.61, 1)

    def top_of(self, row: int) -> float:
        return row * self.pitch

    def middle_of(self, row: int) -> float:
        return (row + 0.5) * self.pitch


def scale_of(panel: Panel, rows: int, room: float) -> Scale:
    """Sizes that let a panel fill the room it has, and no more.

    Args:
        panel: What is to be laid out.
        rows: How many the longest panel of the picture has.
        room: The width that this panel may take.
    """
    pitch = max(DENSE, min(ROOMY, HEIGHT / max(rows, 1)))
    count = len(columns(panel))
    longest = (
        max((len(node.text) + len(node.note) + len(node.mark) for node in panel.nodes), default=0)
        * pitch
        / 2
    )
    column = (room - longest - LANES) / max(count, 1)
    column = ROOMY if panel.is_tree else max(NARROWEST_COLUMN, min(WIDEST_COLUMN, column))
    return Scale(pitch=int(pitch * 4) / 4, column=int(column))


@dataclass(frozen=True)
class Spot:
    """The place of a node: its row, the middle of its shape, and the end of its text."""

    node: Node
    row: int
    x: float
    y: float
    right: float

    @property
    def name(self) -> str:
        return self.node.name


class Run(NamedTuple):
    """Rows that follow each other and have something in common: a column, or a group."""

    name: str
    first: int
    last: int


def column_of(node: Node) -> str:
    """The top-level module that a node belongs to; ``""`` is the root itself."""
    return node.module.split(".")[0]


def columns(panel: Panel) -> dict[str, int]:
    """The number of each column; the root's own comes first."""
    names = [column_of(node) for node in panel.nodes]
    ordered = dict.fromkeys(["", *names] if "" in names else names)
    return {name: number for number, name in enumerate(ordered)}


def runs(names: list[str]) -> Iterator[Run]:
    """The runs of equal names in a list, in order."""
    for name, run in groupby(enumerate(names), key=lambda item: item[1]):
        rows = [row for row, _ in run]
        yield Run(name, rows[0], rows[-1])
