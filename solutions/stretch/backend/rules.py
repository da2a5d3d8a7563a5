"""Rules for more reductions: those whose dimension isn't kept, and LayerNorm over several."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ... import backend as core

aten = torch.ops.aten


def kept(reduce: Callable[..., Tensor]) -> Callable[..., Any]:
    """Return a rule for a reduction over the last dimension: keep it, so that a loop can run it.

    A view then takes the dimension away. Over other dimensions the operator stays as it is: its
    loop would add up whole rows, not the elements of one.

    >>> kept(torch.sum)(torch.ones(2, 3), [1])
    tensor([3., 3.])
    """

    def rule(x: Tensor, dim: Any, keepdim: bool = False, *, dtype: Any = None) -> Any:
        is_last = x.dim() > 0 and dim is not None and list(dim) in ([-1], [x.dim() - 1])
        if not is_last or keepdim or dtype not in (None, x.dtype):
            return NotImplemented
        return reduce(x, [-1], True).squeeze(-1)

    return rule


def layer_norm(x: Tensor, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Normalise over the last dimensions, which a view makes one: the core's rule is for one."""
    if len(shape) == 1:
        return core.layer_norm(x, shape, weight, bias, eps)
    rest = x.dim() - len(shape)
    weight, bias = (None if each is None else each.flatten() for each in (weight, bias))
    result, *numbers = core.layer_norm(x.flatten(rest), [math.prod(shape)], weight, bias, eps)
    sizes = (*x.shape[:rest], *[1] * len(shape))
    return result.view(x.shape), *(each.view(sizes) for each in numbers)


RULES: dict[Any, Callable[..., Any]] = core.RULES | {
    aten.native_layer_norm.default: layer_norm,
    aten.sum.dim_IntList: kept(aten.sum.dim_IntList),
    aten.mean.dim: kept(aten.mean.dim),
    aten.amax.default: kept(aten.amax.default),
}
