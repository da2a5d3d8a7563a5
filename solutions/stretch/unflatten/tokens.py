"""Unlike the core: operations with side effects, which decomposition orders with a token."""

from __future__ import annotations

import copy
from typing import Any

from torch._higher_order_ops.effects import with_effects
from torch.export.graph_signature import ExportGraphSignature, InputKind
from torch.fx import Graph, Node


def remove_tokens(graph: Graph, signature: ExportGraphSignature) -> None:
    """Call operations with side effects directly.

    ``run_decompositions`` passes a token through such operations, so that their order is a data
    dependency: ``token, *results = with_effects(token, operation, *args)``. In a tree of modules
    the order is that of the calls, and there is no first token.

    Args:
        graph: a flat graph whose ``output`` node returns no tokens any more. It is changed.
        signature: says which placeholders are tokens.

    In torch: ``_remove_effect_tokens_pass``, which edits the program that it is given.
    """
    for node in reversed(graph.find_nodes(op="call_function", target=with_effects)):
        _call_directly(node)
    tokens = {spec.arg.name for spec in signature.input_specs if spec.kind is InputKind.TOKEN}
    for placeholder in graph.find_nodes(op="placeholder"):
        if placeholder.name in tokens:
            graph.erase_node(placeholder)


def _call_directly(node: Node) -> None:
    """Replace one ``with_effects`` by the operation, and its items by those of the result."""
    _, operation, *args = node.args
    with node.graph.inserting_before(node):
        direct = node.graph.call_function(operation, tuple(args), node.kwargs)  # type: ignore[arg-type]
    _, *results = node.meta["val"]
    value = results[0] if len(results) == 1 else tuple(results)
    direct.meta = copy.copy(node.meta) | {"val": value}
    for item in list(node.users):
        position: Any = item.args[1]
        if position == 0:
            node.graph.erase_node(item)
        elif len(results) == 1:
            item.replace_all_uses_with(direct)
            node.graph.erase_node(item)
        else:
            item.args = (direct, position - 1)
    node.graph.erase_node(node)
