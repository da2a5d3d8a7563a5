"""What the lesson ``interpreter`` gives you."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.fx.passes.shape_prop import _extract_tensor_metadata


def describe(a: Any) -> Any:
    """Return a tensor's ``TensorMetadata``, which has its shape; return anything else unchanged.

    >>> import torch
    >>> describe(torch.ones(2, 3)).shape, describe("text")
    (torch.Size([2, 3]), 'text')
    """
    return _extract_tensor_metadata(a) if isinstance(a, Tensor) else a
