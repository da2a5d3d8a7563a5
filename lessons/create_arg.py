"""Lesson 2: turn any value into a node argument.

A node holds other nodes, plain data and containers of both, nothing else: it has to be printed
as Python code later. ``TracerBase`` converts all that needs no model. This lesson adds what a
model adds: tensors and modules are not written into the graph, they are fetched from the root
by name, with ``get_attr``. A tensor that has no name yet is given one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

if TYPE_CHECKING:
    from torch.fx import Graph
    from torch.fx.node import Argument


class CreateArg:
    """The part of a tracer that turns values into arguments; stands in front of ``TracerBase``."""

    root: nn.Module
    graph: Graph
    # Where on the root each constant lies. A trace begins without: make it at the first constant.
    tensor_attrs: dict[Any, str]

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
        raise NotImplementedError(
            "create_arg: return ``a`` in the form in which a node can hold it"
        )
