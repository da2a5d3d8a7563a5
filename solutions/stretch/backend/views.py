"""Views between loops: an element-by-element node computes the same in any shape.

After a view that merges several dimensions, a reduction over these is one over rows. But a view
separates two loops. So the nodes around it are computed in its shape, and the view moves to their
inputs, where it costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from given.backend import is_dense, shape_of, value_of

from ...backend import POINTWISE, REDUCTIONS, kernels, with_kernels

if TYPE_CHECKING:
    from ...code import GraphModule

aten = torch.ops.aten
VIEWS = {
    aten.view.default,
    aten._unsafe_view.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.unsqueeze.default,
}


def views_moved(gm: GraphModule) -> GraphModule:
    """Return a module like ``gm`` in which fewer views separate nodes that one loop could run.

    From the last node to the first, a node gets another shape if all its users see it in that
    shape. Then, from the first node to the last, a node that reads a value through a view gets the
    shape of that value, if its loop needs the rows, as after a norm.

    >>> from solutions.capture import capture
    >>> flat = capture(lambda x: x.exp().view(2, 6).relu(), (torch.ones(3, 4),))
    >>> [node.name for node in views_moved(flat).graph.nodes]
    ['input_0', 'view_default', 'exp_1', 'relu', 'output']
    """
    moved = with_kernels(gm, kernels(gm), {})
    graph = moved.graph
    for node in reversed([node for node in graph.nodes if is_free(node)]):
        seen_in = {shape_of(user) if user.target in VIEWS else () for user in node.users}
        if len(seen_in) == 1 and () not in seen_in:
            compute_as(node, *seen_in)
    with_rows = {node for node in graph.nodes if runs_over_rows(node)}
    for node in [node for node in graph.nodes if is_free(node)]:
        views = [each for each in node.all_input_nodes if each.target in VIEWS]
        sources = [each.args[0] for each in views if shape_of(each) == shape_of(node)]
        shapes = [shape_of(each) for each in sources if each in with_rows]
        if shapes:
            with_rows.add(compute_as(node, shapes[0]))
    moved.recompile()
    return moved


def runs_over_rows(node: Any) -> bool:
    """Return whether a loop that runs a node needs to know the rows."""
    return node.target in REDUCTIONS or (node.target in POINTWISE and not is_free(node))


def is_free(node: Any) -> bool:
    """Return whether a node computes each element from those at the same place, or single ones."""
    result = node.meta.get("val")
    if node.target not in POINTWISE or not is_dense(result) or result.numel() == 1:
        return False
    inputs = [each.meta.get("val") for each in node.all_input_nodes]
    return all(
        is_dense(each) and (each.shape == result.shape or each.numel() == 1) for each in inputs
    )


def compute_as(node: Any, shape: tuple[int, ...]) -> Any:
    """Replace a node by one that computes the same in another shape, and return that one."""
    graph, inputs = node.graph, node.all_input_nodes
    with graph.inserting_before(node):
        views = {each: seen_as(each, shape) for each in inputs}
        result = graph.node_copy(node, views.__getitem__)
        result.meta["val"] = value_of(node).view(shape)
        back = seen_as(result, shape_of(node))
    node.replace_all_uses_with(back)
    graph.erase_node(node)
    seen_again = [user for user in back.users if user.target in VIEWS and shape_of(user) == shape]
    for user in seen_again:
        user.replace_all_uses_with(result)
    erase_unused_views([*seen_again, back, *inputs])
    return result


def erase_unused_views(nodes: list[Any]) -> None:
    """Erase those of the nodes that are views without users, and then their sources likewise."""
    erased = set()
    while nodes:
        node = nodes.pop()
        if node.target in VIEWS and not node.users and node not in erased:
            erased.add(node)
            nodes.append(node.args[0])
            node.graph.erase_node(node)


def seen_as(node: Any, shape: tuple[int, ...]) -> Any:
    """Return a node's value in another shape; a single number gets the shape ``(1,)``."""
    shape = (1,) if value_of(node).numel() == 1 else shape
    while node.target in VIEWS and is_dense(value_of(node.args[0])):
        node = node.args[0]
    if shape_of(node) == shape:
        return node
    view = node.graph.call_function(aten.view.default, (node, list(shape)))
    view.meta["val"] = value_of(node).view(shape)
    return view
