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

    from torch.fx import Proxy


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
            is_module: As in the core.
            concrete_args: Values to use instead of proxies, by name or, as a tuple, by position. If
                the function has ``*args`` and at most one other parameter, ``self`` included, a
                tuple says how many there are: ``input_0``, ``input_1`` and so on.

        Returns:
            A pair of ``call`` and ``args``. With containers in ``concrete_args`` ``args`` is flat,
            ``call`` puts the containers together again, and so does the graph's code generator.

        Raises:
            RuntimeError: A ``forward(*args)`` has no ``self``; or a tuple of concrete arguments is
                too short or too long.
            TypeError: The function is decorated, and has ``*args`` or ``**kwargs``.

        >>> from torch.fx import Tracer
        >>> tracer = type("Mine", (Placeholders, Tracer), {})()
        >>> list(tracer.trace(lambda x, scale: x * scale, {"scale": 3}).nodes)
        [x, scale_1, eq, _assert, mul, output]
        """
        if is_module:  # of a bound method the function, which takes the root as its `self`
            root_fn = getattr(root_fn, "__func__", root_fn)
        names = [each.target for each in inputs_of(root_fn)]
        named = [name for name in names if not name.startswith("*")]
        stars = names[len(named) :]
        refuse_to_unpack(root_fn, stars)
        if is_module and not named:
            concrete_args = None  # the core refuses a `forward` without `self`
        if isinstance(concrete_args, tuple):
            takes_any = any(not name.startswith("**") for name in stars)
            if concrete_args and takes_any and len(named) < 2:
                return self.create_numbered_args(root_fn, named[:is_module], concrete_args)
            concrete_args = by_name(named[is_module:], concrete_args)
        self.concrete_args = concrete_args
        call, args = super().create_args_for_root(root_fn, is_module)
        if inspect.unwrap(root_fn) is not root_fn:
            call = call_by_kind(root_fn)
        return self.flattened(call, args, named)

    def create_numbered_args(
        self, root_fn: Callable[..., Any], own: list[str], values: tuple[Any, ...]
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Create the placeholders of a function that takes any number of arguments.

        ``own`` is the name of ``self``, if that is the first argument.
        """
        names = [f"input_{number}" for number in range(len(values))]
        pairs = dict(zip(names, values, strict=True))
        self.concrete_args = {
            name: value for name, value in pairs.items() if not isinstance(value, PHBase)
        }
        args = [self.root for _ in own]
        for name, value in pairs.items():
            args.append(self.proxy_placeholder(Input(name, (), None)))
            if name not in self.concrete_args:
                _transfer_attrs(fr=value, to=args[-1].node)
        return self.flattened(root_fn, args, [*own, *names])

    def flattened(
        self, call: Callable[..., Any], args: list[Any], names: list[str]
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Take the containers out of ``args``; put them back around ``call`` and in the code."""
        if all(map(pytree.tree_is_leaf, args)):
            return call, args
        # A list: as a tuple, arguments `(tuple, dict)` would be taken for `(args, kwargs)`.
        flat_args, in_spec = pytree.tree_flatten(args)
        codegen = self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, in_spec, None))  # type: ignore[attr-defined]

        # no annotations: they would end up in the graph
        def call_flat(*flat):  # type: ignore[no-untyped-def]  # noqa: ANN002, ANN202
            result = call(*pytree.tree_unflatten(list(flat), in_spec))
            flat_result, out_spec = pytree.tree_flatten(result)
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return flat_result

        return call_flat, flat_args

    def proxy_placeholder(self, parameter: Input) -> Any:
        """Create a placeholder, and return its proxy, or the concrete value of the parameter.

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


def refuse_to_unpack(fn: Callable[..., Any], stars: list[str]) -> None:
    """Refuse a decorated function that takes ``*args`` or ``**kwargs``."""
    if stars and inspect.unwrap(fn) is not fn:
        raise TypeError(
            f"{fn.__qualname__} is decorated and takes {' and '.join(stars)}: while tracing, that "
            "is a proxy, and the decorator can't unpack it. Trace a function or a module that "
            "calls it with the arguments you need"
        )


def by_name(names: list[str], values: tuple[Any, ...]) -> dict[str, Any]:
    """Return a value for each parameter; refuse more of them, or fewer."""
    if len(names) != len(values):
        raise RuntimeError(
            f"the parameters are ({', '.join(names)}), but the number of concrete arguments is "
            f"{len(values)}: pass one for each, `torch.fx.PH` where you don't know it, or a dict"
        )
    return dict(zip(names, values, strict=True))


def call_by_kind(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes what a decorated one takes, all by position.

    The function inside, whose parameters these are, is out of reach: keyword-only ones are passed
    by name. ``functools.wraps`` keeps the annotations of ``fn``.
    """
    signature = inspect.signature(fn)

    @functools.wraps(fn)
    def call(*args: Any) -> Any:
        values = OrderedDict(zip(signature.parameters, args, strict=True))
        bound = inspect.BoundArguments(signature, values)
        return fn(*bound.args, **bound.kwargs)

    return call
