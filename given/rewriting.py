"""What the lesson ``rewriting`` gives you."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import nn


def uses_of_modules(gm: Any) -> Counter[int]:
    """Return for each module, by ``id``, how often it is called or one of its attributes is read.

    Args:
        gm: A module with a graph.

    >>> from torch import fx
    >>> gm = fx.symbolic_trace(nn.Sequential(nn.ReLU(), nn.Linear(2, 2)))
    >>> uses_of_modules(gm) == {id(gm.get_submodule("0")): 1, id(gm.get_submodule("1")): 1}
    True
    """
    called = [str(node.target) for node in gm.graph.find_nodes(op="call_module")]
    read = [str(node.target).rpartition(".")[0] for node in gm.graph.find_nodes(op="get_attr")]
    return Counter(id(gm.get_submodule(path)) for path in [*called, *read])


def can_fuse(layer: nn.Module, norm: Any) -> bool:
    """Return whether one layer can compute what a layer and the batch norm after it do.

    It can't if one of them has hooks, or if the batch norm has no running statistics.

    Raises:
        RuntimeError: One of them is in training mode.

    >>> can_fuse(nn.Conv2d(1, 1, 1).eval(), nn.BatchNorm2d(1, track_running_stats=False).eval())
    False
    """
    for each in (layer, norm):
        if each.training:
            kind = type(each).__name__
            raise RuntimeError(f"a {kind} is in training mode: call `model.eval()` before `fuse`")
    hooks = [each._forward_pre_hooks or each._forward_hooks for each in (layer, norm)]
    return not any(hooks) and norm.running_mean is not None
