"""Add nodes to graphs that are built node by node: what the larger lessons have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

if TYPE_CHECKING:
    from torch.fx import Graph

_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def add_node(
    graph: Graph,
    op: str,
    target: Any,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    name: str | None = None,
    type_expr: Any = None,
) -> Node:
    """Do what ``graph.create_node`` does, and get there sooner.

    torch flattens all arguments of every new node, to warn where one is a symbolic size. That takes
    as long as everything else that happens to a node. A look for symbolic sizes that builds nothing
    is quicker. Where it finds none, the node is made without arguments, and then given them.

    >>> from torch.fx import Graph
    >>> graph = Graph()
    >>> x = add_node(graph, "placeholder", "x")
    >>> add_node(graph, "call_function", torch.add, (x, 1)).format_node()
    '%add : [num_users=0] = call_function[target=torch.add](args = (%x, 1), kwargs = {})'
    """
    # Hooks of an owning module expect a node that is complete.
    if graph.owning_module is not None or _has_symbols(args) or (kwargs and _has_symbols(kwargs)):
        return graph.create_node(op, target, args, kwargs, name, type_expr)
    node = graph.create_node(op, target, (), {}, name, type_expr)
    if args:
        node.args = args
    if kwargs:
        node.kwargs = kwargs
    return node


def _has_symbols(value: Any) -> bool:
    if isinstance(value, Node):
        return False
    if isinstance(value, tuple | list):
        return any(map(_has_symbols, value))
    if isinstance(value, dict):
        return any(map(_has_symbols, value.values()))
    return isinstance(value, _SYMBOLS)
