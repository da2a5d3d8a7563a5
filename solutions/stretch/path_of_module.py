"""Unlike the core: each path is checked before it is handed out.

What the core has read may be out of date. Here a remembered path counts only if it leads to the
module right now; otherwise the tree is read again. So a module that was registered late, moved or
removed gets the right answer, and a lookup still takes as long in a large model as in a small one.

The tree is read by identity. Left alone, ``named_modules()`` compares modules with ``==``: it skips
those that equal others, and fails where a class with its own ``__eq__`` has no hash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import path_of_module as core
from ._paths import module_at

if TYPE_CHECKING:
    from torch import nn


class PathOfModule(core.PathOfModule):
    """The core's class, right even about a model that changes."""

    def path_of_module(self, mod: nn.Module) -> str:
        """Return the dotted path that leads from the root to a module right now.

        In torch, ``Tracer.path_of_module`` knows only the modules that were registered before the
        trace.

        >>> from torch import nn
        >>> namer = PathOfModule()
        >>> namer.root = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        >>> first, second = namer.root
        >>> namer.path_of_module(second)
        '1'
        >>> namer.root[0], namer.root[1] = second, first
        >>> namer.path_of_module(second)
        '0'
        """
        root, paths = self._root_and_paths
        path = paths.get(id(mod), "")  # an unknown module isn't the root, whose path is ""
        if root is self.root and module_at(root, path) is mod:
            return path
        named = self.root.named_modules(memo=IdentitySet())
        self._root_and_paths = self.root, {id(module): path for path, module in named}
        return super().path_of_module(mod)


class IdentitySet(set[Any]):
    """A set of ids, to be given to ``named_modules`` as what it has met."""

    def add(self, module: nn.Module) -> None:
        super().add(id(module))

    def __contains__(self, module: object) -> bool:
        return super().__contains__(id(module))
