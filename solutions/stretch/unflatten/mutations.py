"""Unlike the core: functional graphs mutate the buffers and inputs that the model mutated."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch.export.graph_signature import ExportGraphSignature, OutputKind
from torch.fx import Graph, Node

from ...unflatten import NO_MODULE


def restore_mutations(graph: Graph, signature: ExportGraphSignature) -> dict[Node, Node]:
    """Turn the mutations that a functional graph returns into ``copy_`` in the graph.

    ``run_decompositions`` makes a graph functional: what the eager model wrote into a buffer or
    an input is computed, and returned before the results. The caller of the flat graph writes it
    back. A tree of modules has no such caller, so the graph writes it back with ``copy_``, once
    the value is computed and the old one isn't read any more.

    Args:
        graph: a flat graph. It is changed: every mutation is written back, what comes after sees
            the buffer or input itself (unless that has another dtype or shape, and so holds
            something else), and the ``output`` node returns the results alone.
        signature: says which outputs are mutations, and of what.

    Returns:
        For the placeholder of each mutated buffer, parameter or input the value written back.

    In torch: ``_inplace_buffer_and_input_mutations``, which writes back at once, even where the
    old value is read later.
    """
    placeholders = {node.name: node for node in graph.find_nodes(op="placeholder")}
    names = {spec.target: spec.arg.name for spec in signature.input_specs}
    output = graph.output_node()
    outputs: Any = output.args[0]
    returned = list(zip(signature.output_specs, outputs, strict=True))
    output.args = (tuple(value for spec, value in returned if spec.kind is OutputKind.USER_OUTPUT),)
    written = {}
    for spec, value in returned:
        if spec.target is not None:  # the name of a buffer or parameter, or of the placeholder
            target = placeholders[names.get(spec.target, spec.target)]
            copied = write_back(target, value, after=max([value, *readers(target)]))
            if value.op != "placeholder" and form(value) == form(target):
                value.replace_all_uses_with(copied, copied.__lt__)
            written[target] = value
    return written


def write_back(target: Node, value: Node, after: Node) -> Node:
    """Copy ``value`` into ``target`` after the node ``after``, in the module of that node.

    Args:
        target: the placeholder of a buffer, parameter or input.
        value: what it becomes.
        after: the node to follow; for a placeholder, the copy comes before the first operation.

    Returns:
        The ``copy_`` node.
    """
    graph = value.graph
    if after.op == "placeholder":
        *_, after = graph.find_nodes(op="placeholder")
        stack = {NO_MODULE: (NO_MODULE, NO_MODULE)}
    else:
        stack = after.meta["nn_module_stack"]
    with graph.inserting_after(after):
        copied = graph.call_function(torch.ops.aten.copy_.default, (target, value))
    copied.meta = copy.copy(value.meta) | {"nn_module_stack": stack}
    return copied


def readers(value: Node) -> Iterator[Node]:
    """Yield the operations that read a value, directly or through views of it."""
    for user in value.users:
        if user.op != "output":
            yield user
            if is_view(user):
                yield from readers(user)


def is_view(node: Node) -> bool:
    """Return whether the result of a node is a view of its first argument."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(result.alias_info for result in schema.returns)


def form(node: Node) -> tuple[Any, ...]:
    """Return dtype and shape of a node's value. A buffer can only hold values of its own form."""
    value = node.meta.get("val")
    return getattr(value, "dtype", None), getattr(value, "shape", None)
