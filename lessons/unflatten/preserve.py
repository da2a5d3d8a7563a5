"""Before settling: calls whose signature is to be preserved take and return nothing else.

``torch.export.export(..., preserve_module_call_signature=...)`` notes how a module was called.
Such a module can be swapped for another one, so whatever crosses its border must be one of its
arguments or results. The flat graph knows no borders, and some values cross it otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch.export.exported_program import ModuleCallSignature
from torch.fx import Graph, Node

from .calls import ModuleCall


def preserve_signatures(
    graph: Graph, signatures: Mapping[str, ModuleCallSignature], written: Mapping[Node, Node]
) -> ModuleCall:
    """Outline a graph, and give the calls that are to keep their signature nothing else to pass.

    A value that crosses the border of such a call, and is neither an argument nor a result, is
    replaced on the far side of the border:

    - the result of an in-place operation by what it wrote to;
    - the new value of a mutated buffer, in a functional graph, by the buffer, into which it is
      written where it is made;
    - anything else (a size that export computes once for all modules, say) by a computation of
      its own.

    Parameters, buffers, constants and the program's inputs may cross as they are.

    Args:
        graph: a flat graph. It is changed as described.
        signatures: by the name of the call.
        written: what ``restore_mutations`` writes back: the last value of each placeholder.

    Returns:
        The outline; the calls named in ``signatures`` have theirs.

    Raises:
        RuntimeError: what crosses the border can't be computed twice, for it is random, or made of
            what is mutated in between.

    Where torch does this: ``_ModuleFrame.remap_input`` and ``_IVals`` in
    ``torch/export/unflatten.py``.
    """
    raise NotImplementedError(
        "unflatten: outline a graph, and give the calls that are to keep their signature nothing else to pass"
    )
