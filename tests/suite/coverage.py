"""Which opcodes the zoo shows with which kinds of arguments; ``docs/coverage.md`` is this table.

``python -m tests.suite.coverage`` writes the page, ``--check`` says whether it is fresh. A cell is
a place for arguments in a node and a kind of value. It is filled where torch's tracer puts such a
value in such a place for some model of the zoo; each other cell has a reason.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.fx import Graph, Node, Tracer

from kata.stubs import ROOT
from tests import zoo

PAGE = ROOT / "docs" / "coverage.md"


class Place(NamedTuple):
    """Where a node has an argument."""

    opcode: str
    by_keyword: bool = False

    def __str__(self) -> str:
        return f"{self.opcode}, keyword" if self.by_keyword else self.opcode


CALLS = ("call_module", "call_method", "call_function")
PLACES = [
    Place("placeholder"),
    Place("get_attr"),
    *(Place(call, by_keyword) for call in CALLS for by_keyword in (False, True)),
    Place("output"),
]


def is_exactly(*types: type) -> Callable[[object], bool]:
    return lambda value: type(value) in types


def is_container_of_values(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kind) and not any(nodes_in(value))


def is_container_of_nodes(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kind) and any(nodes_in(value))


def nodes_in(value: object) -> Iterator[Node]:
    return (part for part in parts(value) if isinstance(part, Node))


def parts(value: object) -> Iterator[object]:
    """A value and everything inside it."""
    yield value
    if isinstance(value, dict):
        inner = list(value.values())
    elif isinstance(value, slice | range):
        inner = [value.start, value.stop, value.step]
    else:
        inner = list(value) if isinstance(value, tuple | list) else []
    for each in inner:
        yield from parts(each)


KINDS: dict[str, Callable[[object], bool]] = {
    "a node": lambda value: isinstance(value, Node),
    "`int`": is_exactly(int),
    "`float`": is_exactly(float),
    "`bool`": is_exactly(bool),
    "`complex`": is_exactly(complex),
    "`str`": is_exactly(str),
    "`None`": is_exactly(type(None)),
    "`...`": is_exactly(type(...)),
    "dtype": is_exactly(torch.dtype),
    "device": is_exactly(torch.device),
    "layout": is_exactly(torch.layout),
    "memory format": is_exactly(torch.memory_format),
    "operator": lambda value: isinstance(value, torch._ops.OpOverload),
    "enum": lambda value: isinstance(value, enum.Enum),
    "tuple of values": is_container_of_values(tuple),
    "list of values": is_container_of_values(list),
    "dict of values": is_container_of_values(dict),
    "slice of values": is_container_of_values(slice),
    "range": is_container_of_values(range),
    "`torch.Size`": is_exactly(torch.Size),
    "tuple with a node": is_container_of_nodes(tuple),
    "list with a node": is_container_of_nodes(list),
    "dict with a node": is_container_of_nodes(dict),
    "slice with a node": is_container_of_nodes(slice),
    "range with a node": is_container_of_nodes(range),
    "named tuple": lambda value: hasattr(value, "_fields"),
    "dataclass": lambda value: dataclasses.is_dataclass(value),
    "tensor": lambda value: isinstance(value, torch.Tensor),
    "symbolic size": is_exactly(torch.SymInt, torch.SymFloat, torch.SymBool),
}
WITH_NODES = [kind for kind in KINDS if kind.endswith("a node")]
Cell = tuple[Place, str]


class Reason(NamedTuple):
    """Why cells cannot be filled, and what shows that it is so."""

    words: str
    covers: Callable[[Place, str], bool]
    is_true: Callable[[], bool]


def takes_no(method: Callable[..., Any], parameter: str) -> Callable[[], bool]:
    return lambda: parameter not in inspect.signature(method).parameters


def is_refused(value: Callable[[Any], object]) -> Callable[[], bool]:
    """A tracer can't record a call with this value of a proxy."""

    def tried() -> bool:
        try:
            Tracer().trace(lambda x: zoo.keep(x, value(x)))
        except (TypeError, NotImplementedError):
            return True
        return False

    return tried


def becomes(opcode: str, value: Callable[[Any], object]) -> Callable[[], bool]:
    """A tracer records this value as a node of its own."""

    def tried() -> bool:
        graph = Tracer().trace(lambda x: zoo.keep(x, value(x)))
        *_, call, _ = graph.nodes
        return isinstance(call.args[1], Node) and call.args[1].op == opcode

    return tried


def size_becomes_a_tuple() -> bool:
    *_, call, _ = Tracer().trace(lambda x: zoo.keep(x, torch.Size([2]))).nodes
    return type(call.args[1]) is tuple


