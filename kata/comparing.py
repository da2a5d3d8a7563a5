"""Two graphs as rows that can be compared: where they differ first, and in what."""

from __future__ import annotations

import cmath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from torch.fx import Graph, Node
from torch.fx.node import map_aggregate

from kata.terminal import clipped

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
CONSTANT = re.compile(r"^(_tensor_constant)\d+")


@dataclass(frozen=True)
class Row:
    """One node, in values that can be compared across graphs; other nodes are given by name."""

    op: str
    target: object
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    type: object
    meta: dict[str, object]

    def __str__(self) -> str:
        target = getattr(self.target, "__name__", self.target)
        arguments = [short(argument) for argument in self.args]
        arguments += [f"{key}={short(value)}" for key, value in self.kwargs.items()]
        return f"{self.name} = {self.op} {target}({', '.join(arguments)})"


class Named(str):
    """A node, by its name; shown without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def rows(graph: Graph, meta: tuple[str, ...] = ()) -> list[Row]:
    """A graph as a list of comparable rows, with the named metadata of each node.

    The number in ``_tensor_constantN`` depends on earlier traces; here constants are
    numbered in the order in which the graph reads them.
    """
    constants: dict[str, str] = {}
    return [row(node, meta, constants) for node in graph.nodes]


def row(node: Node, meta: tuple[str, ...], constants: dict[str, str]) -> Row:
    def renumbered(text: str) -> str:
        return CONSTANT.sub(lambda m: constants.setdefault(m[0], f"{m[1]}{len(constants)}"), text)

    def by_name(value: Any) -> Any:
        return Named(renumbered(value.name)) if isinstance(value, type(node)) else value

    return Row(
        op=node.op,
        target=renumbered(str(node.target)) if node.op == "get_attr" else node.target,
        name=renumbered(node.name),
        args=map_aggregate(node.args, by_name),
        kwargs=map_aggregate(node.kwargs, by_name),
        type=node.type,
        meta={key: ordered(node.meta.get(key)) for key in meta},
    )


def ordered(value: object) -> object:
    """A mapping as its list of items, so that their order is compared too."""
    return list(value.items()) if isinstance(value, dict) else value


def first_difference(ours: list[Row], theirs: list[Row]) -> tuple[int, list[str]] | None:
    """The first position where the rows differ and in which fields, or ``None``."""
    for position, (our, their) in enumerate(zip_longest(ours, theirs)):
        if our is None or their is None:
            return position, ["missing" if our is None else "extra"]
        fields = list(differing_fields(our, their))
        if fields:
            return position, fields
    return None


def differing_fields(our: Row, their: Row) -> Iterator[str]:
    for field in ("op", "target", "name", "args", "kwargs", "type"):
        if not same_value(getattr(our, field), getattr(their, field)):
            yield field
    for key in their.meta:
        if our.meta[key] != their.meta[key]:
            yield f'meta["{key}"]'


def same_value(our: Any, their: Any) -> bool:
    """Return whether two values and their types are the same at any depth; NaN equals NaN."""
    if type(our) is not type(their):
        return False
    if isinstance(our, dict):
        return list(our) == list(their) and all(same_value(our[key], their[key]) for key in our)
    if isinstance(our, list | tuple):
        return len(our) == len(their) and all(map(same_value, our, their))
    if isinstance(our, slice):
        return same_value((our.start, our.stop, our.step), (their.start, their.stop, their.step))
    return our is their or bool(our == their) or (is_nan(our) and is_nan(their))


def is_nan(value: object) -> bool:
    return isinstance(value, float | complex) and cmath.isnan(value)


def short(value: object, width: int = 30) -> str:
    return clipped(ADDRESS.sub("", repr(value)), width)
