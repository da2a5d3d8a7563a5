"""Unlike the core: calls whose signature is preserved take and return what the eager module did.

``torch.export.export(..., preserve_module_call_signature=...)`` notes how a module was called.
Such a module can be swapped for another one. So every value that enters it must be one of its
arguments, and every value that leaves it one of its results, in the structure that the eager
module had. The flat graph is edited accordingly, and the steps of the core need not know about
signatures.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any

import torch
import torch.fx._pytree as fx_pytree
from torch.export.exported_program import ModuleCallSignature
from torch.export.graph_signature import ConstantArgument
from torch.fx import Graph, Node
from torch.types import py_sym_types
from torch.utils import _pytree as pytree
from torch.utils._pytree import TreeSpec

from given.unflatten import Level

from ...unflatten import ModuleCall, stacks_of
from .._aliasing import shows_its_input, writes_its_result
from .functional import readers


def preserve_signatures(graph: Graph, signatures: Mapping[str, ModuleCallSignature]) -> None:
    """Edit the graph so that calls with a preserved signature take and return just what it says.

    Sizes are computed where they are used, and what was written is read from the tensor that was
    written. Then arguments are packed before the call and unpacked in it, and results the other
    way round.

    Args:
        graph: A flat graph that writes in place. It is changed as described.
        signatures: By the name of the call.

    In torch: ``_ModuleFrame.remap_input`` and ``_generate_flatten_spec``.
    """
    copy_sizes(graph, signatures)
    named = {node.name: node for node in graph.nodes}
    borders = [
        Border(level, nodes, signatures[call_name(level)], named)
        for level, nodes in slices_of(graph).items()
        if call_name(level) in signatures
    ]
    write_between(graph, borders)
    for value in reversed(graph.nodes):
        if writes_its_result(value.target):
            reroute(value, value.all_input_nodes[0], borders)
    for border in borders:
        border.pack()
    for border in borders:
        border.unpack()


def slices_of(graph: Graph) -> dict[Level, list[Node]]:
    """Return the nodes that were recorded in each call, callers before callees."""
    slices: dict[Level, list[Node]] = defaultdict(list)
    for node, stack in stacks_of(graph).items():
        for level in stack[1:]:
            slices[level].append(node)
    return slices


def call_name(level: Level) -> str:
    """Return the name that export gives a call: ``path``, ``path@1`` for the second, and so on."""
    return f"{level.path}@{level.call}" if level.call else level.path


def copy_sizes(graph: Graph, signatures: Collection[str]) -> None:
    """Compute a size again where it would go around a signature.

    Export computes it once for all modules. Those without a signature pass it on.
    """
    around: dict[Node, list[Level]] = defaultdict(list)
    for level, nodes in slices_of(graph).items():
        for node in nodes if call_name(level) in signatures else ():
            around[node].append(level)
    for size in reversed(graph.nodes):
        for user in list(size.users) if _is_size(size) else ():
            stack = user.meta.get("nn_module_stack")
            if stack and around[user] != around[size]:
                with graph.inserting_before(user):
                    copied = graph.node_copy(size)
                copied.meta["nn_module_stack"] = stack
                around[copied] = around[user]
                user.replace_input_with(size, copied)


def _is_size(node: Node) -> bool:
    """Return whether an operation computes a number from sizes alone: the same one everywhere."""
    reads_data = torch.Tag.data_dependent_output in getattr(node.target, "tags", ())
    is_number = isinstance(node.meta.get("val"), py_sym_types)
    return node.op == "call_function" and is_number and not reads_data


def reroute(value: Node, other: Node, borders: Sequence[Border]) -> list[Node]:
    """Use another node wherever a value would go around a signature.

    Returns:
        The nodes that use the other one now; for an argument or a result, where it is packed.
    """
    rerouted = [
        user for user in value.users if any(each.is_detour(value, user) for each in borders)
    ]
    for user in rerouted:
        user.replace_input_with(value, other)
    for border in borders:
        for leaves, place in ((border.arguments, border.first), (border.results, border.last)):
            around = [each for each in borders if each is not border]
            if value in leaves and any(each.is_detour(value, place) for each in around):
                leaves[:] = [other if leaf is value else leaf for leaf in leaves]
                rerouted.append(place)
    return rerouted


def write_between(graph: Graph, borders: Sequence[Border]) -> None:
    """Write back what a buffer holds between the calls that change it.

    A functional graph passes it from one call to the next as a value, which goes around their
    signatures: the eager modules read it from the buffer. So does the tree.

    Args:
        graph: A flat graph, in which a buffer's last value is already written back.
        borders: The borders of the calls whose signatures are preserved.

    Raises:
        RuntimeError: A value would be overwritten before it is read.

    In torch: ``_IVals``, which keeps such values in attributes of their own.
    """
    for last in graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
        buffer, final = last.args
        reads = dict.fromkeys([each for each in readers(buffer) if each is not last], buffer)
        writes = {last: final}
        for version in _versions(buffer, final):
            rerouted = reroute(version, buffer, borders)
            for user in rerouted:
                reads |= dict.fromkeys(
                    [user, *(readers(user) if shows_its_input(user.target) else ())], version
                )
            if rerouted and version is not final:
                writes[_write_after(version, buffer, borders)] = version
        if len(set(reads.values())) > 1:
            _check(graph, buffer, reads, writes)


def _versions(buffer: Node, final: Any) -> list[Node]:
    """Return the values that a buffer had, up to the final one: each is made of the one before.

    An operation that wrote in place has what it wrote as its first argument. If that doesn't lead
    back to the buffer, there is only one.
    """
    versions = [final]
    while versions[-1] is not buffer:
        if not isinstance(versions[-1], Node) or not versions[-1].args:
            return []
        versions.append(versions[-1].args[0])
    return versions[-2::-1]


def _write_after(version: Node, buffer: Node, borders: Sequence[Border]) -> Node:
    with version.graph.inserting_after(version):
        write = version.graph.call_function(torch.ops.aten.copy_.default, (buffer, version))
    write.meta = dict(version.meta)
    for border in borders:
        if border.last is version:
            border.last = write
    return write


def _check(
    graph: Graph, buffer: Node, reads: Mapping[Node, Node], writes: Mapping[Node, Node]
) -> None:
    """Check that each node reads the value that a buffer holds where the node runs."""
    held = buffer
    for node in graph.nodes:
        if reads.get(node, held) is not held:
            raise RuntimeError(
                f"the value {reads[node].name!r} of {buffer.name!r} goes around a signature and is "
                f"overwritten before {node.name!r} reads it; don't preserve the signature of the "
                "module that makes it"
            )
        held = writes.get(node, held)


def refuse_detours(call: ModuleCall) -> None:
    """Check that nothing goes around the signature of a call.

    Parameters, buffers, constants and the program's inputs may be used anywhere.

    Args:
        call: A call whose signature is preserved, with its inputs and outputs settled.

    Raises:
        RuntimeError: Another value enters the call without being an argument, or leaves it without
            being a result, such as a tensor that one module keeps in a list for another.
    """
    entering = [
        each
        for each in call.inputs
        if each.op not in ("placeholder", "get_attr") and "parameter" not in each.meta
    ]
    leaving = [each for each in call.outputs if "returned" not in each.meta]
    for value in [*entering, *leaving]:
        raise RuntimeError(
            f"the value {value.name!r} ({value.target}) goes around the signature of "
            f"{call.level.path!r}: it is neither an argument nor a result of that call; pass it, "
            "return it, or don't preserve the signature of this module"
        )


class Border:
    """The border of a call in the flat graph, which only arguments and results may cross.

    Args:
        level: The call.
        recorded: The nodes that were recorded in it.
        signature: How the eager module was called.
        nodes: The nodes of the graph by name; a leaf that isn't among them is ``None``.
    """

    def __init__(
        self,
        level: Level,
        recorded: Sequence[Node],
        signature: ModuleCallSignature,
        nodes: Mapping[str, Node],
    ) -> None:
        def leaf(argument: Any) -> Any:
            if isinstance(argument, ConstantArgument):
                return argument.value
            return nodes.get(argument.name)

        self.first, self.last = recorded[0], recorded[-1]
        self.signature, self.graph = signature, self.first.graph
        self.arguments = [leaf(argument) for argument in signature.inputs]
        self.results = [leaf(argument) for argument in signature.outputs]
        stack = list(self.first.meta["nn_module_stack"].items())
        depth = [path.partition("@")[0] for _, (path, _) in stack].index(level.path)
        self.inside = dict(stack[: depth + 1])
        self.outside = dict(stack[:depth])

    def contains(self, node: Node) -> bool:
        """Return whether a node belongs to the call, or to one that it makes."""
        return self.first <= node <= self.last

    def is_detour(self, value: Node, user: Node) -> bool:
        """Return whether a node uses a value around the signature: neither passed nor returned."""
        inside = self.contains(value)
        crossing = self.results if inside else self.arguments
        return self.contains(user) != inside and value not in crossing

    def pack(self) -> None:
        """Pack the arguments before the call, and the results at its end.

        These two nodes keep track of the leaves while other borders are unpacked.
        """
        with self.graph.inserting_before(self.first):
            self.packed = self._add(self.outside, _pack(self.signature.in_spec), self.arguments)
        with self.graph.inserting_after(self.last):
            self.returned = self._add(self.inside, _pack(self.signature.out_spec), self.results)
        self.returned.meta["returned"] = True

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
                item.meta["val"] = leaf.meta.get("val")
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
