"""Rules for reductions over several dimensions, or over one that isn't kept, and LayerNorm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from given import backend as given

aten = torch.ops.aten


def over_last(reduce: Callable[..., Tensor]) -> Callable[..., Any]:
    """Return a rule for a reduction over the last dimensions: over rows, and kept.

    One view merges the dimensions, another restores the shape of the result. Over other dimensions,
    the operator stays as it is, because its loop would add up whole rows, not the elements of one.
    It also stays over all dimensions, because threads couldn't share a single row.

    >>> over_last(torch.sum)(torch.ones(2, 3, 4), [1, 2])
    tensor([12., 12.])
    """

    def rule(x: Tensor, dim: Any, keepdim: bool = False, *, dtype: Any = None) -> Any:
        dims = sorted(each % max(x.dim(), 1) for each in dim or ())
        rest = x.dim() - len(dims)
        is_last = rest > 0 and dims == list(range(rest, x.dim())) != []
        is_the_cores = keepdim and len(dims) == 1
        if not is_last or is_the_cores or dtype not in (None, x.dtype):
            return NotImplemented
        shape = [*x.shape[:rest], *[1] * len(dims) * keepdim]
        return reduce(x.flatten(rest), [-1], True).view(shape)

    return rule


def layer_norm(x: Tensor, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Normalise over the last dimensions, which a view merges for the rule of the core."""
    if len(shape) == 1:
        return given.layer_norm(x, shape, weight, bias, eps)
    rest = x.dim() - len(shape)
    weight, bias = (None if each is None else each.flatten() for each in (weight, bias))
    result, *numbers = given.layer_norm(x.flatten(rest), [math.prod(shape)], weight, bias, eps)
    sizes = (*x.shape[:rest], *[1] * len(shape))
    return result.view(x.shape), *(each.view(sizes) for each in numbers)


RULES: dict[Any, Callable[..., Any]] = given.RULES | {
    aten.native_layer_norm.default: layer_norm,
    aten.sum.dim_IntList: over_last(aten.sum.dim_IntList),
    aten.mean.dim: over_last(aten.mean.dim),
    aten.amax.default: over_last(aten.amax.default),
}
