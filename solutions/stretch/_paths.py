"""Paths below the root of a tracer, found by identity and checked: for all that names values.

Modules keep modules, parameters and buffers by name, in a table for each: ``_modules``,
``_parameters`` and ``_buffers``. Each table of the tree is read when it is first asked for, and
again when what was read turns out to be out of date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn


def registered_path(tracer: Any, value: object, table: str) -> str | None:
    """Return the first path at which the tracer's root holds this very value, or ``None``.

    Args:
        tracer: What has the ``root``. It remembers the paths.
        value: The module, parameter or buffer to find.
        table: The attribute in which modules keep such values by name: ``"_modules"``,
            ``"_parameters"`` or ``"_buffers"``.

    In torch, ``Tracer.create_arg`` scans all parameters, or all buffers, of the model each time.

    >>> from types import SimpleNamespace
    >>> from torch import nn
    >>> tracer = SimpleNamespace(root=nn.Sequential(nn.Linear(2, 2)))
    >>> registered_path(tracer, tracer.root[0].bias, "_parameters")
    '0.bias'
    """
    return checked_paths(tracer, value, table).get(id(value))


def checked_paths(tracer: Any, value: object, table: str) -> dict[int, str]:
    """Return the paths of a table by ``id``, read again unless they are right about the value."""
    root: nn.Module | None
    tables: dict[str, dict[int, str]]
    root, tables = getattr(tracer, "_root_and_tables", (None, {}))
    if root is not tracer.root:
        tracer._root_and_tables = root, tables = tracer.root, {}
    path = tables.get(table, {}).get(id(value))
    if path is None or value_at(root, path, table) is not value:
        tables[table] = paths_by_id(root, table)
    return tables[table]


def value_at(root: nn.Module, path: str, table: str) -> object:
    """Return what the tree holds at ``path`` right now, or ``None``.

    Args:
        root: Where the path begins, and what the empty path leads to.
        path: A dotted path.
        table: The attribute of the owning module in which the last name is looked up.

    No ``getattr`` of a module by name: while a trace runs, that would be recorded.
    """
    if not path:
        return root
    *owners, name = path.split(".")
    module: Any = root
    for owner in owners:
        module = getattr(module, "_modules", {}).get(owner)
    return getattr(module, table, {}).get(name)


def paths_by_id(root: nn.Module, table: str) -> dict[int, str]:
    """Return the first path of all that a table holds, anywhere in the tree, by ``id``."""
    if table == "_modules":
        return {id(module): path for path, module in named_modules(root)}
    paths: dict[int, str] = {}
    for owner, module in named_modules(root):
        for name, value in getattr(module, table).items():
            paths.setdefault(id(value), join(owner, name))
    return paths


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
