"""Name a module by its path.

A graph contains no modules, only their paths: the target of a ``call_module`` node is
``"layer1.0.conv2"``. So the first thing that a tracer needs is the path of a given module object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


class PathOfModule:
    """The mixin of a tracer that finds paths; list it before ``TracerBase`` as a base."""

    root: nn.Module
    # The root that was read last, and the path of each of its modules by the module's id.
    _root_and_paths: tuple[nn.Module | None, dict[int, str]] = (None, {})

    def path_of_module(self, mod: nn.Module) -> str:  # steps 1, 2
        """Return the dotted path that leads from the root to a module.

        Two modules are the same only if they are the same object, even if their class has its own
        ``__eq__``.

        Args:
            mod: A module somewhere below ``self.root``, or the root itself.

        Returns:
            The path, such as ``"layer1.0.conv2"``; ``""`` for the root. If several paths lead to
            one module, the first one in the order of ``named_modules()``, which is depth first.

        Raises:
            NameError: The root doesn't hold this module.

        ``self.root`` may be another module at the next call. Leave no notes on the modules.

        In torch: ``torch.fx.Tracer.path_of_module``.

        >>> from torch import nn
        >>> namer = PathOfModule()
        >>> namer.root = nn.Sequential(nn.ReLU(), nn.Sequential(nn.ReLU()))
        >>> namer.path_of_module(namer.root[1][0])
        '1.0'
        >>> namer.path_of_module(namer.root)
        ''
        >>> namer.root[1].append(namer.root[0])  # now it has two paths
        Sequential(
          (0): ReLU()
          (1): ReLU()
        )
        >>> namer.path_of_module(namer.root[1][1])
        '0'
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
