"""Unlike the core: a graph of any length can be pickled.

``pickle`` follows the attributes of an object, and so it goes from each node to the next: a long
graph leads to a ``RecursionError``. Here a graph is stored as a list of its nodes. Graphs of torch
are stored in the same way, so that a graph module can be pickled whatever its graph.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch
from torch.fx.node import map_aggregate

if TYPE_CHECKING:
    from ... import graph as core

OPERATORS = torch._ops.OpOverload, torch._ops.OpOverloadPacket


@dataclass(frozen=True)
class Position:
    """Stands for a node in the arguments of another: the node of that number."""

    number: int


@dataclass(frozen=True)
class OperatorName:
    """Stands for an operator, which can't be pickled: the path of it below ``torch.ops``."""

    path: str


def state_of(graph: core.Graph, meta_keys: Container[str] | None = None) -> dict[str, Any]:
    """Return a graph in a form that can be pickled.

    Args:
        graph: The graph, which may be one of torch's.
        meta_keys: Which metadata of the nodes to keep; by default all.
    """
    numbers = {id(node): number for number, node in enumerate(graph.nodes)}

    def portable(value: Any) -> Any:
        if id(value) in numbers:
            return Position(numbers[id(value)])
        return OperatorName(str(value)) if isinstance(value, OPERATORS) else value

    steps = [(node.op, portable(node.target), node.name, node.type) for node in graph.nodes]
    arguments = [map_aggregate((node.args, node.kwargs), portable) for node in graph.nodes]
    metas = [
        {key: node.meta[key] for key in node.meta if meta_keys is None or key in meta_keys}
        for node in graph.nodes
    ]
    codegen = getattr(graph, "_codegen", None)
    return {"steps": steps, "arguments": arguments, "metas": metas, "codegen": codegen}


def fill(graph: core.Graph, state: dict[str, Any]) -> None:
    """Create the nodes of a state in an empty graph."""
    if state["codegen"] is not None:
        graph.set_codegen(state["codegen"])  # type: ignore[attr-defined]
    nodes: list[core.Node] = []

    def original(value: Any) -> Any:
        if isinstance(value, Position):
            return nodes[value.number]
        return attrgetter(value.path)(torch.ops) if isinstance(value, OperatorName) else value

    for (op, target, name, type_expr), meta in zip(state["steps"], state["metas"], strict=True):
        nodes.append(graph.create_node(op, original(target), (), {}, name, type_expr))
        nodes[-1].meta.update(meta)
    for node, arguments in zip(nodes, state["arguments"], strict=True):
        node.args, node.kwargs = map_aggregate(arguments, original)
