"""Unlike the core: each path is checked before it is handed out.

What the core has read may be out of date. Here a remembered path counts only if it leads to the
module right now; otherwise the tree is read again. So a module that was registered late, moved or
removed gets the right answer, and a lookup still takes as long in a large model as in a small one.

The tree is read by identity. ``named_modules()`` keeps what it has met in a set: it skips modules
that compare equal to others, and fails where a class with its own ``__eq__`` has no hash.

Modules hold parameters and buffers in tables like the one for modules. So ``registered_path``
finds these as well, for ``create_arg`` and ``tracer``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import path_of_module as core

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn


class PathOfModule(core.PathOfModule):
    """The core's class, right even about a model that changes."""

    def path_of_module(self, mod: nn.Module) -> str:
        """Return the dotted path that leads from the root to a module right now.

        Args:
            mod: A module somewhere below ``self.root``, or the root itself.

        Raises:
            NameError: The root doesn't hold this module. The message names the classes of both.

        In torch, ``Tracer.path_of_module`` knows during a trace only what was registered before.

        >>> from torch import nn
        >>> namer = PathOfModule()
        >>> namer.root = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        >>> first, second = namer.root
        >>> namer.path_of_module(second)
        '1'
        >>> namer.root[0], namer.root[1] = second, first
        >>> namer.path_of_module(second)
        '0'
        >>> namer.path_of_module(nn.Tanh())
        Traceback (most recent call last):
            ...
        NameError: this Tanh is not a submodule of the Sequential being traced: register it there
        """
        self._root_and_paths = self.root, checked_paths(self, mod, "_modules")
        return super().path_of_module(mod)


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
    root, tables = getattr(tracer, "_root_and_tables", (None, {}))
    if root is not tracer.root:
        root, tables = tracer._root_and_tables = tracer.root, {}
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
