"""Turn any value into a node argument.

The arguments of a node are other nodes, plain data, and containers of both, because they are
printed as Python code later. A graph contains no tensors and no modules: ``get_attr`` nodes read
them by path from the root, the module being traced. A tensor without a path is stored on it first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from torch.fx.node import Argument

    from .graph import Graph


class CreateArg:
    """A mixin that converts arguments for a tracer; it comes before ``TracerBase`` in its bases."""

    root: nn.Module
    graph: Graph

    def create_arg(self, a: Any) -> Argument:  # steps 1, 2, 3
        """Turn any value that the traced code uses into an argument that a node can hold.

        For ``torch.add(x, self.weight)``, this is called with the proxy and with the parameter.

        | value | argument |
        |---|---|
        | proxy | its node |
        | number, string, dtype, enum, function, … | itself |
        | tuple, list, dict, slice, range | a new one, every element converted |
        | named tuple, dataclass | a ``call_function`` node of its class |
        | parameter, buffer, module, tensor attribute | a ``get_attr`` node for its path |
        | any other tensor | a ``get_attr`` node for a new attribute of the root |

        ``super().create_arg`` handles the rows that don't depend on the model, except named tuples:
        it makes plain tuples of them. Convert elements with ``self.create_arg`` and create nodes
        with ``self.create_node(op, target, args, kwargs)``, because a subclass may override either.
        Each use of a value has a node of its own.

        Raises:
            NameError: ``a`` is a parameter that the root doesn't hold.
            NotImplementedError: ``a`` is another model's module, or of a type that a graph can't
                hold; the error names the type. ``super().create_arg`` raises it.
            RuntimeError: ``a`` is a dict with a proxy in a key, likewise.

        In torch: ``Tracer.create_arg``.

        >>> tracer = type("Mine", (CreateArg, torch.fx.Tracer), {})()
        >>> list(tracer.trace(lambda x: torch.add(x, torch.ones(2))).nodes)
        [x, _tensor_constant0, add, output]
        """
        raise NotImplementedError("create_arg: CreateArg.create_arg")

    def path_of_value(self, value: torch.Tensor | nn.Module) -> str | None:  # steps 2, 3
        """Return the path at which the root holds a tensor or a module, or ``None``.

        Two biases of zeros are equal, and the graph must not confuse them: look for the object.

        Read all paths once per trace, those of tensors with ``tensor_paths``, and add constants
        that are stored later. A new trace has a new ``self.graph``, and perhaps another
        ``self.root``; even the same root may have changed.

        In torch: ``Tracer.create_arg`` searches all parameters, or all buffers, each time.
        """
        raise NotImplementedError("create_arg: CreateArg.path_of_value")

    def get_fresh_qualname(self, prefix: str) -> str:  # step 3
        """Return a name that the root doesn't use yet: ``prefix`` with a number appended.

        Each tracer counts from 0 for each prefix, and remembers the last number, so that the next
        constant doesn't count from 0 again. A name that any attribute of the root has is taken.

        In torch: ``Tracer.get_fresh_qualname``, with one counter for all tracers.

        >>> namer = CreateArg()
        >>> namer.root = nn.Module()
        >>> namer.root._tensor_constant0 = torch.ones(1)
        >>> namer.get_fresh_qualname("_tensor_constant")
        '_tensor_constant1'
        """
        raise NotImplementedError("create_arg: CreateArg.get_fresh_qualname")


def tensor_paths(root: nn.Module) -> dict[torch.Tensor, str]:  # step 2
    """Return the path of every tensor that a model holds. Tensors are keys by identity.

    Parameters and buffers are registered; other tensors are in the ``__dict__`` of each module. If
    a tensor has several paths, a registered one counts, and of these the first.

    >>> model = nn.Sequential(nn.Linear(2, 2))
    >>> model[0].table = torch.zeros(2)
    >>> [*tensor_paths(model).values()]
    ['0.table', '0.weight', '0.bias']
    """
    raise NotImplementedError("create_arg: tensor_paths")


def has_attribute(module: nn.Module, name: str) -> bool:  # step 3
    """Return whether a module has an attribute, without reading it.

    ``hasattr`` won't do: it calls ``nn.Module.__getattr__``. In a trace, the tracer has replaced
    that method with one that records what is read, so the question might add a node. Look where
    attributes are: ``__dict__``, ``_parameters``, ``_buffers``, ``_modules`` and the class.

    >>> layer = nn.Linear(2, 2)
    >>> [has_attribute(layer, name) for name in ("in_features", "weight", "forward", "mean")]
    [True, True, True, False]
    """
    raise NotImplementedError("create_arg: has_attribute")
