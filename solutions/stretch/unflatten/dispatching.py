"""Step 7: one module for all calls of a module whose call signature is preserved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from torch import nn

from .state import Attribute, Kind
from .tree import Body
from .turns import InterpreterModuleDispatcher


def dispatch(root: nn.Module, bodies: Sequence[Body], state: Mapping[str, Attribute]) -> None:
    """Put one dispatcher where a module with a preserved signature is called several times.

    Whoever asked export to preserve a signature wants to swap the module for another one. So all
    its calls must go to one place: a dispatcher takes the place of the first body, its call
    modules are the bodies in the order of the calls, and every call site calls it. The bodies
    themselves leave the tree.

    Args:
        root: the tree that the bodies are in.
        bodies: callees before callers, and calls of one module in their order. Calls that share
            a module share its place, and are dispatched to it one by one.
        state: everything the modules own. The constants of a module become the dispatcher's.

    Where torch does this: ``UnflattenedModule._dispatch_modules`` in
    ``torch/export/unflatten.py``.
    """
    calls: dict[str, list[Body]] = defaultdict(list)
    for body in bodies:
        calls[body.call.path].append(body)
    for path, of_one_module in calls.items():
        if len(of_one_module) > 1 and any(body.call.signature for body in of_one_module):
            constants = _constants_of(path, state)
            modules = [body.module for body in of_one_module]
            _replace(root, of_one_module, InterpreterModuleDispatcher(constants, modules))


def _constants_of(path: str, state: Mapping[str, Attribute]) -> set[str]:
    """The names of the plain attributes that a module owns."""
    owned = (name.rpartition(".") for name, item in state.items() if item.kind is Kind.CONSTANT)
    return {name for owner, _, name in owned if owner == path}


def _replace(
    root: nn.Module, bodies: Sequence[Body], dispatcher: InterpreterModuleDispatcher
) -> None:
    path = bodies[0].call.path
    for name in {body.name for body in bodies} - {path}:
        owner, _, field = name.rpartition(".")
        delattr(root.get_submodule(owner), field)
    owner, _, field = path.rpartition(".")
    setattr(root.get_submodule(owner), field, dispatcher)
    for body in bodies:
        body.redirect(path)
