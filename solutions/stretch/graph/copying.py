"""Unlike the core: graphs are copied and pickled, at any length.

Python copies and pickles an object by going into its attributes, and so from each node to the next
one: a long graph would fill the stack. Here the nodes are taken in their order.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch.fx.node import map_aggregate

from ...graph import map_arg

if TYPE_CHECKING:
    from ... import graph as core
    from .graphs import Graph


@dataclass(frozen=True)
class Numbered:
    """Stands for a node in the arguments of another, by its number in the graph."""

    index: int


def deep_copied(graph: Graph, memo: dict[int, Any]) -> Graph:
    """Copy the nodes. What is copied along and refers to one of them refers to its copy."""
    result = type(graph)(None, graph._tracer_cls, graph._tracer_extras)
    result._codegen = copy.deepcopy(graph._codegen, memo)
    table: dict[core.Node, core.Node] = {}
    for node in graph.nodes:
        table[node] = result.node_copy(node, table.__getitem__)
    memo.update({id(old): new for old, new in [(graph, result), *table.items()]})
    return result


def state_of(graph: Graph) -> dict[str, Any]:
    """Return the nodes one after another; in the arguments each stands by its number."""
    numbers = {node: Numbered(index) for index, node in enumerate(graph.nodes)}
    return {
        "origin": (graph.owning_module, graph._tracer_cls, graph._tracer_extras),
        "steps": [(node.op, node.target, node.name, node.type, node.meta) for node in numbers],
        "arguments": [map_arg((node.args, node.kwargs), numbers.get) for node in numbers],
        "codegen": graph._codegen,
    }


def fill(graph: Graph, state: dict[str, Any]) -> None:
    """Create the nodes of a state in an empty graph."""
    graph._codegen = state["codegen"]
    nodes: list[core.Node] = []
    for op, target, name, type_expr, meta in state["steps"]:
        nodes.append(graph.create_node(op, target, (), {}, name, type_expr))
        nodes[-1].meta = meta

    def node_at(leaf: Any) -> Any:
        return nodes[leaf.index] if isinstance(leaf, Numbered) else leaf

    for node, arguments in zip(nodes, state["arguments"], strict=True):
        node.set_arguments(*map_aggregate(arguments, node_at))
