"""Unlike the core: arguments may be known while tracing, and decorated functions take keywords.

With ``concrete_args`` the traced code sees a value instead of a proxy and may branch on it; the
graph checks that later calls pass the same. A container becomes one placeholder per leaf.

A decorated function keeps its decorator, even if it has keyword-only parameters. Torch gives the
wrapper new code, made for the function inside.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import OrderedDict
from itertools import count
from typing import TYPE_CHECKING, Any

import torch
from torch.fx._symbolic_trace import PHBase, _assert_is_none, _transfer_attrs
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from torch.fx.node import base_types
from torch.utils import _pytree as pytree

from .. import placeholders as core
from ..placeholders import Input, inputs_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.fx import Graph, Proxy


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
            RuntimeError: A ``forward(*args)`` has no ``self``.
            ValueError: A tuple of concrete arguments is too short or too long.

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
            concrete_args = dict(zip(named[is_module:], concrete_args, strict=True))
        self.concrete_args = concrete_args
        call, args = super().create_args_for_root(root_fn, is_module)
        if inspect.unwrap(root_fn) is not root_fn:
            call = call_by_kind(root_fn)
        if all(map(pytree.tree_is_leaf, args)):
            return call, args
        return flattened(self.graph, call, args, named)  # type: ignore[attr-defined]

    def proxy_placeholder(self, parameter: Input) -> Any:
        """Create a placeholder, and return its proxy, or the concrete value of the parameter.

        Args:
            parameter: The target, the default and the type of the node.

        Each leaf of a concrete value gets a placeholder of its own, ``name_1``, ``name_2`` and so
        on. A leaf ``PH`` stays a proxy.
        """
        known, placeholder = self.concrete_args or {}, super().proxy_placeholder
        if parameter.target not in known:
            return placeholder(parameter)
        numbers = count(1)

        def value_of(leaf: Any) -> Any:
            target = f"{parameter.target}_{next(numbers)}"
            proxy = placeholder(Input(target, parameter.default, None))
            return specialized(proxy, leaf, parameter.target)

        return pytree.tree_map(value_of, known[parameter.target])


def specialized(proxy: Proxy, leaf: Any, name: str) -> Any:
    """Return what the traced code gets for a concrete leaf, and let the graph check it."""
    if isinstance(leaf, PHBase):
        _transfer_attrs(fr=leaf, to=proxy.node)  # of `PHWithMeta`
        return proxy
    message = f"{name} has been specialized to have value {leaf} but got another value"
    if leaf is None:
        proxy.tracer.create_proxy("call_function", _assert_is_none, (proxy, message), {})
    elif type(leaf) in base_types and type(leaf) is not torch.Tensor:
        torch._assert(proxy == leaf, message)
    else:
        warnings.warn(f"the graph can't check that later calls pass the same {name}", stacklevel=2)
    return leaf


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

    The function inside, whose parameters these are, is out of reach: keyword-only ones are passed
    by name. ``*args`` and ``**kwargs`` can't be passed on, because a proxy can't be unpacked.
    ``functools.wraps`` keeps the annotations of ``fn``.
    """
    signature = inspect.signature(fn)

    @functools.wraps(fn)
    def call(*args: Any) -> Any:
        values = OrderedDict(zip(signature.parameters, args, strict=True))
        bound = inspect.BoundArguments(signature, values)
        return fn(*bound.args, **bound.kwargs)

    return call
