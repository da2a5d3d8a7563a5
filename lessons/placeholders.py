"""Turn a signature into placeholders.

To trace a function, call it with proxies. Each parameter in the signature gets one proxy and one
``placeholder`` node. So do ``*args`` and ``**kwargs``: each gets a single proxy, and a proxy can't
be unpacked. So the function has to be called as if they were ordinary parameters.
"""

from __future__ import annotations

from inspect import Parameter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

STARS: dict[Any, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}


class Placeholders:
    """The mixin of a tracer that creates placeholders; list it before ``TracerBase`` as a base."""

    root: nn.Module

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Create a placeholder for each parameter of a function; return how to call it with them.

        Args:
            root_fn: The function to trace. For a module: the ``forward`` of its class.
            is_module: Whether the first parameter is ``self.root`` and gets no placeholder. Its
                name doesn't matter.
            concrete_args: Values to use in the place of proxies; torch's tracer passes them. Here
                every parameter gets a proxy: fixed values are part of the stretch.

        Returns:
            A pair of ``call`` and ``args``; ``call(*args)`` runs the function on root and proxies.

        Raises:
            RuntimeError: A ``forward(*args)`` has no ``self``.

        In torch: ``torch.fx.Tracer.create_args_for_root``.

        >>> from torch.fx import Tracer
        >>> tracer = type("Mine", (Placeholders, Tracer), {})()
        >>> [node.target for node in tracer.trace(lambda x, *rest: x).nodes]
        ['x', '*rest', 'output']
        """
        raise NotImplementedError(
            "placeholders: create a placeholder for each parameter of a function; return how to call it with them"
        )

    def proxy_placeholder(self, parameter: Input) -> Any:
        """Create a placeholder node, and return its proxy.

        Args:
            parameter: The target, the default and the type of the node.

        The node is created by ``self.create_proxy``, because a subclass may override it; pass the
        annotation as ``type_expr``. In torch: ``Tracer._proxy_placeholder``.
        """
        raise NotImplementedError("placeholders: create a placeholder node, and return its proxy")


class Input(NamedTuple):
    """One parameter as a placeholder node has it: the node's target, args and type.

    Attributes:
        target: The parameter's name, with its stars if it has any.
        default: The default itself, alone in a tuple; empty if there is none.
        annotation: The annotation; None if there is none.
    """

    target: str
    default: tuple[Any, ...]
    annotation: Any


def inputs_of(fn: Callable[..., Any]) -> list[Input]:
    """Return the parameters of a function in the order in which a call fills its variables.

    Args:
        fn: The function. For a decorated function (``functools.wraps``), the one inside is used.

    Returns:
        Positional parameters first, then keyword-only ones, ``*args``, ``**kwargs``. The last two
        get no annotation, because theirs is the type of the elements.

    >>> [each.target for each in inputs_of(lambda x, *rest, y=2, **options: x)]
    ['x', 'y', '*rest', '**options']
    """
    raise NotImplementedError(
        "placeholders: return the parameters of a function in the order in which a call fills its variables"
    )


def call_by_position(fn: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Return a function that does the same and takes all its parameters by position.

    Args:
        fn: The function; it is not modified. If its parameters can be passed by position already,
            or if it is decorated, it is returned itself.
        count: How many parameters it has, including ``*args`` and ``**kwargs``.

    A proxy can't be unpacked, so ``fn(*proxy)`` is not possible. But inside a function ``args`` is
    a local variable like any other, stored right after the named parameters. So it is enough to
    create a code object that counts it among them. In torch: ``_patch_function``.

    >>> call_by_position(lambda x, *rest, y: [x, y, rest], 3)(1, 2, 3)
    [1, 2, 3]
    """
    raise NotImplementedError(
        "placeholders: return a function that does the same and takes all its parameters by position"
    )
