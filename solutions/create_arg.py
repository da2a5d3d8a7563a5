"""Turn any value into a node argument.

A node holds other nodes, plain data and containers of both, nothing else: it has to be printed
as Python code later. ``TracerBase`` converts all that needs no model. This lesson adds what a
model adds: tensors and modules are not written into the graph, they are fetched from the root
by name, with ``get_attr``. A tensor that has no name yet is given one.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from torch.fx.node import Argument


class CreateArg:
    """The part of a tracer that turns values into arguments; stands in front of ``TracerBase``."""

    root: nn.Module

    def create_arg(self, a: Any) -> Argument:
        """Return ``a`` in the form in which a node can hold it.

        | value | argument |
        |---|---|
        | proxy | its node |
        | number, string, dtype, enum, operator, … | itself |
        | tuple, list, dict, slice, range | a new one of the same type, every element converted |
        | named tuple, dataclass | a ``call_function`` node of its class |
        | parameter, buffer, module, tensor attribute | a ``get_attr`` node for its path |
        | any other tensor | a ``get_attr`` node for a new attribute of the root |

        Rows that need no model are ``TracerBase.create_arg``'s work: ``super()`` does them, but for
        named tuples, of which it would make tuples. Elements are converted by ``self.create_arg``
        and nodes made by ``self.create_node``, for a subclass may override either.

        Args:
            a: Any value that the traced code uses as an argument.

        Raises:
            NameError: A parameter that the root doesn't hold.
            NotImplementedError: A module that the root doesn't hold, a value of an unknown type.
            RuntimeError: A proxy in the key of a dict.

        ``self.root`` may be another module at the next call. In torch: ``Tracer.create_arg``.

        >>> from torch.fx import Tracer
        >>> tracer = type("Mine", (CreateArg, Tracer), {})()
        >>> list(tracer.trace(lambda x: torch.add(x, torch.ones(2))).nodes)
        [x, _tensor_constant0, add, output]
        """
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            args = tuple(self.create_arg(element) for element in a)
            return self.create_node("call_function", type(a), args, {})  # type: ignore[attr-defined]
        path = path_of_value(self.root, a) if isinstance(a, torch.Tensor | nn.Module) else None
        if path is None and isinstance(a, nn.Parameter):
            raise NameError(
                f"a parameter of shape {tuple(a.shape)} is not a member of the "
                f"{type(self.root).__name__} being traced: register it there, "
                "or pass `.detach()` of it, which is a constant"
            )
        if path is None and isinstance(a, torch.Tensor):
            path = self.get_fresh_qualname("_tensor_constant")
            setattr(self.root, path, a)
        if path is None:
            return super().create_arg(a)  # type: ignore[misc]  # TracerBase's
        return self.create_node("get_attr", path, (), {})  # type: ignore[attr-defined]

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return the first of ``prefix0``, ``prefix1``, … that is no attribute of the root.

        Args:
            prefix: What the name starts with, such as ``"_tensor_constant"``.

        In torch: ``Tracer.get_fresh_qualname``, where all tracers count together.

        >>> namer = CreateArg()
        >>> namer.root = nn.Module()
        >>> namer.root._tensor_constant0 = torch.ones(1)
        >>> namer.get_fresh_qualname("_tensor_constant")
        '_tensor_constant1'
        """
        taken, number = attribute_names(self.root), 0
        while (name := f"{prefix}{number}") in taken:
            number += 1
        return name


def path_of_value(root: nn.Module, value: object) -> str | None:
    """Return the path at which a model holds a tensor or a module, or ``None``.

    Args:
        root: The module at which paths begin.
        value: What to look for, by identity: ``==`` on tensors is elementwise. What is neither a
            tensor nor a module has no path.

    A parameter, buffer or module goes by the first of its names. Any other tensor may lie in the
    ``__dict__`` of a module.

    >>> model = nn.Sequential(nn.Linear(2, 2))
    >>> path_of_value(model, model[0].bias), path_of_value(model, torch.zeros(2))
    ('0.bias', None)
    """
    if not isinstance(value, torch.Tensor | nn.Module):
        return None
    registered = (root.named_parameters(), root.named_buffers(), root.named_modules())
    for path, held in chain(*registered):
        if held is value:
            return path
    for owner, module in root.named_modules():
        for name, held in vars(module).items():
            if held is value:
                return f"{owner}.{name}" if owner else name
    return None


def attribute_names(module: nn.Module) -> set[str]:
    """Return the names of all attributes of a module, and ask it for none of them.

    Args:
        module: What has attributes: in its ``__dict__``, in its tables ``_parameters``,
            ``_buffers`` and ``_modules``, and by its class.

    While a trace runs, ``hasattr`` of a module is recorded, as ``getattr`` is.

    >>> names = attribute_names(nn.Linear(2, 2))
    >>> [name in names for name in ("in_features", "weight", "forward", "mean")]
    [True, True, True, False]
    """
    tables = (vars(module), module._parameters, module._buffers, module._modules)
    return {*dir(type(module)), *chain(*tables)}
