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
        raise NotImplementedError(
            "path_of_module: return the dotted path that leads from the root to a module"
        )
