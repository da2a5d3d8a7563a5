"""Before settling: calls whose signature is to be preserved take and return nothing else.

``torch.export.export(..., preserve_module_call_signature=...)`` notes how a module was called.
Such a module can be swapped for another one, so whatever crosses its border must be one of its
arguments or results. The flat graph knows no borders, and some values cross it otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch.export.exported_program import ModuleCallSignature
from torch.export.graph_signature import ConstantArgument
from torch.fx import Graph, Node

from ._stand_ins import StandIns
from .calls import ModuleCall, Signature
from .outlines import outline


def preserve_signatures(
    graph: Graph, signatures: Mapping[str, ModuleCallSignature], written: Mapping[Node, Node]
) -> ModuleCall:
    """Outline a graph, and give the calls that are to keep their signature nothing else to pass.

    A value that crosses the border of such a call, and is neither an argument nor a result, is
    replaced on the far side of the border:

    - the result of an in-place operation by what it wrote to;
    - the new value of a mutated buffer, in a functional graph, by the buffer, into which it is
      written where it is made;
    - anything else (a size that export computes once for all modules, say) by a computation of
      its own.

    Parameters, buffers, constants and the program's inputs may cross as they are.

    Args:
        graph: a flat graph. It is changed as described.
        signatures: by the name of the call.
        written: what ``restore_mutations`` writes back: the last value of each placeholder.

    Returns:
        The outline; the calls named in ``signatures`` have theirs.

    Raises:
        RuntimeError: what crosses the border can't be computed twice, for it is random, or made of
            what is mutated in between.

    Where torch does this: ``_ModuleFrame.remap_input`` and ``_IVals`` in
    ``torch/export/unflatten.py``.
    """
    for call in _preserved_calls(outline(graph), graph, signatures):
        _seal(call, written)
    root = outline(graph)
    _preserved_calls(root, graph, signatures)
    return root


def _preserved_calls(
    root: ModuleCall, graph: Graph, signatures: Mapping[str, ModuleCallSignature]
) -> list[ModuleCall]:
    """Give every call its signature, and return those that have one, callers before callees."""
    nodes = {node.name: node for node in graph.nodes}

    def leaf(argument: Any) -> Any:
        """The node, the constant, or ``None`` for what isn't in the graph."""
        constant = isinstance(argument, ConstantArgument)
        return argument.value if constant else nodes.get(argument.name)

    calls = [call for call in _callers_first(root) if call is not root and call.name in signatures]
    for call in calls:
        signature = signatures[call.name]
        call.signature = Signature(
            signature.in_spec,
            signature.out_spec,
            arguments=[leaf(argument) for argument in signature.inputs],
            results=[_mended(leaf(argument), call) for argument in signature.outputs],
        )
    return calls


def _callers_first(call: ModuleCall) -> Iterator[ModuleCall]:
    yield call
    for callee in call.calls:
        yield from _callers_first(callee)


def _mended(result: Any, call: ModuleCall) -> Any:
    """The part of a decomposed result that is used.

    A decomposition may make several nodes of one, and the signature then names the last of them.
    """
    if not isinstance(result, Node) or _is_used_after(call, result) or not _origin(result):
        return result
    parts = [node for node in _slice(call) if _origin(node) == _origin(result)]
    return next((part for part in parts if _is_used_after(call, part)), result)


def _origin(node: Node) -> str | None:
    """The name that a node, or the one it was made from, had before decomposition."""
    history = node.meta.get("from_node")
    return history[-1].name if history else None


def _slice(call: ModuleCall) -> Iterator[Node]:
    """The nodes of a call and of the calls inside it."""
    node = call.first
    while node <= call.last:
        yield node
        node = node.next


def _is_used_after(call: ModuleCall, value: Node) -> bool:
    return any(user > call.last for user in value.users)


def _seal(call: ModuleCall, written: Mapping[Node, Node]) -> None:
    """Replace what crosses the border of a call and isn't in its signature."""
    first, last = call.first, call.last
    inside = list(_slice(call))
    into_call = StandIns(
        call, call.arguments, written, lambda value: value < first, first, _own_stack(call)
    )
    for node in inside:
        into_call.replace_inputs(node)
    out_of_call = [node for value in inside for node in value.users if node > last]
    for node in dict.fromkeys(out_of_call):
        stack = _stack(node) or _root_stack(first)
        out = StandIns(
            call, call.results, written, lambda value: first <= value <= last, node, stack
        )
        out.replace_inputs(node)


def _stack(node: Node) -> dict[str, Any]:
    return dict(node.meta.get("nn_module_stack", {}))


def _root_stack(node: Node) -> dict[str, Any]:
    return dict([next(iter(_stack(node).items()))])


def _own_stack(call: ModuleCall) -> dict[str, Any]:
    """The module stack of a node that the call itself makes, not one inside it."""
    stack = {}
    for key, (path, type_name) in _stack(call.first).items():
        stack[key] = (path, type_name)
        if path == call.path:
            break
    return stack
