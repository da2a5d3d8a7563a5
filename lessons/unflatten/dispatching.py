"""Step 7: one module for all calls of a module whose call signature is preserved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import nn

from .state import Attribute
from .tree import Body


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
    raise NotImplementedError(
        "unflatten: put one dispatcher where a module with a preserved signature is called several times"
    )
