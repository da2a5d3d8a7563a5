"""What the lesson ``code`` gives you: a graph module's buffers stay out of its state."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from torch import nn


def keep_persistence(module: Any, root: nn.Module) -> None:
    """Leave the buffers out of a graph module's state that ``root`` leaves out of its own.

    Args:
        module: A graph module, whose graph reads the buffers.
        root: A module that has them at the same paths.

    In torch: nothing before 2.14, so that such buffers come into the state.
    """
    for node in module.graph.find_nodes(op="get_attr"):
        path, _, name = node.target.rpartition(".")
        owner = attrgetter(path)(root) if path else root
        if name in getattr(owner, "_non_persistent_buffers_set", ()):
            module.get_submodule(path)._non_persistent_buffers_set.add(name)
