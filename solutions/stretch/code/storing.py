"""Unlike the core: a graph is stored as a list of its nodes, and not traced again."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.fx.node import map_aggregate

if TYPE_CHECKING:
    from ...graph import Graph, Node


OPERATORS = torch._ops.OpOverload, torch._ops.OpOverloadPacket


@dataclass(frozen=True)
class Position:
    """Stands for a node in a stored graph: the node of that number."""

    number: int


@dataclass(frozen=True)
class OperatorName:
    """Stands for an operator in a stored graph: what is at that path below ``torch.ops``."""

    path: str


class StoredGraph(NamedTuple):
    """A graph without references between its nodes, so that a long graph isn't deeply nested."""

    graph_type: type[Graph]
    attributes: dict[str, Any]
    nodes: list[tuple[Any, ...]]
    metas: list[dict[str, Any]]


def stored(graph: Graph) -> StoredGraph:
    """Return a graph in a form that can be pickled."""
    numbers = {id(node): number for number, node in enumerate(graph.nodes)}

    def portable(value: Any) -> Any:
        if id(value) in numbers:
            return Position(numbers[id(value)])
        return OperatorName(str(value)) if isinstance(value, OPERATORS) else value

    nodes = [
        (
            node.op,
            portable(node.target),
            map_aggregate((node.args, node.kwargs), portable),
            node.name,
            node.type,
        )
        for node in graph.nodes
    ]
    kept = ("is_wrapped", "stack_trace")
    metas = [{key: node.meta[key] for key in kept if key in node.meta} for node in graph.nodes]
    attributes = {"_codegen": graph._codegen} if hasattr(graph, "_codegen") else {}
    return StoredGraph(type(graph), attributes, nodes, metas)


def loaded(stored: StoredGraph) -> Graph:
    """Return the graph of a stored one."""
    graph = stored.graph_type()
    vars(graph).update(stored.attributes)
    nodes: list[Node] = []

    def original(value: Any) -> Any:
        if isinstance(value, Position):
            return nodes[value.number]
        return attrgetter(value.path)(torch.ops) if isinstance(value, OperatorName) else value

    for (op, target, inputs, *rest), meta in zip(stored.nodes, stored.metas, strict=True):
        args, kwargs = map_aggregate(inputs, original)
        nodes.append(graph.create_node(op, original(target), args, kwargs, *rest))
        nodes[-1].meta.update(meta)
    return graph
