"""Step 5: build the tree of modules, and put every body, and all state, in its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import nn
from torch.fx import Node

from .calls import ModuleCall, relative_to
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
    raise NotImplementedError(
        "unflatten: build the tree of modules below ``module``, with a body for every call and all state"
    )
