"""Step 6: let calls that do the same share one module."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from .tree import Body


def share_equal_bodies(root: nn.Module, bodies: Sequence[Body]) -> None:
    """Let the calls of one module whose bodies are equal be done by one of them.

    Two bodies are equal if their graphs do the same: node for node the same operation, function,
    attribute or submodule, with the same arguments. Names of nodes and metadata don't count. The
    earliest body stays; the others leave the tree, and their call sites call it. The calls inside
    a module come first, so that bodies which differed only in those become equal, too.

    Args:
        root: the tree that the bodies are in.
        bodies: callees before callers. Those that are dropped get the module and the name of the
            one that stays.

    Where torch does this: ``_deduplicate_modules`` in ``torch/export/unflatten.py``, which takes
    calls of different submodules for the same, and compares every body with all before it.
    """
    raise NotImplementedError(
        "unflatten: let the calls of one module whose bodies are equal be done by one of them"
    )
