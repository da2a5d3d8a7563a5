"""A signature becomes placeholders.

To record a function one has to call it, and to call it one needs arguments. They are proxies,
and each stands for a ``placeholder`` node: one for every name in the signature. ``*args`` is
the odd one. It gets a single proxy, so the function has to be called as if its ``*args`` were
an ordinary argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn
    from torch.fx import Graph


class Placeholders:
    """The part of a tracer that makes the inputs of a graph; stands in front of ``TracerBase``."""

    root: nn.Module
    graph: Graph

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Record a placeholder for every parameter of a function, and say how to call it with them.

        Args:
            root_fn: The function to trace. For a module: the ``forward`` of its class.
            is_module: Whether the first parameter is ``self``, which is ``self.root`` and no
                placeholder.
            concrete_args: Values to use instead of proxies, by name or, as a tuple, by position.
                In a value that is a container every leaf gets a placeholder of its own,
                ``name_1``, ``name_2`` and so on. A leaf ``PH`` stays a proxy; of any other leaf
                the value is used, and an assertion in the graph checks that later calls pass the
                same.

        Returns:
            ``(call, args)``: ``call(*args)`` runs the function on the proxies. ``call`` is
            ``root_fn`` itself unless parameters are keyword-only or collect (``*args``,
            ``**kwargs``): then they are passed by position like all others, positional first,
            then keyword-only, ``*args``, ``**kwargs``. With containers in ``concrete_args``,
            ``args`` is flat, ``call`` puts the containers together again, and the graph gets a
            code generator that does so, too.

            A placeholder's target is the parameter's name (``"*args"`` and ``"**kwargs"`` with
            their stars), its only argument the default if there is one, its type the annotation
            or None. With a star it is None: the annotation speaks of the elements. A function
            decorated with ``functools.wraps`` is called as it is, but what counts is the signature
            of the function inside.

        Raises:
            RuntimeError: ``forward(*args)`` has no ``self``; a tuple of concrete arguments has
                the wrong length; a decorated function takes ``*args`` or ``**kwargs``: the message
                names it.

        In torch: ``torch.fx.Tracer.create_args_for_root``.

        >>> from torch.fx import Tracer
        >>> class Mine(Placeholders, Tracer):
        ...     pass
        >>> def f(x, y: int = 2, *rest, **options):
        ...     return x + y
        >>> for node in Mine().trace(f).find_nodes(op="placeholder"):
        ...     print(node.target, node.args, node.type)
        x () None
        y (2,) int
        *rest () None
        **options () None
        >>> print(Mine().trace(f, {"y": 3}).find_nodes(op="placeholder")[1])
        y_1
        """
        raise NotImplementedError(
            "placeholders: record a placeholder for every parameter of a function, and say how to call it with them"
        )
