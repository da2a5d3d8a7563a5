"""Unlike the core: programs after ``run_decompositions``, whose graphs are functional."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch._higher_order_ops.effects import with_effects
from torch._ops import OpOverload
from torch.autograd.graph import saved_tensors_hooks
from torch.export.graph_signature import ExportGraphSignature, InputKind
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from given.capture import address
from given.unflatten import NO_MODULE

from .._aliasing import shows_its_input


def restore_mutations(graph: Graph, signature: ExportGraphSignature) -> None:
    """Turn the mutations that a functional graph returns into ``copy_`` in the graph.

    ``run_decompositions`` computes what the eager model wrote into a buffer or an input, and
    returns it before the results. The caller of the flat graph writes it back. A tree of modules
    has no such caller, so the graph writes it back, once the value is computed and the old one
    isn't read any more.

    Args:
        graph: A flat graph. It is changed: every mutation is written back, and the ``output``
            node returns the results alone. An old value that is kept elsewhere is cloned.
        signature: Says which outputs are mutations, and of what.

    In torch: ``_inplace_buffer_and_input_mutations``, which writes back at once, even where the
    old value is read later.
    """
    nodes = {node.name: node for node in graph.nodes}
    inputs = {spec.target or spec.arg.name: nodes[spec.arg.name] for spec in signature.input_specs}
    # A result has no target, and a token's isn't an input.
    targets = [inputs.get(spec.target or "") for spec in signature.output_specs]
    output = graph.output_node()
    for value in output.all_input_nodes:
        if _owner(value) in targets:  # its mutation would change what is kept
            clone = _call_after(value, torch.ops.aten.clone.default, value)
            output.replace_input_with(value, clone)
    returned: Any = output.args[0]
    output.args = (returned[len(returned) - len(signature.user_outputs) :],)  # the last ones
    for target, value in zip(targets, returned, strict=True):
        if target:
            last = max([value, *readers(target)])
            keep_saved(target)
            _call_after(last, torch.ops.aten.copy_.default, target, value)


def _call_after(after: Node, function: Any, *args: Node) -> Node:
    """Add a call after a node, in its module; after a placeholder, in the root."""
    stack = after.meta.get("nn_module_stack", {NO_MODULE: (NO_MODULE, NO_MODULE)})
    with after.graph.inserting_after(after):
        node = after.graph.call_function(function, args)
    node.meta = args[-1].meta | {"nn_module_stack": stack}
    return node


def keep_saved(target: Node) -> None:
    """Let each operation whose backward needs the old value of a target read a clone of it.

    Otherwise, the write would come between the operation and its backward.
    """
    for reader in list(readers(target)):
        for value in reader.all_input_nodes:
            if _owner(value) is target and saves(reader, value):
                with reader.graph.inserting_before(reader):
                    clone = reader.graph.call_function(torch.ops.aten.clone.default, (value,))
                clone.meta = value.meta | {"nn_module_stack": reader.meta["nn_module_stack"]}
                reader.replace_input_with(value, clone)


def saves(node: Node, value: Node) -> bool:
    """Return whether an operation may keep the memory of an input for its backward.

    It runs on fake tensors that require a gradient, and autograd hands over what it keeps. If it
    doesn't run so, because it has no derivative for one of the inputs, say, it may.
    """
    if not isinstance(node.target, OpOverload):
        return True
    args, kwargs = map_arg((node.args, node.kwargs), lambda each: _trained(each.meta["val"]))
    saved: list[torch.Tensor] = []
    try:
        with torch.enable_grad(), saved_tensors_hooks(saved.append, lambda nothing: nothing):
            node.target(*args, **kwargs)
    except RuntimeError:
        return True
    return address(value.meta["val"]) in map(address, saved)


def _trained(value: Any) -> Any:
    """Return a tensor of the same memory that requires a gradient, if it can have one."""
    is_real = isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
    return value.detach().requires_grad_() if is_real else value


def readers(value: Node) -> Iterator[Node]:
    """Yield the operations that read a value, directly or through views of it."""
    for user in value.users:
        yield user
        if shows_its_input(user.target):
            yield from readers(user)


def _owner(value: Node) -> Node:
    """Return the value whose memory this is: the value itself, or what it is a view of."""
    return _owner(value.all_input_nodes[0]) if shows_its_input(value.target) else value


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
