"""Compare two graphs node for node, and show where they part, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest

from torch.fx import Graph

from kata.comparing import Row, first_difference, rows, short
from kata.terminal import clipped
from tests.suite.expect import Cause, MismatchError, labelled, words_of

COLUMN = 38
CONTEXT = 2
LINES_SHOWN = 12

STACK = 'meta["nn_module_stack"]'
PROXY = "a proxy went into the graph as it is: `create_arg` makes a node of it"
DROPPED = "the keyword arguments were dropped"
MOVED = "the keyword arguments became positional ones"
UNTYPED = "the annotation was not carried over to the node"
REORDERED = "the nodes are the same, in another order"
STAYED = "a call that has ended is still on the stack: it wasn't taken off on leaving it"
ROOT_CALL = "the root's own call is on the stack: only the calls inside it belong there"
LEFT_OUT = "a call that is not over yet is missing on the stack"


def same_graph(
    actual: Graph, expected: Graph, *, meta: tuple[str, ...] = (), cause: Cause = "", hint: str = ""
) -> None:
    """Fail unless both graphs have the same nodes in the same order.

    Args:
        actual: The graph to judge.
        expected: The graph it must be.
        meta: Keys of ``node.meta`` that are compared as well.
        cause: The cause, where the test sees more than the two graphs show.
        hint: What to try next.

    Raises:
        MismatchError: With both graphs side by side from the first node that differs.
    """
    ours, theirs = rows(actual, meta), rows(expected, meta)
    difference = first_difference(ours, theirs)
    if difference is None:
        return
    position, fields = difference
    own = words_of(cause, actual)
    seen = own or "".join(causes(ours, theirs, position, fields[0])[:1])
    # A hint that belongs to one cause would mislead next to another.
    is_apt = hint and (own or not cause or not seen)
    raise MismatchError(
        "\n".join(
            [
                f"the graphs differ from node {position} on ({', '.join(fields)})",
                *side_by_side(ours, theirs, position),
                *details(ours, theirs, position, fields),
                *([labelled("likely cause", seen)] if seen else []),
                *([labelled("try", hint)] if is_apt else []),
            ]
        )
    )


def causes(ours: list[Row], theirs: list[Row], position: int, field: str) -> list[str]:
    """Return what the two graphs show to be the cause of a difference, the most specific first."""
    if field in ("missing", "extra"):
        return []
    our, their = ours[position], theirs[position]
    calls = Counter(row.target for row in ours if row.op == "call_module")
    seen = {
        PROXY: field == "args" and "Proxy(" in repr(our.args),
        DROPPED: field == "kwargs" and not our.kwargs,
        MOVED: bool(their.kwargs) and our.args == (*their.args, *their.kwargs.values()),
        UNTYPED: field == "type" and our.type is None,
        f"no node calls the module `{their.target}`": (
            their.op == "call_module" and not calls[their.target]
        ),
        REORDERED: field in ("op", "target")
        and Counter(map(kind, ours)) == Counter(map(kind, theirs)),
        **about_stack(our, their, field),
    }
    return [words for words, is_so in seen.items() if is_so]


def kind(row: Row) -> tuple[str, object]:
    """Return what a node does, without its name and arguments."""
    return row.op, row.target


def about_stack(our: Row, their: Row, field: str) -> dict[str, bool]:
    """Return what can be seen where a node's module stack differs."""
    if field != STACK or our.meta["nn_module_stack"] is None:
        return {}
    ours, theirs = keys_of_stack(our), keys_of_stack(their)
    return {
        ROOT_CALL: theirs < ours and "" in ours - theirs,
        STAYED: theirs < ours,
        LEFT_OUT: ours < theirs,
    }


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
    return "-" if row is None else clipped(str(row), width)


def details(ours: list[Row], theirs: list[Row], position: int, fields: list[str]) -> Iterator[str]:
    """The first differing field in full: the table's cells are clipped."""
    name = fields[0]
    if name in ("missing", "extra"):
        return
    key = name[6:-2] if name.startswith("meta") else None
    for label, graph in (("expected", theirs), ("got", ours)):
        value = graph[position].meta[key] if key else getattr(graph[position], name)  # type: ignore[index]
        yield labelled(label, f"{name} {short(value, 140)}")
