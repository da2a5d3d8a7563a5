"""Unlike the core: calls have shapes and named arguments, take turns, and may have branches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from torch import nn
from torch.fx import Graph, Node

from given.unflatten import graph_key

from ... import unflatten as core
from ...capture import Flat
from ...unflatten import ModuleCall
from ..graph import map_arg
from .signatures import call_name, refuse_detours


class Outliner(core.Outliner):
    """Unlike the core's: call nodes have shapes, and preserved calls the eager arguments.

    Args:
        flat: The flat graph.
        preserved: The calls whose signatures are preserved, by name.
    """

    def __init__(self, flat: Flat, preserved: Collection[str] = ()) -> None:
        super().__init__(flat)
        self.preserved = preserved
        self.position = {node: position for position, node in enumerate(self.graph.nodes)}
        self.runs: dict[str, dict[int, str]] = defaultdict(dict)

    def turns(self) -> dict[str, list[str]]:
        """For each preserved module, the names of the modules that run its calls, in order."""
        return {path: [runs[at] for at in sorted(runs)] for path, runs in self.runs.items()}

    def read_state(self, call: ModuleCall) -> None:
        """Let a call read its state, and the branches of higher-order operators."""
        super().read_state(call)
        for value in list(call.inputs):
            if value.op == "get_attr" and value.target not in self.names:
                self.read(call, value, str(value.target))
        if call_name(call.level) in self.preserved:
            refuse_detours(call)

    def name_of(self, call: ModuleCall) -> str:
        """Return the name of the module to call: one for all calls of a preserved module."""
        name = super().name_of(call)
        if call_name(call.level) not in self.preserved:
            return name
        self.runs[call.level.path][self.position[call.nodes[0]]] = name
        return call.level.path

    def replace(self, call: ModuleCall, name: str) -> Node:
        """Replace the nodes of a call by one, with the shapes of its results."""
        first = self.position[call.nodes[0]]
        values = [value.meta.get("val") for value in call.outputs]
        node = super().replace(call, name)
        self.position[node] = first
        node.meta["val"] = values[0] if len(values) == 1 else values
        if len(values) > 1:
            for item, value in zip(node.users, values, strict=True):
                item.meta["val"] = value
        if any("parameter" in value.meta for value in call.inputs):
            self._pass_by_name(node, call)
        return node

    def _pass_by_name(self, node: Node, call: ModuleCall) -> None:
        """Pass by position what the eager module took by position, and everything else by name."""
        named: dict[str, Any] = {}
        for value in call.inputs:
            placeholder = call.environment[value]
            if "parameter" in value.meta:
                placeholder.target = value.meta["parameter"]
                placeholder._rename(value.meta["parameter"])  # type: ignore[attr-defined]
            named[str(placeholder.target)] = value
        by_position = [name for name in named if name.startswith("_positional_arg_")]
        node.args = tuple(named.pop(name) for name in by_position)
        node.kwargs = named


def attach_branches(modules: Mapping[str, nn.Module], program: Any) -> None:
    """Register the branches of higher-order operators on the modules whose graphs name them.

    They are submodules of the program's graph module, and ``get_attr`` nodes name them.
    """
    branches = {str(node.target) for node in program.graph.find_nodes(op="get_attr")}
    for module in [each for each in modules.values() if isinstance(each, core.InterpreterModule)]:
        for node in module.graph.find_nodes(op="get_attr"):
            if node.target in branches:
                setattr(module._owner, str(node.target), getattr(program.graph_module, node.target))


def join_names(modules: dict[str, Any], graph: Graph) -> None:
    """Let all names of one module hold one module, where its calls do the same.

    Strict export writes the identity of a module into the keys of the stacks, so a module that is
    called under two names, or below two parents, can be told from two equal ones.

    In torch: the second case of ``_deduplicate_modules``.
    """
    names: dict[str, dict[str, None]] = defaultdict(dict)
    for node in graph.nodes:
        for key, (path, _) in node.meta.get("nn_module_stack", {}).items():
            if path in modules:
                names[key.partition("@")[0]][path] = None
    for first, *others in names.values():
        key = graph_key(modules[first].graph, map_arg)
        for other in others:
            if graph_key(modules[other].graph, map_arg) == key:
                modules[other] = modules[first]