REASONS = [
    Reason(
        "`Graph.get_attr` takes a path and no arguments",
        lambda place, kind: place.opcode == "get_attr",
        takes_no(Graph.get_attr, "args"),
    ),
    Reason(
        "an argument of a placeholder is a default, and defaults exist before any node does",
        lambda place, kind: place.opcode == "placeholder" and kind in WITH_NODES,
        lambda: all(is_first(node) for _, graph in graphs() for node in graph.nodes),
    ),
    Reason(
        "a range of proxies can't be made: `range` wants numbers",
        lambda place, kind: kind == "range with a node",
        is_refused(lambda x: range(x.size(0))),
    ),
    Reason(
        "it becomes a `call_function` node, which builds it: see `NamedTuples`",
        lambda place, kind: kind == "named tuple" and place.opcode != "placeholder",
        becomes("call_function", lambda x: zoo.Pair(x, 1)),
    ),
    Reason(
        "it becomes a `call_function` node, which builds it: see `Dataclasses`",
        lambda place, kind: kind == "dataclass" and place.opcode != "placeholder",
        becomes("call_function", zoo.Box),
    ),
    Reason(
        "as a default, too, it becomes a node of its own: a placeholder then has a node for a "
        "default, which generated code can't write",
        lambda place, kind: (
            place.opcode == "placeholder" and kind in ("named tuple", "dataclass", "tensor")
        ),
        lambda: all(map(default_is_a_node, (zoo.Pair(1, 2), zoo.Box(1), torch.ones(1)))),
    ),
    Reason(
        "it becomes a `get_attr` node: see `Constants`",
        lambda place, kind: kind == "tensor" and place.opcode != "placeholder",
        becomes("get_attr", lambda x: torch.ones(1)),
    ),
    Reason(
        "a node keeps it as a plain tuple: see `PlainValues`",
        lambda place, kind: kind == "`torch.Size`",
        size_becomes_a_tuple,
    ),
    Reason(
        "a symbolic trace gives proxies for sizes; exported graphs, which have such sizes, are in "
        "the suites of `split_module` and `unflatten`",
        lambda place, kind: kind == "symbolic size",
        becomes("call_method", lambda x: x.size(0)),
    ),
]


def is_first(node: Node) -> bool:
    """Whether a placeholder has nothing in front of it but placeholders (others always have)."""
    return node.op != "placeholder" or node.prev.op in ("placeholder", "root")


def default_is_a_node(value: object) -> bool:
    def function(x, default=value):
        return x

    placeholders = Tracer().trace(function).find_nodes(op="placeholder")
    return isinstance(placeholders[1].args[0], Node)


def graphs() -> Iterator[tuple[str, Graph]]:
    return ((name, Tracer().trace(build().model)) for name, build in zoo.SMALL.items())


def cells_of(graph: Graph) -> Iterator[Cell]:
    """The cells that a graph fills."""
    for node in graph.nodes:
        for by_keyword, values in ((False, node.args), (True, node.kwargs.values())):
            for value in (part for argument in values for part in parts(argument)):
                yield from (
                    (Place(node.op, by_keyword), kind)
                    for kind, is_it in KINDS.items()
                    if is_it(value)
                )


def coverage() -> dict[Cell, list[str]]:
    """For each cell the models of the zoo that fill it, in the order of the zoo."""
    models: dict[Cell, list[str]] = defaultdict(list)
    for name, graph in graphs():
        for cell in dict.fromkeys(cells_of(graph)):
            models[cell].append(name)
    return models


def reasons_for(place: Place, kind: str) -> list[int]:
    """The numbers of the reasons why a cell can't be filled."""
    return [number for number, reason in enumerate(REASONS, 1) if reason.covers(place, kind)]


def page() -> str:
    """The text of the page."""
    models = coverage()
    return HEAD + "\n".join([*table(models), "", *footnotes(), ""])


def table(models: dict[Cell, list[str]]) -> Iterator[str]:
    yield "| kind | " + " | ".join(map(str, PLACES)) + " |"
    yield "|---|" + "---|" * len(PLACES)
    for kind in KINDS:
        row = [shown(models.get((place, kind), []), reasons_for(place, kind)) for place in PLACES]
        yield f"| {kind} | " + " | ".join(row) + " |"


def shown(models: list[str], reasons: list[int]) -> str:
    if not models:
        return "– " + ", ".join(f"({number})" for number in reasons)
    more = f" and {len(models) - 1} more" if len(models) > 1 else ""
    return f"`{models[0]}`{more}"


def footnotes() -> Iterator[str]:
    return (f"{number}. {reason.words}." for number, reason in enumerate(REASONS, 1))


HEAD = """\
---
description: "Which kinds of values in which kinds of nodes the test models cover, and why some \
combinations have none."
---

# What the zoo covers

The suites trace a zoo of small models, `tests/zoo.py`. A tracer can put many kinds of values into
six kinds of nodes. This table shows for each place and each kind a model that has it there, at the
top or inside a container. Where there is none, a number says why: the reasons stand below. The
table is computed: a check traces every model again, and tries the reasons.

"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Write docs/coverage.md from the zoo.")
    parser.add_argument("--check", action="store_true", help="write nothing, say if it is stale")
    is_stale = PAGE.read_text(encoding="utf-8") != page() if PAGE.exists() else True
    if parser.parse_args().check:
        print(
            "docs/coverage.md is stale: run `python -m tests.suite.coverage`"
            if is_stale
            else "fresh"
        )
        return int(is_stale)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
