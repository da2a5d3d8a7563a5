"""Unlike the core: what replaces a value that may not cross the border of a preserved module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from ...unflatten import ModuleCall
from .mutations import form, is_view, owner, readers, write_back


@dataclass
class BoundaryReplacements:
    """Replaces values that cross the border of a call and are not in its signature.

    Attributes:
        call: the call whose border it is.
        allowed: what may cross, as the signature says.
        written: the last value of each placeholder that is mutated.
        crosses: whether a value comes from the other side.
        before: the node in front of which values are computed again.
        stack: the module stack of what is computed there.
        copies: what was computed again.
    """

    call: ModuleCall
    allowed: Sequence[Node]
    written: Mapping[Node, Node]
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
        source = self._copied_to(value, reader) or self._written_to(value, reader)
        return source or self._copy(value)

    def _copied_to(self, value: Node, reader: Node) -> Node | None:
        """Return the buffer or input that the model copied the value to and that still holds it."""
        for copied in value.users:
            if copied.target is torch.ops.aten.copy_.default and copied < reader:
                target = copied.all_input_nodes[0]
                writers = [*_writers(target), *_writers(owner(value))]
                changed = any(copied < writer < reader for writer in writers)
                if target.op == "placeholder" and form(target) == form(value) and not changed:
                    return target
        return None

    def _written_to(self, value: Node, reader: Node) -> Node | None:
        """Write the value to the buffer or input that holds it in eager mode, and return that."""
        for target, last in self.written.items():
            if value is max(held for held in _history(target, last) if held < reader):
                written = min(node for node in target.users if node > value and _is_in_place(node))
                if written < reader:
                    return target
                # Unless the value from before is still needed.
                if not any(value < other < written for other in readers(target)):
                    write_back(target, value, after=value)
                    return target
        return None

    def _copy(self, value: Node) -> Node:
        """Compute the value a second time."""
        if value not in self.copies:
            obstacle = _obstacle(value, self.before)
            if obstacle:
                raise RuntimeError(
                    f"the value {value.name!r} ({value.target}) crosses the border of "
                    f"{self.call.name!r}, but is neither an argument nor a result of that call, "
                    f"and it can't be computed twice, because {obstacle}; pass it, or don't "
                    "preserve the signature of this module"
                )
            with value.graph.inserting_before(self.before):
                copied = value.graph.node_copy(value, lambda node: self._of(node, self.before))
            copied.meta["nn_module_stack"] = self.stack
            self.copies[value] = copied
        return self.copies[value]


def _history(target: Node, last: Node) -> list[Node]:
    """Return the values that a buffer or input may hold one after the other."""
    sources = {last}
    made = {target}
    for node in reversed(target.graph.nodes):
        if node in sources:
            sources.update(node.all_input_nodes)
    for node in target.graph.nodes:
        if node in sources and made.intersection(node.all_input_nodes):
            made.add(node)
    return [node for node in made if form(node) == form(target) and not is_view(node)]


def _obstacle(value: Node, before: Node) -> str:
    """Return why a value can't be computed a second time; empty if it can."""
    if torch.Tag.nondeterministic_seeded in getattr(value.target, "tags", ()):
        return "it is random"
    for source in (value, *value.all_input_nodes):
        for writer in _writers(owner(source)):
            if value < writer < before:
                return f"{writer.name!r} has changed {source.name!r} by then"
    return ""


def _writers(value: Node) -> Iterator[Node]:
    """Yield the operations that write to a value, directly or through views of it."""
    for user in value.users:
        if user.args and user.args[0] is value and is_view(user):
            if _is_in_place(user):
                yield user
            yield from _writers(user)


def _is_in_place(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
