"""Step 5: build the tree of modules, and put every body, and all state, in its place."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import nn
from torch.fx import Node
from torch.utils._pytree import TreeSpec

from .calls import ModuleCall, relative_to
from .graphs import CallGraph
from .interpreter import InterpreterModule
from .state import Attribute
from .unflattened import UnflattenedModule


@dataclass
class Body:  # given
    """A call, and the module in the tree that does it.

    Attributes:
        call: the call.
        module: what does it.
        name: the fully qualified name of ``module``.
        site: the node that makes the call.
        caller: the path of the module that makes the call.
    """

    call: ModuleCall
    module: InterpreterModule
    name: str
    site: Node
    caller: str

    def redirect(self, name: str) -> None:
        """Let the caller call the module of that fully qualified name."""
        self.name = name
        self.site.target = relative_to(self.caller, name)


def attach(
    module: UnflattenedModule,
    root: ModuleCall,
    state: Mapping[str, Attribute],
    paths: Iterable[str],
    subgraphs: nn.Module,
) -> list[Body]:
    """Build the tree of modules below ``module``, with a body for every call and all state.

    The first call of a module becomes an ``InterpreterModule`` at the module's path. A later call
    becomes one beside it, under the call's ``name``, and stands on the first one: it owns
    nothing. A module that nobody calls, or that does nothing, becomes a plain ``nn.Module``.

    Args:
        module: the root; it gets the root's graph, and children.
        root: the settled outline.
        state: what to register, by fully qualified name.
        paths: the modules of the eager model, in its order. Children are registered in this
            order, and whatever isn't listed comes after.
        subgraphs: has the submodules that ``get_attr`` nodes of the flat graph name: the branches
            of higher-order operators. A copy goes to the module whose body names it.

    Returns:
        One body for every call below the root, callees before callers.

    Where torch does this: ``_add_submodule``, ``_assign_attr`` and ``_reorder_submodules`` in
    ``torch/export/unflatten.py``.
    """
    specs: dict[str, dict[TreeSpec, str]] = defaultdict(dict)
    graphs = {call: CallGraph(call, specs[call.path]) for call in root.walk()}
    module.graph, module._ty = graphs[root].graph, root.type_name
    homes: dict[str, nn.Module] = {"": module}
    bodies = _bodies(graphs, homes)
    _plant(homes, [*paths, *homes, *(_parent(name) for name in state)])
    for body in bodies:
        if body.module is not homes[body.call.path]:
            homes[_parent(body.name)].add_module(_field(body.name), body.module)
    _register(homes, state, specs)
    _copy_subgraphs(graphs, homes, subgraphs)
    return bodies


def _bodies(graphs: Mapping[ModuleCall, CallGraph], homes: dict[str, nn.Module]) -> list[Body]:
    """Make the modules of all calls, and note at which path each first one is at home."""
    sites = {
        call: (site, caller.path)
        for caller, built in graphs.items()
        for call, site in built.sites.items()
    }
    bodies = []
    for call, built in graphs.items():
        if call in sites:
            site, caller = sites[call]
            built.lift_annotation(site)
            home = homes.get(call.path)
            interpreter = InterpreterModule(built.graph, call.type_name, owner=home)
            body = Body(call, interpreter, call.name, site, caller)
            if home is None:
                homes[call.path] = interpreter
                body.redirect(call.path)
            bodies.append(body)
    return bodies


def _plant(homes: dict[str, nn.Module], paths: Iterable[str]) -> None:
    """Register a module for every path below that of its parent, in the order of the paths."""
    for path in dict.fromkeys(paths):
        for known in _lineage(path):
            parent, name = homes[_parent(known)], _field(known)
            if known not in homes:
                homes[known] = nn.Module()
            if name not in parent._modules:
                parent.add_module(name, homes[known])


def _register(
    homes: Mapping[str, nn.Module],
    state: Mapping[str, Attribute],
    specs: Mapping[str, Mapping[TreeSpec, str]],
) -> None:
    for name, attribute in state.items():
        attribute.register(homes[_parent(name)], _field(name))
    for path, names in specs.items():
        for spec, name in names.items():
            setattr(homes[path], name, spec)


def _copy_subgraphs(
    calls: Iterable[ModuleCall], homes: Mapping[str, nn.Module], subgraphs: nn.Module
) -> None:
    for call in calls:
        for item in call.body:
            if isinstance(item, Node) and item.op == "get_attr":
                name = str(item.target)
                setattr(homes[call.path], name, copy.deepcopy(getattr(subgraphs, name)))


def _lineage(path: str) -> list[str]:
    """The modules on the way to a path, itself included: ``a``, ``a.b``, ``a.b.c``."""
    parts = path.split(".") if path else []
    return [".".join(parts[: number + 1]) for number in range(len(parts))]


def _parent(name: str) -> str:
    return name.rpartition(".")[0]


def _field(name: str) -> str:
    return name.rpartition(".")[2]
