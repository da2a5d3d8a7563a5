"""Unlike the core: calls whose signature is preserved take and return what the eager module did.

``torch.export.export(..., preserve_module_call_signature=...)`` notes how a module was called.
Such a module can be swapped for another one. So every value that crosses its border must be one of
its arguments or results, in the structure that the eager module had. The flat graph is edited
accordingly, and the steps of the core need not know about signatures.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch.fx._pytree as fx_pytree
from torch.export.exported_program import ModuleCallSignature
from torch.export.graph_signature import ConstantArgument
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree
from torch.utils._pytree import TreeSpec

from ...unflatten import ModuleCall
from .boundaries import BoundaryReplacements, values_held
from .calls import outline


def preserve_signatures(
    graph: Graph, signatures: Mapping[str, ModuleCallSignature], written: Mapping[Node, Node]
) -> None:
    """Edit the graph so that calls with a preserved signature take and return just what it says.

    Three kinds of values cross the border of an ordinary call without being an argument or a
    result. On the far side of the border

    - the result of an in-place operation is replaced by what it wrote to;
    - the new value of a mutated buffer, in a functional graph, by the buffer, into which it is
      written where it is made;
    - a size, which export computes once for all modules, by a computation of its own.

    Parameters, buffers, constants and the program's inputs may cross as they are. Then arguments
    are packed before the call and unpacked in it, and results the other way round.

    Args:
        graph: A flat graph. It is changed as described.
        signatures: By the name of the call.
        written: What ``restore_mutations`` writes back: the last value of each placeholder.

    Raises:
        RuntimeError: Any other value crosses the border, such as a tensor that one module keeps
            in a list and another one takes from there.

    In torch: ``_ModuleFrame.remap_input``, ``_IVals`` and ``_generate_flatten_spec``.
    """
    held = {target: values_held(target, last) for target, last in written.items()}
    for border in _borders(graph, signatures):
        border.enforce_signature(held)
    borders = _borders(graph, signatures)
    for border in borders:
        border.pack()
    for border in borders:
        border.unpack()


def _borders(graph: Graph, signatures: Mapping[str, ModuleCallSignature]) -> list[Border]:
    """Return the borders of the calls that have a signature, callers before callees."""
    nodes = {node.name: node for node in graph.nodes}
    calls = reversed(list(outline(graph).walk()))
    return [Border(call, signatures[call.name], nodes) for call in calls if call.name in signatures]


class Border:
    """The border of a call in the flat graph, which only arguments and results may cross.

    Args:
        call: The call.
        signature: How the eager module was called.
        nodes: The nodes of the graph by name; a leaf that isn't among them is ``None``.
    """

    def __init__(
        self, call: ModuleCall, signature: ModuleCallSignature, nodes: Mapping[str, Node]
    ) -> None:
        def leaf(argument: Any) -> Any:
            if isinstance(argument, ConstantArgument):
                return argument.value
            return nodes.get(argument.name)

        self.call, self.signature, self.graph = call, signature, call.first.graph
        self.arguments = [leaf(argument) for argument in signature.inputs]
        self.results = [_used_part(leaf(argument), call) for argument in signature.outputs]
        stack = list(call.first.meta["nn_module_stack"].items())
        paths = [path.partition("@")[0] for _, (path, _) in stack]
        depth = paths.index(call.path)
        self.inside = dict(stack[: depth + 1])
        self.outside = dict(stack[:depth])

    def enforce_signature(self, held: Mapping[Node, Sequence[Node]]) -> None:
        """Replace what crosses the border and isn't in the signature."""
        call, first, last = self.call, self.call.first, self.call.last
        nodes = list(_slice(call))
        into_call = BoundaryReplacements(
            call, self.arguments, held, lambda value: value < first, first, self.inside
        )
        for node in nodes:
            into_call.replace_inputs(node)
        for node in dict.fromkeys(user for value in nodes for user in value.users if user > last):
            stack = node.meta.get("nn_module_stack") or dict(list(self.outside.items())[:1])
            BoundaryReplacements(
                call, self.results, held, lambda value: first <= value <= last, node, stack
            ).replace_inputs(node)

    def pack(self) -> None:
        """Pack the arguments before the call, and the results at its end.

        These two nodes keep track of the leaves while other borders are unpacked.
        """
        with self.graph.inserting_before(self.call.first):
            self.packed = self._add(self.outside, _pack(self.signature.in_spec), self.arguments)
        with self.graph.inserting_after(self.call.last):
            self.returned = self._add(self.inside, _pack(self.signature.out_spec), self.results)

    def unpack(self) -> None:
        """Unpack the arguments inside and the results outside, and let them be used from there."""
        with self.graph.inserting_before(self.packed.next):
            flat = self._add(self.inside, _flatten(self.signature.in_spec), self._parameters())
            self._use(flat, self.packed.args[0], self.returned)
        leaves: Any = self.returned.args[0]
        made = [leaf if isinstance(leaf, Node) and leaf > flat else None for leaf in leaves]
        with self.graph.inserting_before(self.returned.next):
            results = self._add(self.outside, _flatten(self.signature.out_spec), self.returned)
            self._use(results, made, self.graph.output_node())

    def _use(self, flat: Node, leaves: Any, last: Node) -> None:
        """Let leaves be read from the flat list ``flat``, up to the node ``last``."""
        for position, leaf in enumerate(leaves):
            if isinstance(leaf, Node):
                item = self._add(flat.meta["nn_module_stack"], operator.getitem, flat, position)
                item.meta |= {"val": leaf.meta.get("val"), "called": leaf.name}
                leaf.replace_all_uses_with(item, lambda user: flat < user <= last)

    def _parameters(self) -> Any:
        """Return what the eager module was called with: a tuple by position, and a dict by name."""
        args_spec, kwargs_spec = self.signature.in_spec.children()
        args, kwargs = (self._add(self.outside, operator.getitem, self.packed, n) for n in (0, 1))
        positional = [
            self._parameter(f"_positional_arg_{number}", args, number)
            for number in range(args_spec.num_children)
        ]
        return tuple(positional), {
            name: self._parameter(name, kwargs, name) for name in kwargs_spec.context
        }

    def _parameter(self, name: str, values: Node, key: Any) -> Node:
        item = self._add(self.outside, operator.getitem, values, key)
        item.meta["parameter"] = name
        return item

    def _add(self, stack: dict[str, Any], function: Any, *args: Any) -> Node:
        node = self.graph.call_function(function, args)
        node.meta["nn_module_stack"] = stack
        return node


