"""Lesson 1: name a module by its path.

A graph has no pointers into the model, only names: a ``call_module`` node says
``"layer1.0.conv2"``. So the first thing a tracer needs is the way back, from a module object to
its path below the root.

Three things make that harder than one loop over ``named_modules()``. Two modules may compare
equal and still be two modules. A model may grow while it is traced. And a loop per call is a
loop per node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._paths import path_index

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
            The path, such as ``"layer1.0.conv2"``; ``""`` for the root; the first one registered
            where several lead to the same module. Equal is not the same: only this very object
            counts. A module registered a moment ago is found as well.

        Raises:
            NameError: The root doesn't hold this module. The message names the classes of both.

        A scan of all modules a call is a right answer. An index by identity, built once a root,
        makes the call constant time. In torch: ``torch.fx.Tracer.path_of_module``.

        >>> from torch import nn
        >>> namer = PathOfModule()
        >>> namer.root = nn.Sequential(nn.ReLU(), nn.Sequential(nn.ReLU()))
        >>> namer.path_of_module(namer.root[1][0])
        '1.0'
        >>> namer.path_of_module(namer.root)
        ''
        >>> namer.path_of_module(nn.Tanh())
        Traceback (most recent call last):
            ...
        NameError: this Tanh is not a submodule of the Sequential being traced: register it there
        """
        path = path_index(self).path_of(mod, "_modules")
        if path is None:
            raise NameError(
                f"this {type(mod).__name__} is not a submodule of the {type(self.root).__name__} "
                "being traced: register it there"
            )
        return path
