"""Paths below a root, found by identity: what the first, second and fourth lesson stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn


def module_paths(root: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return every module of the tree once, with the first path that leads to it.

    Args:
        root: The top of the tree. Its own path is ``""``.

    Returns:
        Pairs ``(path, module)``, parents before children, in the order of registration. Modules
        are told apart by identity, so a class with its own ``__eq__``, hashable or not, does no
        harm.

    In torch this is ``nn.Module.named_modules``, which keeps a set of modules and thus compares
    with ``==``.

    >>> from torch import nn
    >>> shared = nn.ReLU()
    >>> [path for path, _ in module_paths(nn.Sequential(shared, nn.Sequential(shared)))]
    ['', '0', '1']
    """
    found: dict[int, tuple[str, nn.Module]] = {}
    ahead = [("", root)]  # a stack, and no recursion: a tree may be deeper than Python's
    while ahead:
        path, module = ahead.pop()
        if id(module) not in found:
            found[id(module)] = (path, module)
            for name, child in reversed(module._modules.items()):
                if child is not None:
                    ahead.append((join(path, name), child))
    return list(found.values())


def join(owner: str, name: str) -> str:
    """Return the path of ``name`` inside ``owner``.

    >>> join("layer1.0", "conv2"), join("", "layer1")
    ('layer1.0.conv2', 'layer1')
    """
    return f"{owner}.{name}" if owner else name


class PathIndex:
    """The paths below ``root`` of what its modules hold, found by identity in constant time.

    A module keeps what it holds in tables: ``_modules``, ``_parameters``, ``_buffers``. Each
    table of the tree is read once, on first use. A path is handed out only after a look at what
    is there now, so neither a renamed value nor the ``id`` of a dead one can lead astray. What
    isn't found is looked for once more in a fresh reading: it may have been registered since.

    In torch, ``Tracer.submodule_paths`` is such an index for modules. For parameters and buffers
    torch scans the whole model each time.

    >>> from torch import nn
    >>> model = nn.Sequential(nn.Linear(2, 2))
    >>> index = PathIndex(model)
    >>> index.path_of(model[0].bias, "_parameters")
    '0.bias'
    >>> relu = model.append(nn.ReLU())[1]
    >>> index.path_of(relu, "_modules")
    '1'
    """

    def __init__(self, root: nn.Module) -> None:
        self.root = root
        self._paths: dict[str, dict[int, str]] = {}

    def path_of(self, value: object, table: str) -> str | None:
        """Return the first path at which the tree holds ``value``, or ``None``.

        Args:
            value: The module, parameter or buffer to find. Only this very object will do.
            table: Where modules keep such values: ``"_modules"``, ``"_parameters"`` or
                ``"_buffers"``.
        """
        path = self._paths[table].get(id(value)) if table in self._paths else None
        if path is None or self.value_at(path, table) is not value:
            self._paths[table] = self._read(table)
            path = self._paths[table].get(id(value))
        return path

    def value_at(self, path: str, table: str) -> object:
        """Return what the tree holds at ``path`` right now, or ``None`` if that place is empty.

        Args:
            path: A dotted path below the root.
            table: The attribute of the owning module in which the last name is looked up.
        """
        if not path:
            return self.root if table == "_modules" else None
        *owners, name = path.split(".")
        module: Any = self.root
        for owner in owners:
            module = module._modules.get(owner)
            if module is None:
                return None
        return getattr(module, table).get(name)

    def _read(self, table: str) -> dict[int, str]:
        if table == "_modules":
            return {id(module): path for path, module in module_paths(self.root)}
        paths: dict[int, str] = {}
        for owner, module in module_paths(self.root):
            for name, value in getattr(module, table).items():
                paths.setdefault(id(value), join(owner, name))
        return paths


def path_index(tracer: Any) -> PathIndex:
    """Return the index of the tracer's present root, made anew when the root has changed.

    >>> from types import SimpleNamespace
    >>> from torch import nn
    >>> tracer = SimpleNamespace(root=nn.Module())
    >>> path_index(tracer) is path_index(tracer)
    True
    """
    index = getattr(tracer, "_path_index", None)
    if index is None or index.root is not tracer.root:
        index = tracer._path_index = PathIndex(tracer.root)
    return index
