"""Turn any value into a node argument.

A node holds other nodes, plain data and containers of both, nothing else: it has to be printed
as Python code later. Tensors and modules are not written into the graph, they are fetched from
the root by name, with ``get_attr``. A tensor that has no name yet is given one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from torch.fx import Graph
    from torch.fx.node import Argument


class CreateArg:
    """The part of a tracer that turns values into arguments; stands in front of ``TracerBase``."""

    root: nn.Module
    graph: Graph

    def create_arg(self, a: Any) -> Argument:
        """Return any value that the traced code uses in the form in which a node can hold it.

        | value | argument |
        |---|---|
        | proxy | its node |
        | number, string, dtype, enum, operator, … | itself |
        | tuple, list, dict, slice, range | a new one of the same type, every element converted |
        | named tuple, dataclass | a ``call_function`` node of its class |
        | parameter, buffer, module, tensor attribute | a ``get_attr`` node for its path |
        | any other tensor | a ``get_attr`` node for a new attribute of the root |

        ``super()`` does what needs no model, except for named tuples, which it would turn into
        tuples. Elements are converted by ``self.create_arg`` and nodes made by
        ``self.create_node``, because a subclass may override either.

        Raises:
            NameError: A parameter that the root doesn't hold.
            NotImplementedError: A module that the root doesn't hold, a value of an unknown type.
            RuntimeError: A proxy in the key of a dict.

        In torch: ``Tracer.create_arg``.

        >>> from torch.fx import Tracer
        >>> tracer = type("Mine", (CreateArg, Tracer), {})()
        >>> list(tracer.trace(lambda x: torch.add(x, torch.ones(2))).nodes)
        [x, _tensor_constant0, add, output]
        """
        raise NotImplementedError(
            "create_arg: return any value that the traced code uses in the form in which a node can hold it"
        )

    def path_of_value(self, value: torch.Tensor | nn.Module) -> str | None:
        """Return the path at which the root holds a tensor or a module, or ``None``.

        Args:
            value: What to look for, by identity.

        The paths of tensors are read once per trace, with ``tensor_paths``; constants stored since
        are known too. In the next trace ``self.root`` may be another module, and ``self.graph`` is
        another graph. In torch: ``Tracer.create_arg`` searches all parameters, or all buffers,
        each time.
        """
        raise NotImplementedError(
            "create_arg: return the path at which the root holds a tensor or a module, or ``None``"
        )

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return ``prefix`` with a number behind it that makes it no attribute of the root.

        Args:
            prefix: What the name starts with, such as ``"_tensor_constant"``.

        For each prefix a tracer counts from 0, and goes on where it stopped the last time. In
        torch: ``Tracer.get_fresh_qualname``, where all tracers count together.

        >>> namer = CreateArg()
        >>> namer.root = nn.Module()
        >>> namer.root._tensor_constant0 = torch.ones(1)
        >>> namer.get_fresh_qualname("_tensor_constant")
        '_tensor_constant1'
        """
        raise NotImplementedError(
            "create_arg: return ``prefix`` with a number behind it that makes it no attribute of the root"
        )


def tensor_paths(root: nn.Module) -> dict[torch.Tensor, str]:
    """Return the path of every tensor that a model holds. Tensors are keys by identity.

    Args:
        root: The module at which paths begin.

    A parameter or buffer goes by the first of its names. Any other tensor may lie in the
    ``__dict__`` of a module, and goes by the last.

    >>> model = nn.Sequential(nn.Linear(2, 2))
    >>> model[0].table = torch.zeros(2)
    >>> [*tensor_paths(model).values()]
    ['0.table', '0.weight', '0.bias']
    """
    raise NotImplementedError("create_arg: return the path of every tensor that a model holds")


def has_attribute(module: nn.Module, name: str) -> bool:
    """Return whether a module has an attribute, without a question to the module.

    Args:
        module: What has attributes: in its ``__dict__``, in its tables ``_parameters``,
            ``_buffers`` and ``_modules``, and by its class.
        name: The attribute's name.

    While a trace runs, ``hasattr`` of a module is recorded, as ``getattr`` is.

    >>> layer = nn.Linear(2, 2)
    >>> [has_attribute(layer, name) for name in ("in_features", "weight", "forward", "mean")]
    [True, True, True, False]
    """
    raise NotImplementedError(
        "create_arg: return whether a module has an attribute, without a question to the module"
    )
