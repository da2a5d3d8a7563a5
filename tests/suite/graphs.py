"""Compare two graphs node for node, and show where they part, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from torch.fx import Graph

from kata.comparing import Row, first_difference, rows, short
from tests.suite.expect import Mismatch, labelled

COLUMN = 38
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
STACK = 'meta["nn_module_stack"]'
PROXY = "a proxy went into the graph as it is: `create_arg` makes a node of it"
STAYED = "a call that has ended is still on the stack: it wasn't taken off on leaving it"
ROOT_CALL = "the root's own call is on the stack: there belong the calls inside it"


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
                labelled("likely cause", cause or likely_cause(ours, theirs, position, fields[0])),
                *([labelled("try", hint)] if hint else []),
            ]
        )
    )


def likely_cause(ours: list[Row], theirs: list[Row], position: int, field: str) -> str:
    """What leads to such a difference, as a rule."""
    if field in ("missing", "extra"):
        return CAUSES[field]
    our, their = ours[position], theirs[position]
    if field == "args" and "Proxy(" in repr(our.args):
        return PROXY
    too_many = keys_of_stack(our) - keys_of_stack(their)
    if field == STACK and keys_of_stack(their) < keys_of_stack(our):
        return ROOT_CALL if "" in too_many else STAYED
    return CAUSES.get(field, META_CAUSE)


def keys_of_stack(row: Row) -> set[str]:
    """The calls on a node's module stack, where that is compared."""
    stack: list[tuple[str, object]] = row.meta.get("nn_module_stack") or []  # type: ignore[assignment]
    return {key for key, _ in stack}


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
