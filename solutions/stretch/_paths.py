"""What a module has at a path."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn


def module_at(root: nn.Module, path: str) -> nn.Module | None:
    """Return the module that the tree holds at ``path`` right now, or ``None``.

    Args:
        root: Where the path begins, and what the empty path leads to.
        path: A dotted path.

    ``get_submodule`` won't do: while a trace runs, what it reads goes to the tracer.

    >>> from torch import nn
    >>> module_at(nn.Sequential(nn.Sequential(nn.ReLU())), "0.0")
    ReLU()
    """
    module: Any = root
    for name in path.split(".") if path else ():
        module = getattr(module, "_modules", {}).get(name)
    return module


def value_at(root: nn.Module, path: str) -> object:
    """Return what a module holds at ``path`` right now besides its submodules, or ``None``.

    >>> from torch import nn
    >>> value_at(nn.Sequential(nn.Linear(2, 2)), "0.in_features")
    2
    """
    owner, _, name = path.rpartition(".")
    module = module_at(root, owner)
    tables = (getattr(module, table, {}) for table in ("_parameters", "_buffers", "__dict__"))
    return next((table[name] for table in tables if name in table), None)


def attribute_at(root: Any, path: str) -> Any:
    """Return the attribute of a module at ``path``, or ``None``; at an empty path, the module.

    >>> from torch import nn
    >>> attribute_at(nn.Sequential(nn.ReLU()), "0.inplace"), attribute_at(nn.ReLU(), "weight")
    (False, None)
    """
    try:
        return attrgetter(path)(root) if path else root
    except AttributeError:
        return None
