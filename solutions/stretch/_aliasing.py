"""What the schema of an operator says of memory: whose memory a result has, and who wrote it."""

from __future__ import annotations

from typing import Any

import torch


def shows_its_input(target: Any) -> bool:
    """Return whether a result of a function has the memory of its first argument.

    Then it is a view, or the argument itself after a write. Only operators have a schema.

    >>> aten = torch.ops.aten
    >>> [shows_its_input(each.default) for each in (aten.t, aten.relu_, aten.relu)]
    [True, True, False]
    """
    # The schema of the first one doesn't say so.
    return target is torch.ops.aten._unsafe_view.default or bool(_aliases(target))


def writes_its_result(target: Any) -> bool:
    """Return whether a result of a function is an argument that the function wrote to.

    >>> aten = torch.ops.aten
    >>> [writes_its_result(each.default) for each in (aten.t, aten.relu_, aten.relu)]
    [False, True, False]
    """
    return any(each.is_write for each in _aliases(target))


def _aliases(target: Any) -> list[Any]:
    """Return what the schema says of each result that has the memory of an argument."""
    results = getattr(getattr(target, "_schema", None), "returns", ())
    return [each.alias_info for each in results if each.alias_info is not None]
