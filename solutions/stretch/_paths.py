"""Where a root holds what right now, told apart by identity, and without a question to the modules.

Modules keep what is registered by name in tables: ``_modules``, ``_parameters`` and ``_buffers``;
everything else is in their ``__dict__``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn


def value_at(root: nn.Module, path: str) -> object:
    """Return what the tree holds at ``path`` right now, or ``None``.

    Args:
        root: Where the path begins, and what the empty path leads to.
        path: A dotted path.

    No ``getattr`` of a module by name: while a trace runs, that would be recorded.

    >>> from torch import nn
    >>> value_at(nn.Sequential(nn.Linear(2, 2)), "0.in_features")
    2
    """
    value: Any = root
    for name in path.split(".") if path else ():
        children = getattr(value, "_modules", {})
        value = children[name] if name in children else attribute(value, name)
    return value


def attribute(module: Any, name: str) -> object:
    """Return what a module holds under a name besides its submodules, or ``None``."""
    tables = (getattr(module, table, {}) for table in ("_parameters", "_buffers", "__dict__"))
    return next((table[name] for table in tables if name in table), None)


def named_modules(root: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield each module of the tree, told apart by identity, with its first path.

    In torch, ``nn.Module.named_modules`` has the same order, and compares with ``==``.

    >>> from torch import nn
    >>> shared = nn.ReLU()
    >>> [path for path, _ in named_modules(nn.Sequential(shared, nn.Sequential(shared)))]
    ['', '0', '1']
    """
    met: set[int] = set()
    ahead: list[tuple[str, nn.Module | None]] = [("", root)]
    while ahead:
        path, module = ahead.pop()
        if module is not None and id(module) not in met:
            met.add(id(module))
            yield path, module
            children = reversed(module._modules.items())
            ahead += [(join(path, name), child) for name, child in children]


def join(owner: str, name: str) -> str:
    """Return the path of ``name`` inside ``owner``.

    >>> join("layer1.0", "conv2"), join("", "layer1")
    ('layer1.0.conv2', 'layer1')
    """
    return f"{owner}.{name}" if owner else name
