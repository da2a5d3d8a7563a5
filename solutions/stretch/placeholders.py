"""Unlike the core: arguments may be known while tracing, and decorated functions take keywords.

With ``concrete_args`` the traced code sees a value instead of a proxy and may branch on it; the
graph checks that later calls pass the same. A container becomes one placeholder per leaf.

A decorated function keeps its decorator where it has keyword-only parameters, and is refused where
it takes ``*args`` or ``**kwargs``. Torch gives the wrapper new code, made for the function inside.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import OrderedDict
from itertools import count
from typing import TYPE_CHECKING, Any

import torch
from torch.fx._symbolic_trace import PHBase, _assert_is_none
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from torch.fx.node import base_types
from torch.utils import _pytree as pytree

from .. import placeholders as core
from ..placeholders import Input, call_by_position, inputs_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.fx import Graph, Node, Proxy

__all__ = ["Input", "Placeholders", "call_by_position", "inputs_of"]


class Placeholders(core.Placeholders):
    """The core's class, with concrete arguments."""

    concrete_args: dict[str, Any] | None = None

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Create a placeholder for each parameter of a function; return how to call it with them.

        Args:
            root_fn: The function to trace. For a module: the ``forward`` of its class, or its own.
            is_module: Whether the first parameter is ``self.root`` and no placeholder.
            concrete_args: Values to use instead of proxies, by name or, as a tuple, by position.

        Returns:
            A pair of ``call`` and ``args``. With containers in ``concrete_args`` ``args`` is flat,
            ``call`` puts the containers together again, and so does the graph's code generator.

        Raises:
            RuntimeError: ``forward(*args)`` has no ``self``; a tuple of concrete arguments has
                the wrong length; a decorated function takes ``*args`` or ``**kwargs``: the message
                names it.

        >>> from torch.fx import Tracer
        >>> tracer = type("Mine", (Placeholders, Tracer), {})()
        >>> list(tracer.trace(lambda x, scale: x * scale, {"scale": 3}).nodes)
        [x, scale_1, eq, _assert, mul, output]
        """
        if is_module:  # of a bound method the function, which takes the root as its `self`
            root_fn = getattr(root_fn, "__func__", root_fn)
        names = [each.target for each in inputs_of(root_fn)]
        named = [name for name in names if not name.startswith("*")]
        if isinstance(concrete_args, tuple):
            if concrete_args and len(named) == 1 and named != names:
                numbered = [
                    leaf_placeholder(self, value, Input(f"input_{number}", (), None))
                    for number, value in enumerate(concrete_args)
                ]
                return root_fn, [self.root] * is_module + numbered
            concrete_args = by_name(named[is_module:], concrete_args)
        self.concrete_args = concrete_args
        call, args = super().create_args_for_root(root_fn, is_module)
        if inspect.unwrap(root_fn) is not root_fn:
            call = call_by_kind(root_fn)
        if all(map(pytree.tree_is_leaf, args)):
            return call, args
        return flattened(self.graph, call, args, named)  # type: ignore[attr-defined]

    def proxy_placeholder(self, parameter: Input) -> Any:
        """Create a placeholder, and return its proxy, or the concrete value of the parameter.

        Each leaf of a concrete value gets a placeholder of its own, ``name_1``, ``name_2`` and so
        on. A leaf ``PH`` stays a proxy.

        Args:
            parameter: The target, the default and the type of the node.
        """
        known = self.concrete_args or {}
        if parameter.target not in known:
            return super().proxy_placeholder(parameter)
        numbers = count(1)

        def value_of(leaf: Any) -> Any:
            target = f"{parameter.target}_{next(numbers)}"
            proxy = leaf_placeholder(self, leaf, Input(target, parameter.default, None))
            return specialized(proxy, leaf, parameter.target)

        return pytree.tree_map(value_of, known[parameter.target])


def leaf_placeholder(tracer: Placeholders, leaf: Any, parameter: Input) -> Proxy:
    """Create the placeholder of a concrete leaf; what a user set on a ``PH`` goes to the node."""
    proxy: Proxy = core.Placeholders.proxy_placeholder(tracer, parameter)
    if isinstance(leaf, PHBase):
        hand_over_attributes(leaf, proxy.node)
    return proxy


def hand_over_attributes(placeholder: PHBase, node: Node) -> None:
    """Copy the attributes that the user has set on a placeholder to the node."""
    for name, value in inspect.getmembers(placeholder, lambda value: not callable(value)):
        if not name.startswith("__") and not hasattr(node, name):
            setattr(node, name, value)


def specialized(proxy: Proxy, leaf: Any, name: str) -> Any:
    """Return what the traced code gets for a concrete leaf, and let the graph check it."""
    if isinstance(leaf, PHBase):
        return proxy
    message = f"{name} has been specialized to have value {leaf} but got another value"
    if leaf is None:
        proxy.tracer.create_proxy("call_function", _assert_is_none, (proxy, message), {})
    elif type(leaf) in base_types and type(leaf) is not torch.Tensor:
        torch._assert(proxy == leaf, message)
    else:
        warnings.warn(
            f"the graph cannot check that later calls pass the same {name!r}: see to it",
            stacklevel=2,
        )
    return leaf


def by_name(names: list[str], values: tuple[Any, ...]) -> dict[str, Any]:
    """Return concrete arguments that were given by position as a dict."""
    if len(names) != len(values):
        raise RuntimeError(
            f"got {len(values)} concrete arguments, but expected {len(names)} "
            f"({', '.join(names)}): give one for each, and torch.fx.PH for each that stays an input"
        )
    return dict(zip(names, values, strict=True))


def flattened(
    graph: Graph, call: Callable[..., Any], args: list[Any], names: list[str]
) -> tuple[Callable[..., Any], list[Any]]:
    """Take the containers out of ``args``; put them back around ``call`` and in the code."""
    flat_args, in_spec = pytree.tree_flatten(tuple(args))
    codegen = graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, in_spec, None))

    # no annotations: they would end up in the graph
    def call_flat(*flat):  # type: ignore[no-untyped-def]  # noqa: ANN002, ANN202
        result = call(*pytree.tree_unflatten(list(flat), in_spec))
        flat_result, out_spec = pytree.tree_flatten(result)
        codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
        return flat_result

    return call_flat, flat_args


def call_by_kind(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes what a decorated one takes, all by position.

    The parameters are those of the function inside, out of reach: keyword-only ones are passed by
    name. What is returned counts as decorated, too: it has the annotations of ``fn``.
    """
    signature = inspect.signature(fn)
    if any(each.target.startswith("*") for each in inputs_of(fn)):
        raise RuntimeError(
            f"{fn.__qualname__} is decorated, and the function inside takes *args or **kwargs, "
            "which cannot pass through a decorator: trace it undecorated, or spell them out"
        )

    @functools.wraps(fn)
    def call(*args: Any) -> Any:
        values = OrderedDict(zip(signature.parameters, args, strict=True))
        bound = inspect.BoundArguments(signature, values)
        return fn(*bound.args, **bound.kwargs)

    return call
