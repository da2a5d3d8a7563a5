"""Step 1: read the module calls off the flat graph.

Export writes on every node which modules were running when it was recorded. A call of a module
is therefore a slice of the flat graph, and the calls inside it are slices of that slice.
"""

from __future__ import annotations

from torch.fx import Graph

from .calls import ModuleCall


def outline(graph: Graph) -> ModuleCall:
    """Read the tree of module calls off a flat graph.

    Every node but the placeholders belongs to the innermost call on its ``nn_module_stack``.
    Neighbours whose stacks agree up to some depth lie in one call at that depth.

    Args:
        graph: a flat graph, as ``torch.export`` makes it. It isn't changed.

    Returns:
        The root's call. Its body ends with the ``output`` node.

    Raises:
        RuntimeError: a node has no module stack.

    Where torch does this: ``_ModuleFrame.run_from`` in ``torch/export/unflatten.py``.

    Example:
        >>> import torch
        >>> program = torch.export.export(torch.nn.Sequential(torch.nn.ReLU()), (torch.ones(1),))
        >>> root = outline(program.graph)
        >>> [call.name for call in root.calls], [node.name for node in root.calls[0].body]
        (['0'], ['relu'])
    """
    raise NotImplementedError("unflatten: read the tree of module calls off a flat graph")
