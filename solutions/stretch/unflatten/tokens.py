"""Unlike the core: operations with side effects, which decomposition orders with a token."""

from __future__ import annotations

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
        graph: A flat graph whose ``output`` node returns no tokens any more. It is changed.
        signature: Says which placeholders are tokens.

    In torch: ``_remove_effect_tokens_pass``, which edits the program that it is given.
    """
    for node in reversed(graph.find_nodes(op="call_function", target=with_effects)):
        _call_directly(node)
    tokens = {spec.arg.name for spec in signature.input_specs if spec.kind is InputKind.TOKEN}
    for placeholder in graph.find_nodes(op="placeholder"):
        if placeholder.name in tokens:
            graph.erase_node(placeholder)


def _call_directly(node: Node) -> None:
    """Make a ``with_effects`` node one of the operation, and its items those of the result."""
    _, node.target, *args = node.args  # type: ignore[assignment]
    node.args = tuple(args)
    _, *results = node.meta["val"]
    node.meta["val"] = results[0] if len(results) == 1 else tuple(results)
    for item in list(node.users):
        position: Any = item.args[1]
        if position and len(results) > 1:
            item.args = (node, position - 1)
        else:
            item.replace_all_uses_with(node)
            node.graph.erase_node(item)
