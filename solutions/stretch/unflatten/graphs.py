"""Unlike the core: branches of higher-order operators, shared modules, dispatchers."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Hashable
from typing import Any

from torch import nn
from torch.fx import Graph

from ... import unflatten as core
from ...unflatten import ModuleCall, graph_key
from .modules import InterpreterModule, InterpreterModuleDispatcher


def lift_annotations(root: ModuleCall) -> None:
    """Move an annotation that all nodes of a call share to the node that makes the call."""
    for call in root.walk():
        nodes = [node for node in call.module.graph.nodes if node.op.startswith("call_")]
        notes = [node.meta.get("custom") for node in nodes]
        if call.path and any(notes) and notes.count(notes[0]) == len(notes):
            call.call_node.meta["custom"] = notes[0]
            for node in nodes:
                del node.meta["custom"]


def attach_branches(root: ModuleCall, branches: nn.Module) -> None:
    """Copy the branches of higher-order operators to the modules whose graphs name them.

    They are submodules of the program's graph module, which the ``get_attr`` nodes of the flat
    graph name. A branch takes a free name where the eager model has an attribute of that name; in
    torch one of the two overwrites the other.
    """
    names = {}
    for call in root.walk():
        read = call.module.graph.find_nodes(op="get_attr")
        for node in list(read)[len(call.state) :]:
            owner = call.module._owner
            name = str(node.target)
            if (owner, name) not in names:
                names[owner, name] = _free_name(owner, name)
                setattr(owner, names[owner, name], copy.deepcopy(getattr(branches, name)))
            node.target = names[owner, name]


def _free_name(owner: nn.Module, name: str) -> str:
    while hasattr(owner, name):
        name += "_"
    return name


def share_equal_bodies(root: ModuleCall) -> None:
    """Let calls of one module that do the same share a module, also across its several names.

    Strict export writes down which names are one module: those have one key on the module stack.
    """
    core.share_equal_bodies(root)
    kept: dict[Hashable, ModuleCall] = {}
    for call in list(root.walk())[:-1]:
        earliest = kept.setdefault((_key(call), graph_key(call.module.graph)), call)
        if earliest.module is not call.module:
            root.module.set_submodule(call.name, earliest.module)
            call.module = earliest.module
    for call in root.walk():
        if call.index:
            call.module._owners = (root.module.get_submodule(call.path),)


def _key(call: ModuleCall) -> str:
    """The key of the call's module on the module stack, without the number of the call."""
    stack = call.first.meta["nn_module_stack"]
    return next(
        key.partition("@")[0]
        for key, (path, _) in stack.items()
        if path.partition("@")[0] == call.path
    )


def dispatch(root: ModuleCall, paths: set[str]) -> None:
    """Put a dispatcher where a module with a preserved signature is called several times.

    A module with a preserved signature can be swapped for another one, so all its calls must go to
    one attribute. There the first module is replaced by a dispatcher, which runs the modules of
    the calls in order, and every call node calls it. The modules are removed from the tree.

    Args:
        root: The outline, with its modules in the tree.
        paths: The modules whose signatures are preserved.

    In torch: ``UnflattenedModule._dispatch_modules``.
    """
    calls: dict[str, list[ModuleCall]] = defaultdict(list)
    for call in root.walk():
        if call.path in paths:
            calls[call.path].append(call)
    for path, repeated in calls.items():
        if len(repeated) > 1:
            for later in {call.name for call in repeated} - {path}:
                core.remove_module(root.module, later)
            modules: list[Any] = [call.module for call in repeated]
            constants = vars(modules[0]).keys() - vars(InterpreterModule(Graph())).keys()
            root.module.set_submodule(path, InterpreterModuleDispatcher(constants, modules))
            for call in repeated:
                call.redirect(0)
