"""Lesson 2: turn any value into a node argument.

A node holds other nodes, plain data and containers of both, nothing else: it has to be printed
as Python code later. ``TracerBase`` converts all that needs no model. This lesson adds what a
model adds: tensors and modules are not written into the graph, they are fetched from the root
by name, with ``get_attr``. A tensor that has no name yet is given one.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._C import ScriptObject
from torch._library.fake_class_registry import FakeScriptObject
from torch.fx import Proxy
from torch.fx._symbolic_trace import _proxyable_classes
from torch.utils._pytree import TreeSpec

from ._paths import join, registered_path, value_at
from ._torch import is_opaque_by_reference

if TYPE_CHECKING:
    from torch.fx import Graph, Node
    from torch.fx.node import Argument

# Constants are values that a graph can only fetch. Each kind is stored under a prefix of its own.
_CONSTANT_PREFIXES: dict[type, str] = {
    torch.Tensor: "_tensor_constant",
    ScriptObject: "_torchbind_obj",
    FakeScriptObject: "_torchbind_obj",
    TreeSpec: "_tree_spec_constant",
}
_CONSTANTS = tuple(_CONSTANT_PREFIXES)

# What most arguments are, and what TracerBase settles without the model.
_PLAIN = frozenset(
    {type(None), bool, int, float, str, list, dict, slice, torch.dtype, torch.device}
)


class CreateArg:
    """The part of a tracer that turns values into arguments; stands in front of ``TracerBase``."""

    root: nn.Module
    graph: Graph
    # Where on the root each constant lies. A trace begins without: make it at the first constant.
    tensor_attrs: dict[Any, str]
    # The root and graph that tensor_attrs and _next_number speak of.
    _trace: tuple[nn.Module | None, Graph | None] = (None, None)
    _next_number: defaultdict[str, int]

    def create_arg(self, a: Any) -> Argument:
        """Return ``a`` in the form in which a node can hold it.

        Args:
            a: Any value that the traced code uses as an argument.

        Returns:
            What stands for it in the graph:

            ===================================  ================================================
            value                                argument
            ===================================  ================================================
            proxy                                its node
            number, string, dtype, enum, op, ..  itself
            tuple, list, dict, slice, range      the same container, every element converted
            named tuple                          a ``call_function`` node of its class
            parameter, buffer, module            a ``get_attr`` node for its path below the root
            any other tensor                     a ``get_attr`` node for the attribute it is in
                                                 (the last of several paths), or for a new
                                                 ``_tensor_constantN`` of the root
            script object, ``TreeSpec``, opaque  likewise, each with a prefix of its own
            ``ProxyableClassMeta`` object        a ``get_attr`` node for a new attribute
            ===================================  ================================================

            A constant is stored once, however often it is used, and never in the place of another
            attribute.

            Elements are converted by ``self.create_arg``, for a subclass may know more kinds of
            value. All rows that need no model are ``TracerBase.create_arg``'s work: ``super()``
            does them.

        Raises:
            NameError: A parameter that the root doesn't hold; the message names its shape and the
                root's class.
            RuntimeError: A proxy in the key of a dict.
            NotImplementedError: A value of a type that no graph can hold; the message names the
                type.

        Tensors are compared by identity; ``==`` on them is elementwise. A scan of all parameters
        a call is a right answer, and a slow one. In torch: ``torch.fx.Tracer.create_arg``.

        >>> from torch.fx import Tracer
        >>> class Mine(CreateArg, Tracer):
        ...     pass
        >>> def f(x):
        ...     return torch.add(x, torch.ones(2), alpha=3)
        >>> for node in Mine().trace(f).nodes:
        ...     print(node.op, node.args, dict(node.kwargs))
        placeholder () {}
        get_attr () {}
        call_function (x, _tensor_constant0) {'alpha': 3}
        output (add,) {}
        """
        if isinstance(a, Proxy):
            return a.node
        if type(a) is tuple:
            return tuple([self.create_arg(element) for element in a])
        if type(a) in _PLAIN:
            return super().create_arg(a)  # type: ignore[misc]  # TracerBase's
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self._node("call_function", type(a), tuple([self.create_arg(v) for v in a]))
        path = self._path_of_value(a)
        if path is not None:
            return self._node("get_attr", path)
        return super().create_arg(a)  # type: ignore[misc]

    def get_fresh_qualname(self, prefix: str) -> str:  # reference only
        """Return a name that the root doesn't have yet: the prefix and the lowest free number.

        Args:
            prefix: What the name starts with, such as ``"_tensor_constant"``.

        Numbers start at 0 for each root. In torch: ``torch.fx.Tracer.get_fresh_qualname``, where
        all tracers count together.

        >>> from torch.fx import Graph
        >>> namer = CreateArg()
        >>> namer.root, namer.graph = nn.Module(), Graph()
        >>> namer.root._tensor_constant0 = torch.ones(1)
        >>> namer.get_fresh_qualname("_tensor_constant")
        '_tensor_constant1'
        """
        self._begin_trace()
        while self._is_taken(name := f"{prefix}{self._next_number[prefix]}"):
            self._next_number[prefix] += 1
        return name

    def _path_of_value(self, a: Any) -> str | None:
        """Return the path under which the root holds ``a``, once a constant is stored there."""
        if isinstance(a, nn.Parameter):
            path = registered_path(self, a, "_parameters")
            if path is None:
                raise NameError(
                    f"a parameter of shape {tuple(a.shape)} is not a member of the "
                    f"{type(self.root).__name__} being traced: register it there, "
                    "or pass `.detach()` of it, which is a constant"
                )
            return path
        if isinstance(a, nn.Module):
            return registered_path(self, a, "_modules")
        if (
            isinstance(a, torch.Tensor)
            and (path := registered_path(self, a, "_buffers")) is not None
        ):
            return path
        if isinstance(a, _CONSTANTS) or is_opaque_by_reference(type(a)):
            return self._path_of_constant(a)
        if type(a) in _proxyable_classes:
            return self._store(a, f"_{type(a).__name__}_constant_")
        return None

    def _path_of_constant(self, a: Any) -> str:
        self._begin_trace()
        path = self.tensor_attrs.get(a)
        if path is None or not self._still_holds(path, a):
            kinds = (prefix for kind, prefix in _CONSTANT_PREFIXES.items() if isinstance(a, kind))
            path = self.tensor_attrs[a] = self._store(a, next(kinds, "_opaque_obj"))
        return path

    def _store(self, a: Any, prefix: str) -> str:
        name = self.get_fresh_qualname(prefix)
        setattr(self.root, name, a)
        return name

    def _begin_trace(self) -> None:
        """Learn the paths of the root's constants when a root or a graph is new."""
        root, graph = self._trace
        if root is not self.root or graph is not self.graph:
            self._trace = self.root, self.graph
            self.tensor_attrs = _tensor_attributes(self.root)
            self._next_number = defaultdict(int)

    def _still_holds(self, path: str, a: Any) -> bool:
        # forward may have replaced the attribute; equal will do for all constants but tensors
        held = value_at(self.root, path, "__dict__")
        return held is a or (not isinstance(a, torch.Tensor) and held == a)

    def _is_taken(self, name: str) -> bool:
        # hasattr would ask the patched __getattr__, which records what it is asked for
        root = self.root
        tables = (vars(root), root._parameters, root._buffers, root._modules)
        return any(name in table for table in tables) or hasattr(type(root), name)

    def _node(self, op: str, target: Any, args: tuple[Any, ...] = ()) -> Node:
        return self.create_node(op, target, args, {})  # type: ignore[attr-defined]  # TracerBase's


def _tensor_attributes(root: nn.Module) -> dict[Any, str]:
    """Return the paths of the constants that modules hold as ordinary attributes.

    The last of several paths wins, as in torch. So the tree is searched from its end, and the
    first path to a module is the only one that is followed.
    """
    found: dict[Any, str] = {}
    seen: set[int] = set()

    def search(module: nn.Module, path: str = "") -> None:
        seen.add(id(module))
        # a child that the module holds twice goes by its first name
        names = {id(child): name for name, child in reversed(module._modules.items())}
        for name, child in reversed(module._modules.items()):
            if child is not None and names[id(child)] == name and id(child) not in seen:
                search(child, join(path, name))
        for name, value in reversed(vars(module).items()):
            if isinstance(value, _CONSTANTS):
                found.setdefault(value, join(path, name))

    search(root)
    return found
