"""The column of a node: one for each top-level module, in the order of their first use."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from drawing.picture import Node, Panel


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
