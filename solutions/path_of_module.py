"""Name a module by its path.

A graph has no pointers into the model, only names: a ``call_module`` node says
``"layer1.0.conv2"``. So the first thing a tracer needs is the way back, from a module object to
its path below the root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


class PathOfModule:
    """The part of a tracer that knows modules by name; stands in front of ``TracerBase``."""

    root: nn.Module
    # The root that was read last, and the path of each of its modules by the module's id.
    _root_and_paths: tuple[nn.Module | None, dict[int, str]] = (None, {})

    def path_of_module(self, mod: nn.Module) -> str:
        """Return the dotted path that leads from the root to a module.

        Args:
            mod: A module somewhere below ``self.root``, or the root itself.

        Returns:
            The path, such as ``"layer1.0.conv2"``; ``""`` for the root. Modules are told apart by
            identity: equal is not the same. Where several paths lead to one module, the first one
            in the order of ``named_modules()``, which finishes a branch before the next one.

        Raises:
            NameError: The root doesn't hold this module.

        At the next call ``self.root`` may be another module. Nothing is written on the modules.

        In torch: ``torch.fx.Tracer.path_of_module``.

        >>> from torch import nn
        >>> namer = PathOfModule()
        >>> namer.root = nn.Sequential(nn.ReLU(), nn.Sequential(nn.ReLU()))
        >>> namer.path_of_module(namer.root[1][0])
        '1.0'
        >>> namer.path_of_module(namer.root)
        ''
        """
        root, paths = self._root_and_paths
        if root is not self.root:
            paths = {id(module): path for path, module in self.root.named_modules()}
            self._root_and_paths = self.root, paths
        if id(mod) not in paths:
            raise NameError(
                f"this {type(mod).__name__} is not a submodule of the {type(self.root).__name__} "
                "being traced: register it there"
            )
        return paths[id(mod)]
