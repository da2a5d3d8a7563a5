"""What a root holds at a path right now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

# Where a module keeps what is registered, by name, and everything else.
TABLES = ("_modules", "_parameters", "_buffers", "__dict__")


def value_at(root: nn.Module, path: str) -> object:
    """Return what the tree holds at ``path`` right now, or ``None``.

    Args:
        root: Where the path begins, and what the empty path leads to.
        path: A dotted path.

    ``operator.attrgetter`` won't do: while a trace runs, what it reads is recorded.

    >>> from torch import nn
    >>> value_at(nn.Sequential(nn.Linear(2, 2)), "0.in_features")
    2
    """
    value: Any = root
    for name in path.split(".") if path else ():
        tables = (getattr(value, table, {}) for table in TABLES)
        value = next((table[name] for table in tables if name in table), None)
    return value
