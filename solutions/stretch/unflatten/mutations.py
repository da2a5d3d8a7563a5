"""Unlike the core: functional graphs mutate the buffers and inputs that the model mutated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.export.graph_signature import ExportGraphSignature
from torch.fx import Graph, Node

from ...unflatten import NO_MODULE


def restore_mutations(graph: Graph, signature: ExportGraphSignature) -> dict[Node, Node]:
    """Turn the mutations that a functional graph returns into ``copy_`` in the graph.

    ``run_decompositions`` makes a graph functional: what the eager model wrote into a buffer or
    an input is computed, and returned before the results. The caller of the flat graph writes it
    back. A tree of modules has no such caller, so the graph writes it back with ``copy_``, once
    the value is computed and the old one isn't read any more.

    Args:
        graph: A flat graph. It is changed: every mutation is written back, what comes after sees
            the buffer or input itself (unless that has another dtype or shape, and so holds
            something else), and the ``output`` node returns the results alone. An old value that
            is kept in another buffer is cloned.
        signature: Says which outputs are mutations, and of what.

    Returns:
        For the placeholder of each mutated buffer, parameter or input the value written back.

    In torch: ``_inplace_buffer_and_input_mutations``, which writes back at once, even where the
    old value is read later.
    """
    nodes = {node.name: node for node in graph.nodes}
    inputs = {spec.target or spec.arg.name: nodes[spec.arg.name] for spec in signature.input_specs}
    # A result has no target.
    targets = [inputs.get(spec.target) for spec in signature.output_specs]  # type: ignore[arg-type]
    mutated = set(targets)
    output = graph.output_node()
    for value in output.all_input_nodes:
        if owner(value) in mutated:  # which would change what is kept elsewhere, or returned
            clone = _call_after(value, torch.ops.aten.clone.default, value)
            output.replace_input_with(value, clone)
    returned: Any = output.args[0]
    output.args = (returned[len(returned) - len(signature.user_outputs) :],)  # the last ones
    written = {target: value for target, value in zip(targets, returned, strict=True) if target}
    for target, value in written.items():
        copied = write_back(target, value, after=max([value, *readers(target)]))
        if value.op != "placeholder" and form(value) == form(target):
            value.replace_all_uses_with(copied, copied.__lt__)
    return written


def write_back(target: Node, value: Node, after: Node) -> Node:
    """Copy ``value`` into ``target`` after the node ``after``, in the module of that node.

    Args:
        target: The placeholder of a buffer, parameter or input.
        value: What it becomes.
        after: The node to follow; for a placeholder, the copy comes before the first operation.

    Returns:
        The ``copy_`` node.
    """
    return _call_after(after, torch.ops.aten.copy_.default, target, value)


def _call_after(after: Node, function: Any, *args: Node) -> Node:
    """Add a call after a node, in its module; the result has the form of the last argument."""
    stack = after.meta.get("nn_module_stack", {NO_MODULE: (NO_MODULE, NO_MODULE)})
    while after.next.op == "placeholder":
        after = after.next
    with after.graph.inserting_after(after):
        node = after.graph.call_function(function, args)
    node.meta = args[-1].meta | {"nn_module_stack": stack}
    return node


def readers(value: Node) -> Iterator[Node]:
    """Yield the operations that read a value, directly or through views of it."""
    for user in value.users:
        yield user
        if is_view(user):
            yield from readers(user)


def is_view(node: Node) -> bool:
    """Return whether the result of a node is a view of its first argument."""
    schema = getattr(node.target, "_schema", None)
    return any(result.alias_info for result in getattr(schema, "returns", ()))


def owner(value: Node) -> Node:
    """Return the value whose memory this is: the value itself, or what it is a view of."""
    return owner(value.all_input_nodes[0]) if is_view(value) else value


def form(node: Node) -> tuple[Any, ...]:
    """Return dtype and shape of a node's value. A buffer can only hold values of its own form."""
    value = node.meta.get("val")
    return getattr(value, "dtype", None), getattr(value, "shape", None)
