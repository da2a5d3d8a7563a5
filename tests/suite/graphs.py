"""Compare two graphs node for node, and show where they part, side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from torch.fx import Graph, Node
from torch.fx.node import map_aggregate

from tests.suite.expect import Mismatch, labelled

COLUMN = 38
CONSTANT = re.compile(r"^(_tensor_constant)\d+")
CONTEXT = 2
LINES_SHOWN = 12

CAUSES = {
    "op": "another kind of node was recorded: compare who decides it (leaf module? attribute?)",
    "target": "the node calls or reads something else: compare the path or the function",
    "name": "a node was created twice, too early, or under a name of its own",
    "args": "a positional argument was dropped, changed, or turned into a node of its own",
    "kwargs": "keyword arguments were dropped, or moved to the positional ones",
    "type": "the annotation was not carried over to the node",
    "missing": "the call was never recorded: it ran for real, or the trace stopped early",
    "extra": "something is recorded that torch evaluates, or is recorded twice",
}
META_CAUSE = "the node's metadata was not set, or set at another moment"


@dataclass(frozen=True)
class Row:
    """One node, in values that can be compared across graphs: nodes stand by their names."""

    op: str
    target: object
    name: str
    args: object
    kwargs: object
    type: object
    meta: object = None

    def __str__(self) -> str:
        target = getattr(self.target, "__name__", self.target)
        arguments = [short(argument) for argument in self.args]  # type: ignore[attr-defined]
        arguments += [f"{key}={short(value)}" for key, value in self.kwargs.items()]  # type: ignore[attr-defined]
        return f"{self.name} = {self.op} {target}({', '.join(arguments)})"


class Named(str):
    """A node, by its name; shown without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def rows(graph: Graph, meta: tuple[str, ...] = ()) -> list[Row]:
    """A graph as a list of comparable rows, with the named metadata of each node.

    The number in ``_tensor_constantN`` depends on what was traced before; here constants are
    numbered in the order in which the graph reads them.
    """
    constants: dict[str, str] = {}
    return [row(node, meta, constants) for node in graph.nodes]


def row(node: Node, meta: tuple[str, ...], constants: dict[str, str]) -> Row:
    def renumbered(text: str) -> str:
        return CONSTANT.sub(lambda m: constants.setdefault(m[0], f"{m[1]}{len(constants)}"), text)

    def by_name(value: object) -> object:
        return Named(renumbered(value.name)) if isinstance(value, Node) else value

    return Row(
        op=node.op,
        target=renumbered(node.target) if node.op == "get_attr" else node.target,
        name=renumbered(node.name),
        args=map_aggregate(node.args, by_name),
        kwargs=map_aggregate(node.kwargs, by_name),
        type=node.type,
        meta={key: plain(node.meta.get(key)) for key in meta},
    )


def plain(value: object) -> object:
    """An ordered mapping as its list of items, so that order is compared too."""
    return list(value.items()) if isinstance(value, dict) else value


def same_graph(
    actual: Graph, expected: Graph, *, meta: tuple[str, ...] = (), cause: str = "", hint: str = ""
) -> None:
    """Fail unless both graphs have the same nodes in the same order.

    Args:
        actual: the graph to judge.
        expected: the graph it must be.
        meta: keys of ``node.meta`` that are compared as well.
        cause: the likely cause, where the test knows better than the field that differs.
        hint: what to try next.

    Raises:
        Mismatch: with both graphs side by side from the first node that differs.
    """
    ours, theirs = rows(actual, meta), rows(expected, meta)
    difference = first_difference(ours, theirs)
    if difference is None:
        return
    position, fields = difference
    raise Mismatch(
        "\n".join(
            [
                f"the graphs differ from node {position} on ({', '.join(fields)})",
                *side_by_side(ours, theirs, position),
                *details(ours, theirs, position, fields),
                labelled("likely cause", cause or CAUSES.get(fields[0], META_CAUSE)),
                *([labelled("try", hint)] if hint else []),
            ]
        )
    )


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
    for key in their.meta:  # type: ignore[attr-defined]
        if our.meta[key] != their.meta[key]:  # type: ignore[index]
            yield f'meta["{key}"]'


def same_value(our: object, their: object) -> bool:
    """Equality that tells ``1`` from ``1.0`` and ``True``, at any depth, and finds NaN its own."""
    if type(our) is not type(their):
        return False
    if isinstance(our, dict):
        return list(our) == list(their) and all(same_value(our[key], their[key]) for key in our)  # type: ignore[call-overload,index]
    if isinstance(our, list | tuple):
        return len(our) == len(their) and all(map(same_value, our, their))  # type: ignore[arg-type]
    if isinstance(our, slice):
        return same_value(ends(our), ends(their))
    return our is their or bool(our == their) or (our != our and their != their)


def ends(value: object) -> tuple[object, object, object]:
    assert isinstance(value, slice)
    return value.start, value.stop, value.step


def side_by_side(ours: list[Row], theirs: list[Row], position: int) -> Iterator[str]:
    """The table of both graphs: a little before the difference, a little after it."""
    yield f"    {'expected':<{COLUMN}}{'got'}"
    first = max(0, position - CONTEXT)
    table = list(zip_longest(theirs, ours))
    for number, (their, our) in enumerate(table[first : first + LINES_SHOWN], start=first):
        mark = ">" if number == position else " "
        left, right = cell(their, COLUMN - 1), cell(our, COLUMN - 1)
        yield f"{mark}{number:>2} {left:<{COLUMN}}{right}".rstrip()
    if len(table) > first + LINES_SHOWN:
        yield f"    … {len(table) - first - LINES_SHOWN} more nodes"


def cell(row: Row | None, width: int) -> str:
    text = str(row) if row is not None else "-"
    return text if len(text) <= width else text[: width - 1] + "…"


def details(ours: list[Row], theirs: list[Row], position: int, fields: list[str]) -> Iterator[str]:
    """The first differing field in full: the table's cells are clipped."""
    name = fields[0]
    if name in ("missing", "extra"):
        return
    key = name[6:-2] if name.startswith("meta") else None
    for label, graph in (("expected", theirs), ("got", ours)):
        value = graph[position].meta[key] if key else getattr(graph[position], name)  # type: ignore[index]
        yield labelled(label, f"{name} {short(value, 140)}")


def short(value: object, width: int = 30) -> str:
    text = repr(value)
    return text if len(text) <= width else text[: width - 1] + "…"
