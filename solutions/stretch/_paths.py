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
        tables = (getattr(value, table, {}) for table in ("__dict__", *TABLES))
        value = next((table[name] for table in tables if name in table), None)
    return value


TABLES = ("_parameters", "_buffers", "_modules")


def named_values(root: nn.Module, table: str) -> Iterator[tuple[str, Any]]:
    """Yield all that the modules of a tree hold in one of their tables, with paths.

    >>> from torch import nn
    >>> [path for path, _ in named_values(nn.Sequential(nn.Linear(2, 2)), "_parameters")]
    ['0.weight', '0.bias']
    """
    for owner, module in named_modules(root):
        for name, value in getattr(module, table).items():
            yield join(owner, name), value


def named_modules(root: nn.Module, last: bool = False) -> Iterator[tuple[str, nn.Module]]:
    """Yield each module of the tree, told apart by identity, with its first path.

    Args:
        root: Where paths begin.
        last: Whether to begin at the tree's end, so that it is the last path.

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
            names: dict[int, str] = {}
            for name, child in module._modules.items():
                names.setdefault(id(child), name)
            children = [(join(path, name), module._modules[name]) for name in names.values()]
            ahead += children if last else reversed(children)


def join(owner: str, name: str) -> str:
    """Return the path of ``name`` inside ``owner``.

    >>> join("layer1.0", "conv2"), join("", "layer1")
    ('layer1.0.conv2', 'layer1')
    """
    return f"{owner}.{name}" if owner else name
