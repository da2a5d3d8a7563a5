"""Unlike the core: values that cross the border of a preserved module without being passed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
from torch.fx import Node
from torch.types import py_sym_types

from ...unflatten import ModuleCall
from .mutations import form, is_view, readers, write_back


@dataclass
class BoundaryReplacements:
    """Replaces values that cross the border of a call and are not in its signature.

    Attributes:
        call: The call whose border it is.
        allowed: What may cross, as the signature says.
        held: The values that each mutated placeholder holds one after the other.
        crosses: Whether a value comes from the other side.
        before: The node before which sizes are computed again.
        stack: The module stack of the sizes computed there.
        copies: The sizes computed again.
    """

    call: ModuleCall
    allowed: Sequence[Node]
    held: Mapping[Node, Sequence[Node]]
    crosses: Callable[[Node], bool]
    before: Node
    stack: dict[str, Any]
    copies: dict[Node, Node] = field(default_factory=dict)

    def replace_inputs(self, node: Node) -> None:
        for value in node.all_input_nodes:
            replacement = self._of(value, reader=node)
            if replacement is not value:
                node.replace_input_with(value, replacement)

    def _of(self, value: Node, reader: Node) -> Node:
        if value.op == "placeholder" or value in self.allowed or not self.crosses(value):
            return value
        if _is_in_place(value):
            return self._of(value.all_input_nodes[0], reader)
        if _is_size(value):
            return self._copy(value)
        return self._written_to(value, reader) or self._refuse(value)

    def _copy(self, value: Node) -> Node:
        """Compute a size a second time."""
        if value not in self.copies:
            with value.graph.inserting_before(self.before):
                copied = value.graph.node_copy(value, lambda node: self._of(node, self.before))
            copied.meta["nn_module_stack"] = self.stack
            self.copies[value] = copied
        return self.copies[value]

    def _written_to(self, value: Node, reader: Node) -> Node | None:
        """Write the value to the buffer or input that holds it in eager mode, and return that."""
        for target, held in self.held.items():
            if value is max(each for each in held if each < reader):
                written = min(node for node in target.users if node > value and _is_in_place(node))
                if written < reader:
                    return target
                # Unless the value from before is still needed.
                if not any(value < other < written for other in readers(target)):
                    write_back(target, value, after=value)
                    return target
        return None

    def _refuse(self, value: Node) -> NoReturn:
        raise RuntimeError(
            f"the value {value.name!r} ({value.target}) crosses the border of "
            f"{self.call.name!r}, but is neither an argument nor a result of that call: pass it, "
            "return it, or don't preserve the signature of this module"
        )


def values_held(target: Node, last: Node) -> list[Node]:
    """Return the values that a buffer or input may hold one after the other."""
    sources, made = {last}, {target}
    for node in reversed(target.graph.nodes):
        if node in sources:
            sources.update(node.all_input_nodes)
    for node in target.graph.nodes:
        if node in sources and made.intersection(node.all_input_nodes):
            made.add(node)
    return [node for node in made if form(node) == form(target) and not is_view(node)]


def _is_in_place(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _is_size(node: Node) -> bool:
    """Return whether a node computes a number from sizes alone: the same one everywhere."""
    reads_data = torch.Tag.data_dependent_output in getattr(node.target, "tags", ())
    return isinstance(node.meta.get("val"), py_sym_types) and not reads_data
