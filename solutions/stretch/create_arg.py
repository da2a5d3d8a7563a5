"""Unlike the core: paths are checked, and more kinds of value are constants.

What the core has read may be out of date: ``forward`` may have put something else there. Here a
path counts only if it leads to the value right now. Parameters, buffers and modules that were
registered late are found, too. If there are several paths to a tensor attribute, the last counts,
as in torch.

A list or a dict of a class of its own, such as ``OrderedDict``, keeps its class: a node makes one.
Script objects are constants as well, and so are specs of containers and instances of a
``ProxyableClassMeta`` class. Most arguments are proxies or plain values: they are converted before
anything else is asked.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
from torch import nn
from torch._C import ScriptObject
from torch.fx import Proxy
from torch.fx._symbolic_trace import _proxyable_classes
from torch.utils._pytree import TreeSpec

from given.proxy import call_that_makes

from .. import create_arg as core
from ._paths import module_at, value_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.fx.node import Argument

# Constants that are compared by `==`: the `owner` of a script method is a new object each time.
BY_VALUE = ScriptObject, TreeSpec
CONSTANTS = torch.Tensor, *BY_VALUE

# Where every module holds its children, parameters, buffers and hooks: no constants are there.
OF_EVERY_MODULE = frozenset(vars(nn.Module()))

# The types of most arguments besides proxies: no model is needed for them.
PLAIN = frozenset(
    {type(None), bool, int, float, str, tuple, list, dict, slice, torch.dtype, torch.device}
)


class CreateArg(core.CreateArg):
    """The core's class, right even about a model that changes."""

    def create_arg(self, a: Any) -> Argument:
        """Return ``a`` in the form in which a node can hold it.

        >>> from torch.fx import Graph, Tracer
        >>> tracer = type("Mine", (CreateArg, Tracer), {})()
        >>> tracer.root, tracer.graph = nn.Linear(2, 2), Graph()
        >>> profiler = torch.classes.profiling._ScriptProfile()
        >>> tracer.create_arg([tracer.root.bias, profiler, profiler])
        [bias, _torchbind_obj0, _torchbind_obj0_1]
        """
        if isinstance(a, Proxy):
            return a.node
        if type(a) in PLAIN:
            return super(core.CreateArg, self).create_arg(a)  # type: ignore[misc]  # TracerBase's
        prefix = prefix_of(a)
        if prefix is None:
            return self.create_container(a)
        path = self.path_of_value(a)
        if path is None:
            path = self._tensor_paths[a] = self.get_fresh_qualname(prefix)
            setattr(self.root, path, a)
        return self.create_node("get_attr", path, (), {})  # type: ignore[attr-defined]

    def create_container(self, a: Any) -> Argument:
        """Return a node that makes ``a``, if its class is one that a plain argument would lose."""
        call = call_that_makes(a)
        if call is None:
            return super().create_arg(a)
        args, kwargs = map(self.create_arg, call)
        # torch takes OrderedDict for an operator, and its check can't read that one's schema.
        with patch.object(self, "check_mutable_operations", False, create=True):
            return self.create_node("call_function", type(a), args, kwargs)  # type: ignore[attr-defined]

    def path_of_value(self, value: Any) -> str | None:
        """Return the path at which the root holds a value right now, or ``None``.

        If the known path is missing or wrong, what the root has registered is read again.
        """
        if self._graph_of_paths is not self.graph:
            named = chain(self.root.named_parameters(), self.root.named_buffers())
            self._attribute_paths = attribute_paths(self.root)
            self._tensor_paths = self._attribute_paths | {held: path for path, held in named}
            self._module_paths = {id(held): path for path, held in self.root.named_modules()}
            self._graph_of_paths = self.graph
        path = super().path_of_value(value)
        held_at = module_at if isinstance(value, nn.Module) else value_at
        if path is not None:
            held = held_at(self.root, path)
            if held is value or (isinstance(value, BY_VALUE) and held == value):
                return path
        return next((path for path, held in registered(self.root, value) if held is value), None)

    def keep_what_was_read(self) -> None:
        """Store a tensor as a constant if it was an attribute, and ``forward`` has set another."""
        if self._graph_of_paths is not self.graph:
            return  # none was read
        for value, path in self._attribute_paths.items():
            if not isinstance(value, torch.Tensor) or value_at(self.root, path) is value:
                continue
            nodes = self.graph.find_nodes(op="get_attr", target=path)
            if nodes:
                constant = self.get_fresh_qualname("_tensor_constant")
                setattr(self.root, constant, value)
            for node in nodes:
                node.target = constant


def registered(root: nn.Module, value: Any) -> Iterator[tuple[str, Any]]:
    """Return the modules, parameters or buffers of a root, whichever ``value`` is, with paths."""
    if isinstance(value, nn.Module):
        return root.named_modules()
    return root.named_parameters() if isinstance(value, nn.Parameter) else root.named_buffers()


def attribute_paths(module: nn.Module, prefix: str = "") -> dict[Any, str]:
    """Return the path of each constant that modules hold as ordinary attributes.

    If there are several paths to one, the last counts, as in torch.
    """
    paths = {
        held: prefix + name
        for name, held in vars(module).items()
        if name not in OF_EVERY_MODULE and isinstance(held, CONSTANTS)
    }
    for name, child in module.named_children():
        paths |= attribute_paths(child, f"{prefix}{name}.")
    return paths


def prefix_of(a: Any) -> str | None:
    """Return the prefix of the name under which a constant is stored.

    ``None`` for a tensor, which is the core's, and for a value that isn't a constant.
    """
    if type(a) in _proxyable_classes:
        return f"_{type(a).__name__}_constant_"
    if isinstance(a, TreeSpec):
        return "_tree_spec_constant"
    return "_torchbind_obj" if isinstance(a, ScriptObject) else None
