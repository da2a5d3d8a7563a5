"""A signature becomes placeholders.

To record a function one has to call it, and to call it one needs arguments. They are proxies,
and each stands for a ``placeholder`` node: one for every name in the signature. ``*args`` is
the odd one. It gets a single proxy, so the function has to be called as if its ``*args`` were
an ordinary argument.
"""

from __future__ import annotations

import inspect
import warnings
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch.fx._symbolic_trace import PH, PHBase, _assert_is_none
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from torch.fx.node import base_types
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from torch import nn
    from torch.fx import Graph, Node, Proxy

_COLLECTS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


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
        inner = inspect.unwrap(root_fn)
        names = _argument_names(inner.__code__)
        if is_module and not names:
            raise RuntimeError(
                f"{inner.__qualname__} takes no argument by name, and `self` cannot be part of "
                "*args: write `self` as its first parameter"
            )
        args = [self.root] if is_module else []
        says_nothing = len(names) == 1 and inner.__code__.co_flags & _COLLECTS
        if isinstance(concrete_args, tuple) and concrete_args and says_nothing:
            return root_fn, args + self._numbered_placeholders(concrete_args)
        names = names[len(args) :]
        if isinstance(concrete_args, tuple):
            concrete_args = _by_name(names, concrete_args)

        signature = inspect.signature(inner)
        args += [
            self._proxy_placeholder(name, concrete_args, signature, inner)
            for name in names + _collecting_names(inner.__code__)
        ]
        call = _take_all_by_position(root_fn, len(args))
        if all(pytree.tree_is_leaf(arg) for arg in args):
            return call, args
        return self._flatten(call, args, _argument_names(inner.__code__))

    def _proxy_placeholder(
        self,
        name: str,
        concrete_args: dict[str, Any] | None,
        sig: inspect.Signature,
        fn_for_analysis: Callable[..., Any],
    ) -> Any:
        default = () if name.startswith("*") else _default(sig.parameters[name])
        if concrete_args is None or name not in concrete_args:
            return self._placeholder(name, default, fn_for_analysis.__annotations__.get(name))
        leaves, spec = pytree.tree_flatten(concrete_args[name])
        values = []
        for number, leaf in enumerate(leaves, start=1):
            proxy = self._placeholder(f"{name}_{number}", default)
            values.append(self._specialize(proxy, leaf, name))
        return pytree.tree_unflatten(values, spec)

    def _specialize(self, proxy: Proxy, leaf: Any, name: str) -> Any:
        """Return what the traced code sees for a concrete leaf, once the graph checks the leaf."""
        if isinstance(leaf, PHBase):
            _hand_over_attributes(leaf, proxy.node)
            return proxy
        message = f"{name} has been specialized to have value {leaf} but got another value"
        if leaf is None:
            self.create_proxy("call_function", _assert_is_none, (proxy, message), {})  # type: ignore[attr-defined]
        elif type(leaf) in base_types and type(leaf) is not torch.Tensor:
            torch._assert(proxy == leaf, message)
        else:
            warnings.warn(
                f"the graph cannot check that later calls pass the same {name!r}: see to it",
                stacklevel=2,
            )
        return leaf

    def _numbered_placeholders(self, concrete_args: tuple[Any, ...]) -> list[Any]:
        """Make the inputs of a function that says nothing about them but ``*args``."""
        proxies = []
        for number, value in enumerate(concrete_args):
            proxy = self._placeholder(f"input_{number}")
            if isinstance(value, PHBase):
                _hand_over_attributes(value, proxy.node)
            proxies.append(proxy)
        return proxies

    def _flatten(
        self, call: Callable[..., Any], args: list[Any], names: list[str]
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Take the containers out of ``args``; put them back around ``call`` and in the code."""
        flat_args, in_spec = pytree.tree_flatten(tuple(args))
        codegen = _PyTreeCodeGen(_PyTreeInfo(names, in_spec, None))
        self.graph._codegen = codegen

        # no annotations: they would end up in the graph
        def call_flat(*flat):  # type: ignore[no-untyped-def]  # noqa: ANN002, ANN202
            result = call(*pytree.tree_unflatten(list(flat), in_spec))
            flat_result, out_spec = pytree.tree_flatten(result)
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return flat_result

        return call_flat, flat_args

    def _placeholder(
        self, name: str, default: tuple[Any, ...] = (), annotation: Any = None
    ) -> Proxy:
        return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)  # type: ignore[attr-defined]


def _argument_names(code: CodeType) -> list[str]:
    """Return what has a name of its own: positional parameters, then keyword-only ones."""
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _collecting_names(code: CodeType) -> list[str]:
    names = iter(code.co_varnames[len(_argument_names(code)) :])
    stars = {"*": inspect.CO_VARARGS, "**": inspect.CO_VARKEYWORDS}
    return [star + next(names) for star, flag in stars.items() if code.co_flags & flag]


def _by_name(names: list[str], values: tuple[Any, ...]) -> dict[str, Any]:
    if len(names) != len(values):
        raise RuntimeError(
            f"got {len(values)} concrete arguments, but expected {len(names)} "
            f"({', '.join(names)}): give one for each, torch.fx.PH for what shall stay an input"
        )
    return dict(zip(names, values, strict=True))


def _default(parameter: inspect.Parameter) -> tuple[Any, ...]:
    return () if parameter.default is inspect.Parameter.empty else (parameter.default,)


def _hand_over_attributes(placeholder: PHBase, node: Node) -> None:
    """Set on the node what the user has set on a placeholder of his own."""
    if placeholder is PH:
        return
    for name in dir(placeholder):
        value = getattr(placeholder, name)
        if not name.startswith("__") and not callable(value) and not hasattr(node, name):
            setattr(node, name, value)


def _take_all_by_position(fn: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Return ``fn`` with keyword-only and collecting parameters made ordinary ones.

    A proxy cannot be unpacked, so ``fn(*proxy)`` is no way to fill ``*args``. But inside a
    function ``args`` is a variable like any other, right behind the named ones: counting it
    among them is enough.
    """
    inner = inspect.unwrap(fn).__code__
    if not inner.co_kwonlyargcount and not inner.co_flags & _COLLECTS:
        return fn
    if not isinstance(fn, FunctionType) or fn.__code__ is not inner:
        return _take_keywords_by_position(fn, inner)
    code = inner.replace(
        co_argcount=count,
        co_kwonlyargcount=0,
        co_flags=inner.co_flags & ~_COLLECTS,
    )
    return FunctionType(code, fn.__globals__, closure=fn.__closure__)  # no default is needed


def _take_keywords_by_position(fn: Callable[..., Any], inner: CodeType) -> Callable[..., Any]:
    """Do the same for a decorated function, whose parameters are out of reach: pass keywords."""
    if inner.co_flags & _COLLECTS:
        raise RuntimeError(
            f"{fn.__qualname__} is decorated, and the function inside takes *args or **kwargs, "
            "which cannot pass through a decorator: trace it undecorated, or spell them out"
        )
    keywords = _argument_names(inner)[inner.co_argcount :]

    # no annotations: they would end up in the graph
    def call(*args):  # type: ignore[no-untyped-def]  # noqa: ANN002, ANN202
        positional, by_keyword = args[: inner.co_argcount], args[inner.co_argcount :]
        return fn(*positional, **dict(zip(keywords, by_keyword, strict=True)))

    return call
