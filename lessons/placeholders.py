"""Turn a signature into placeholders.

To trace a function, call it with proxies: one for each parameter in the signature, each with a
``placeholder`` node. ``*args`` and ``**kwargs`` have only a single proxy each, and a proxy
can't be unpacked. So the function has to be called as if they were ordinary parameters.
"""

from __future__ import annotations

from inspect import Parameter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

STARS: dict[Any, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}


class Placeholders:
    """A mixin that creates a tracer's placeholders; it comes before ``TracerBase`` in its bases."""

    root: nn.Module

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Callable[..., Any], list[Any]]:  # steps 1, 2, 3, 4
        """Create a function's placeholders, one per parameter; return how to call it with proxies.

        For ``lambda x, *rest: x``, these are two placeholders and two proxies.

        Args:
            root_fn: The function to trace. For a module: the ``forward`` of its class.
            is_module: Whether the first parameter, whatever its name, is ``self.root`` and has no
                placeholder.
            concrete_args: Ignore it: torch's tracer passes it. See the stretch.

        Returns:
            A pair ``(call, args)``; ``call(*args)`` runs the function on the root and the proxies.

        Raises:
            RuntimeError: A ``forward(*args)`` has no parameter ``self``; the message says so. There
                a single proxy can't contain the root.

        In torch: ``torch.fx.Tracer.create_args_for_root``.

        >>> from torch.fx import Tracer
        >>> tracer = type("Mine", (Placeholders, Tracer), {})()
        >>> [node.target for node in tracer.trace(lambda x, *rest: x).nodes]
        ['x', '*rest', 'output']
        """
        raise NotImplementedError("placeholders: Placeholders.create_args_for_root")

    def proxy_placeholder(self, parameter: Input) -> Any:  # step 1
        """Create a placeholder node, and return its proxy.

        Create it with ``self.create_proxy``, which a subclass may override, and pass the annotation
        as ``type_expr``. A default becomes the node's ``args``, and as it is: Python
        evaluates a default before any node runs, but ``create_proxy`` would turn a tensor into a
        node that reads it.

        In torch: ``Tracer._proxy_placeholder``.

        >>> import torch
        >>> tracer = type("Mine", (Placeholders, torch.fx.Tracer), {})()
        >>> list(tracer.trace(lambda x, scale=torch.ones(2): x * scale).nodes)
        [x, scale, mul, output]
        """
        raise NotImplementedError("placeholders: Placeholders.proxy_placeholder")


class Input(NamedTuple):
    """What a placeholder node needs to know about a parameter: its target, args and type.

    Attributes:
        target: The parameter's name, with its stars if it has any.
        default: A tuple that contains only the default; an empty tuple if there is none.
        annotation: The annotation; None if there is none.
    """

    target: str
    default: tuple[Any, ...]
    annotation: Any


def inputs_of(fn: Callable[..., Any]) -> list[Input]:  # step 1
    """Return the parameters of a function in the order in which a call fills its variables.

    That isn't the order of the signature: a function stores ``*args`` and ``**kwargs`` last.

    Positional parameters come first, then keyword-only ones, ``*args``, ``**kwargs``. The last two
    have no annotation, because theirs is the type of the elements. If the function is decorated
    (``functools.wraps``), the innermost one counts.

    >>> [each.target for each in inputs_of(lambda x, *rest, y=2, **options: x)]
    ['x', 'y', '*rest', '**options']
    """
    raise NotImplementedError("placeholders: inputs_of")


def call_by_position(fn: Callable[..., Any], count: int) -> Callable[..., Any]:  # step 3
    """Return a function that does the same but takes all its parameters by position.

    Args:
        fn: The function; it isn't modified. If its parameters can already be passed by position,
            or if it is decorated, return the function itself.
        count: How many parameters it has, including ``self``, ``*args`` and ``**kwargs``.

    ``fn(proxy)`` packs the proxy into a tuple. Inside the function, ``args`` must be the proxy
    itself. It is a local variable like any other, and the instructions of the function don't make
    it special. What does? The new function has the closure, the globals and the local variables of
    the old one.

    In torch: ``_patch_function``.

    >>> call_by_position(lambda x, *rest, y: [x, y, rest], 3)(1, 2, 3)
    [1, 2, 3]
    """
    raise NotImplementedError("placeholders: call_by_position")
