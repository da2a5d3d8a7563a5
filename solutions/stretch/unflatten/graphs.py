"""Between the steps: the graph of one settled call."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import torch.fx._pytree as fx_pytree
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree
from torch.utils._pytree import TreeSpec

from .calls import ModuleCall, Signature, relative_to


class CallGraph:  # given
    """Builds the graph of one call: what it takes, its body with a node a call, what it returns.

    Args:
        call: the call, with its inputs, state and outputs settled.
        specs: the attribute names, on the call's module, of the structures that graphs refer to;
            new ones are added.

    Attributes:
        graph: the graph.
        sites: the node that stands for each of the calls in the body.
    """

    def __init__(self, call: ModuleCall, specs: dict[TreeSpec, str]) -> None:
        self.call = call
        self.specs = specs
        self.graph = Graph()
        self.sites: dict[ModuleCall, Node] = {}
        self._built: dict[Node, Node] = {}
        self._take()
        for item in call.body:
            if isinstance(item, ModuleCall):
                self._make_call(item)
            else:
                self._built[item] = self.graph.node_copy(item, self._value)
        if call.path:
            self._return()

    def lift_annotation(self, site: Node) -> None:
        """Move what ``torch.fx.traceback.annotate`` said of all nodes alike to the call's site."""
        nodes = [node for node in self.graph.nodes if node.op in ("call_function", "call_module")]
        notes = [node.meta.get("custom") for node in nodes]
        if notes and notes[0] and all(note == notes[0] for note in notes):
            site.meta["custom"] = notes[0]
            for node in nodes:
                del node.meta["custom"]

    def _take(self) -> None:
        for value in self.call.inputs:
            placeholder = self.graph.placeholder(value.name, type_expr=value.type)
            self._stand_for(value, placeholder)
        signature = self.call.signature
        placeholders = self._parameters(signature) if signature else None
        for value, name in self.call.state.items():
            self._stand_for(value, self.graph.create_node("get_attr", name))
        if signature:
            self._unpack_arguments(signature, placeholders)

    def _make_call(self, callee: ModuleCall) -> None:
        """Record one ``call_module`` node for a call, and what becomes of its result."""
        inputs = [self._value(value) for value in callee.inputs]
        args, kwargs = self._pack_arguments(callee.signature) if callee.signature else ([], {})
        target = relative_to(self.call.path, callee.name)
        site = self.graph.create_node("call_module", target, (*inputs, *args), kwargs)
        self.sites[callee] = site
        if callee.signature:
            self._unpack_result(callee.signature, site)
        elif len(callee.outputs) == 1:
            self._built[callee.outputs[0]] = site
            site.meta["val"] = callee.outputs[0].meta.get("val")
        else:
            self._take_apart(site, callee.outputs)

    def _return(self) -> None:
        if self.call.signature:
            results = [self._leaf(leaf) for leaf in self.call.signature.results]
            self.graph.output(self._unflatten(results, self.call.signature.out_spec))
        elif len(self.call.outputs) == 1:
            self.graph.output(self._value(self.call.outputs[0]))
        else:
            self.graph.output([self._value(value) for value in self.call.outputs])

    def _stand_for(self, value: Node, node: Node) -> None:
        """Let ``node`` be what ``value`` of the flat graph is in this one."""
        node.meta = copy.copy(value.meta)
        self._built[value] = node

    def _value(self, value: Node) -> Node:
        """What ``value`` of the flat graph is in this one."""
        if value not in self._built:
            raise RuntimeError(
                f"the call {self.call.name!r} needs {value.name!r}, but neither makes nor gets it: "
                "it is missing among the call's inputs and state, or among a callee's outputs"
            )
        return self._built[value]

    def _leaf(self, leaf: Any) -> Any:
        return self._value(leaf) if isinstance(leaf, Node) else leaf

    def _take_apart(self, sequence: Node, values: list[Any]) -> None:
        """Record the items of a list, as far as they stand for values of the flat graph."""
        sequence.meta["val"] = [
            value.meta.get("val") for value in values if isinstance(value, Node)
        ]
        for position, value in enumerate(values):
            if isinstance(value, Node):
                item = self._call_function(operator.getitem, sequence, position)
                item.meta["val"] = value.meta.get("val")
                self._built[value] = item

    def _parameters(self, signature: Signature) -> tuple[tuple[Node, ...], dict[str, Node]]:
        """Placeholders for the eager module's own arguments."""
        args_spec, kwargs_spec = signature.in_spec.children()
        args = [
            self.graph.placeholder(f"_positional_arg_{number}")
            for number in range(args_spec.num_children)
        ]
        return tuple(args), {name: self.graph.placeholder(name) for name in kwargs_spec.context}

    def _unpack_arguments(self, signature: Signature, placeholders: Any) -> None:
        flat = self._flatten(placeholders, signature.in_spec)
        for position, leaf in enumerate(signature.arguments):
            if isinstance(leaf, Node):
                item = self.graph.create_node(
                    "call_function", operator.getitem, (flat, position), name=leaf.name
                )
                self._stand_for(leaf, item)

    def _pack_arguments(self, signature: Signature) -> tuple[list[Node], dict[str, Any]]:
        leaves = [self._leaf(leaf) for leaf in signature.arguments]
        packed = self._unflatten(leaves, signature.in_spec)
        args_spec, kwargs_spec = signature.in_spec.children()
        args = self._call_function(operator.getitem, packed, 0)
        kwargs = self._call_function(operator.getitem, packed, 1)
        positional = [
            self._call_function(operator.getitem, args, number)
            for number in range(args_spec.num_children)
        ]
        return positional, {
            name: self._call_function(operator.getitem, kwargs, name)
            for name in kwargs_spec.context
        }

    def _unpack_result(self, signature: Signature, site: Node) -> None:
        self._take_apart(self._flatten(site, signature.out_spec), signature.results)

    def _flatten(self, structure: Any, spec: TreeSpec) -> Node:
        return self._call_function(fx_pytree.tree_flatten_spec, structure, self._spec(spec))

    def _unflatten(self, leaves: list[Any], spec: TreeSpec) -> Node:
        return self._call_function(pytree.tree_unflatten, leaves, self._spec(spec))

    def _spec(self, spec: TreeSpec) -> Node:
        name = self.specs.setdefault(spec, f"_spec_{len(self.specs)}")
        return self.graph.create_node("get_attr", name)

    def _call_function(self, function: Callable[..., Any], *args: Any) -> Node:
        return self.graph.call_function(function, args)
