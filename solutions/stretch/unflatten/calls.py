"""Unlike the core: interrupted calls, shapes of calls, named arguments, branches of ``cond``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from torch import nn
from torch.fx import Graph, Node

from ... import unflatten as core
from ...unflatten import ModuleCall


def outline(graph: Graph) -> ModuleCall:
    """Read the tree of module calls off a flat graph.

    Unlike the core's: if a pass put a node into the middle of a call, each part gets a number of
    its own.
    """
    root = core.outline(graph)
    calls = list(root.walk())
    numbers = count(max(call.index for call in calls) + 1)
    names = set()
    for call in calls:
        if call.name in names:
            call.index = next(numbers)
        names.add(call.name)
    return root


class CallGraph(core.CallGraph):
    """Unlike the core's: call nodes have shapes, and preserved arguments have the eager names."""

    def add_inputs(self) -> None:
        super().add_inputs()
        for value in self.call.inputs:
            if "parameter" in value.meta:
                placeholder = self.copies[value]
                placeholder.target = value.meta["parameter"]
                placeholder._rename(value.meta["parameter"])  # type: ignore[attr-defined]

    def add_call(self, callee: ModuleCall) -> None:
        super().add_call(callee)
        callee.call_node.meta["val"] = [value.meta.get("val") for value in callee.outputs]
        for value in callee.outputs:  # a single one's node is the call node
            self.copies[value].meta["val"] = value.meta.get("val")
        if any("parameter" in value.meta for value in callee.inputs):
            self._pass_by_name(callee.call_node, callee.inputs)

    def _pass_by_name(self, node: Node, inputs: Sequence[Node]) -> None:
        """Pass by position what the eager module took by position, and everything else by name."""
        named: dict[str, Any] = {
            value.meta.get("parameter", value.name): self.value(value) for value in inputs
        }
        by_position = [name for name in named if name.startswith("_positional_arg_")]
        node.args = tuple(named.pop(name) for name in by_position)
        node.kwargs = named


def attach_branches(root: ModuleCall, branches: nn.Module) -> None:
    """Register the branches of higher-order operators on the modules whose graphs name them.

    They are submodules of the program's graph module, and ``get_attr`` nodes name them.
    """
    for call in root.walk():
        read = list(call.module.graph.find_nodes(op="get_attr"))
        for name in {str(node.target) for node in read[len(call.state) :]}:
            setattr(call.module._owner, name, getattr(branches, name))