def _used_part(result: Any, call: ModuleCall) -> Any:
    """Return the part of a decomposed result that is used.

    A decomposition may make several nodes of one, and the signature then names the last of them.
    """
    if not isinstance(result, Node) or _is_used_after(call, result) or not _origin(result):
        return result
    parts = [node for node in _slice(call) if _origin(node) == _origin(result)]
    return next((part for part in parts if _is_used_after(call, part)), result)


def _origin(node: Node) -> str | None:
    """Return the name that a node had before decomposition, or ``None``."""
    history = node.meta.get("from_node")
    return history[-1].name if history else None


def _slice(call: ModuleCall) -> Iterator[Node]:
    """Yield the nodes of a call and of the calls inside it."""
    node = call.first
    while node <= call.last:  # type: ignore[operator]
        yield node
        node = node.next


def _is_used_after(call: ModuleCall, value: Node) -> bool:
    return any(user > call.last for user in value.users)


# One function per structure, so that graphs that do the same call the same functions.
@cache
def _pack(spec: TreeSpec) -> Callable[..., Any]:
    def pack(leaves: list[Any]) -> Any:
        return pytree.tree_unflatten(leaves, spec)

    return pack


@cache
def _flatten(spec: TreeSpec) -> Callable[..., Any]:
    def flatten(structure: Any) -> Any:
        return fx_pytree.tree_flatten_spec(structure, spec)

    return flatten
