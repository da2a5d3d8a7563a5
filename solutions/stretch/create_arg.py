"""Unlike the core: paths are checked, and more kinds of value are constants.

What the core has read may be out of date: ``forward`` may have put something else there. Here a
path counts only if it leads to the value right now. Parameters, buffers and modules that were
registered late are found, too.

Script objects, pytree specifications and opaque objects are constants as well, and so are
instances of a ``ProxyableClassMeta`` class. Of several paths to a tensor attribute the last is
taken, as in torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._C import ScriptObject
from torch._library.fake_class_registry import FakeScriptObject
from torch.fx import Proxy
from torch.fx._symbolic_trace import _proxyable_classes
from torch.utils._pytree import TreeSpec

from .. import create_arg as core
from ..create_arg import has_attribute, tensor_paths
from ._paths import module_at, value_at
from ._torch import is_opaque_by_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.fx.node import Argument

__all__ = ["CreateArg", "has_attribute", "tensor_paths"]

# How the name of a stored constant begins that isn't a tensor, by its type.
PREFIXES: dict[type, str] = {
    ScriptObject: "_torchbind_obj",
    FakeScriptObject: "_torchbind_obj",
    TreeSpec: "_tree_spec_constant",
}
CONSTANTS = (torch.Tensor, *PREFIXES)

# What most arguments are besides proxies: no model is needed for them.
PLAIN = frozenset(
    {type(None), bool, int, float, str, tuple, list, dict, slice, torch.dtype, torch.device}
)


class CreateArg(core.CreateArg):
    """The core's class, right even about a model that changes."""

    def create_arg(self, a: Any) -> Argument:
        """Return ``a`` in the form in which a node can hold it.

        Args:
            a: Any value that the traced code uses as an argument.

        Raises:
            NameError: A parameter that the root doesn't hold; the message names its shape and the
                root's class.

        In torch, ``Tracer.create_arg`` goes through all parameters, or all buffers, each time.

        >>> from torch.fx import Graph, Tracer
        >>> from torch.utils._pytree import tree_structure
        >>> tracer = type("Mine", (CreateArg, Tracer), {})()
        >>> tracer.root, tracer.graph = nn.Linear(2, 2), Graph()
        >>> tracer.create_arg([tracer.root.bias, tree_structure([1]), tree_structure([1])])
        [bias, _tree_spec_constant0, _tree_spec_constant0_1]
        """
        if isinstance(a, Proxy):
            return a.node
        if type(a) in PLAIN:
            return super(core.CreateArg, self).create_arg(a)  # type: ignore[misc]  # TracerBase's
        prefix = prefix_of(a)
        if prefix is None:
            return super().create_arg(a)
        path = self.path_of_value(a)
        if path is None:
            path = self._tensor_paths[a] = self.get_fresh_qualname(prefix)
            setattr(self.root, path, a)
        return self.create_node("get_attr", path, (), {})  # type: ignore[attr-defined]

    def path_of_value(self, value: Any) -> str | None:
        """Return the path at which the root holds a value right now, or ``None``.

        Args:
            value: What to look for, by identity. An equal ``TreeSpec`` will do.

        If the known path is missing or wrong, what the root has registered is read again.
        """
        if self._graph_of_paths is not self.graph:
            self._graph_of_paths = self.graph
            self._tensor_paths = constant_paths(self.root) | core.registered_paths(self.root)
            self._module_paths = {id(held): path for path, held in self.root.named_modules()}
        path = super().path_of_value(value)
        held_at = module_at if isinstance(value, nn.Module) else value_at
        if isinstance(value, TreeSpec) or (path and held_at(self.root, path) is value):
            return path
        return next((path for path, held in registered(self.root, value) if held is value), None)


def registered(root: nn.Module, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the modules, parameters or buffers of a root, as ``value`` is one, and their paths."""
    if isinstance(value, nn.Module):
        return root.named_modules()
    return root.named_parameters() if isinstance(value, nn.Parameter) else root.named_buffers()


def prefix_of(a: Any) -> str | None:
    """Return how the name begins under which a constant is stored, or ``None`` if it is none."""
    if type(a) in _proxyable_classes:
        return f"_{type(a).__name__}_constant_"
    prefixes = (prefix for kind, prefix in PREFIXES.items() if isinstance(a, kind))
    return next(prefixes, "_opaque_obj" if is_opaque_by_reference(type(a)) else None)


def constant_paths(
    module: nn.Module, prefix: str = "", above: tuple[int, ...] = ()
) -> dict[Any, str]:
    """Return the last path of each constant that modules hold as ordinary attributes, as in torch.

    Args:
        module: The module to search, with those inside it.
        prefix: Its path and a dot; empty for the root.
        above: The modules on the way to it, by ``id``: one that is inside itself is not entered.
    """
    paths = {
        value: prefix + name for name, value in vars(module).items() if isinstance(value, CONSTANTS)
    }
    above = (*above, id(module))
    for name, child in module.named_children():
        if id(child) not in above:
            paths |= constant_paths(child, f"{prefix}{name}.", above)
    return paths
