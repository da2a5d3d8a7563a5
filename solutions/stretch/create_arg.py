"""Unlike the core: paths are remembered, and more kinds of value are constants.

The core scans the whole model for each tensor. Here parameters, buffers and modules are found in an
index, and constants in a dict, both by identity, both checked at each use: ``forward`` may have put
something else there. So a large model costs no more per tensor than a small one.

Script objects, pytree specifications and opaque objects are constants as well, and so are
instances of a ``ProxyableClassMeta`` class. Of several paths to a tensor attribute the last is
taken, as in torch.
"""

from __future__ import annotations

import operator
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._C import ScriptObject
from torch._library.fake_class_registry import FakeScriptObject
from torch.fx import Proxy
from torch.fx._symbolic_trace import _proxyable_classes
from torch.utils._pytree import TreeSpec

from .. import create_arg as core
from ..create_arg import attribute_names, path_of_value
from ._paths import join, registered_path, value_at
from ._torch import is_opaque_by_reference

if TYPE_CHECKING:
    from torch.fx import Graph
    from torch.fx.node import Argument

__all__ = ["CreateArg", "attribute_names", "path_of_value"]

# How the name of a stored constant begins, by its type.
PREFIXES: dict[type, str] = {
    torch.Tensor: "_tensor_constant",
    ScriptObject: "_torchbind_obj",
    FakeScriptObject: "_torchbind_obj",
    TreeSpec: "_tree_spec_constant",
}
CONSTANTS = tuple(PREFIXES)

# Where modules register what; a parameter is a tensor too, so it comes first.
TABLES = (
    (nn.Parameter, "_parameters"),
    (nn.Module, "_modules"),
    (torch.Tensor, "_buffers"),
)

# What most arguments are besides proxies: no model is needed for them.
PLAIN = frozenset(
    {type(None), bool, int, float, str, tuple, list, dict, slice, torch.dtype, torch.device}
)


class CreateArg(core.CreateArg):
    """The core's class, with a memory."""

    # Where the root holds each constant; torch's tracer has this as well.
    tensor_attrs: dict[Any, str]
    # The root and the graph of which tensor_attrs speaks, and where to go on counting names.
    _trace_of_tensor_attrs: tuple[nn.Module | None, Graph | None] = (None, None)
    _numbers_of_constants: Counter[str]

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
        path = None if type(a) in PLAIN else fetched_path(self, a)
        if path is None:
            return super().create_arg(a)
        return self.create_node("get_attr", path, (), {})  # type: ignore[attr-defined]

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return the first of ``prefix0``, ``prefix1``, … that is no attribute of the root.

        Args:
            prefix: What the name starts with.

        Unlike the core's it goes on counting where it stopped in this trace.
        """
        begin_trace(self)
        taken = attribute_names(self.root)
        while (name := f"{prefix}{self._numbers_of_constants[prefix]}") in taken:
            self._numbers_of_constants[prefix] += 1
        return name


def begin_trace(tracer: CreateArg) -> None:
    """Read the constants that the root holds, if the root or the graph is a new one."""
    trace = tracer.root, getattr(tracer, "graph", None)
    if any(map(operator.is_not, trace, tracer._trace_of_tensor_attrs)):
        tracer._trace_of_tensor_attrs = trace
        tracer.tensor_attrs = attribute_paths(tracer.root)
        tracer._numbers_of_constants = Counter()


def fetched_path(tracer: CreateArg, a: Any) -> str | None:
    """Return the path at which the root holds ``a``, once a constant is stored there."""
    for kind, table in TABLES:
        if isinstance(a, kind):
            path = registered_path(tracer, a, table)
            if path is not None or kind is not torch.Tensor:
                return path
    if isinstance(a, CONSTANTS) or is_opaque_by_reference(type(a)):
        return constant_path(tracer, a)
    if type(a) in _proxyable_classes:
        return stored(tracer, a, f"_{type(a).__name__}_constant_")
    return None


def constant_path(tracer: CreateArg, a: Any) -> str:
    """Return the path of a constant: the one that is known, if it still leads there, or a new one.

    Equal will do for all constants but tensors.
    """
    begin_trace(tracer)
    path = tracer.tensor_attrs.get(a)
    held = None if path is None else value_at(tracer.root, path, "__dict__")
    if path is None or (held is not a and (isinstance(a, torch.Tensor) or held != a)):
        prefixes = (prefix for kind, prefix in PREFIXES.items() if isinstance(a, kind))
        path = tracer.tensor_attrs[a] = stored(tracer, a, next(prefixes, "_opaque_obj"))
    return path


def stored(tracer: CreateArg, a: Any, prefix: str) -> str:
    """Make ``a`` an attribute of the root under a free name, and return the name."""
    name = tracer.get_fresh_qualname(prefix)
    setattr(tracer.root, name, a)
    return name


def attribute_paths(root: nn.Module) -> dict[Any, str]:
    """Return the paths of the constants that modules hold as ordinary attributes.

    Of several paths to a module the last one counts, of several names in one module the first, as
    in torch. So the tree is searched from its end, and each module once.
    """
    found: dict[Any, str] = {}
    met: set[int] = set()

    def search(module: nn.Module, path: str) -> None:
        met.add(id(module))
        names = {id(child): name for name, child in reversed(module._modules.items())}
        for name, child in reversed(module._modules.items()):
            if child is not None and names[id(child)] == name and id(child) not in met:
                search(child, join(path, name))
        for name, value in reversed(vars(module).items()):
            if isinstance(value, CONSTANTS):
                found.setdefault(value, join(path, name))

    search(root, "")
    return found
