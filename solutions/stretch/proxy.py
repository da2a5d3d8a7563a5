"""Unlike the core: proxies that hold up where torch's do.

- A refusal shows the line of the user's code. The core says the reason and what to do instead.
- Proxies of two tracers in one call are refused. The core takes the first one's tracer, and the
  graph of that gets a node of another graph as an argument.
- A proxy can be called, and unpacked with ``**``.
- ``assert x`` is recorded by a tracer that asks for it with ``trace_asserts``.
- A proxy can be copied and pickled. Python asks an object for the methods that do so, and a proxy
  of the core takes that for a method call of the traced code.
- ``ParameterProxy`` knows its parameter: code may branch on its shape.
- A tracer writes on each node what torch's does: the module stack, the scope, metadata that
  ``torch.fx.traceback`` preserves and, with ``record_stack_traces``, where it was recorded.
- A tracer refuses an argument that a graph can't hold, and with ``check_mutable_operations`` a
  function that writes to its arguments. An argument may convert itself (``__fx_create_arg__``).
- Script methods are recorded by name; an operator of higher order is refused a Python function,
  which no graph can hold.
"""

from __future__ import annotations

import copy
import dis
import enum
import functools
import sys
import traceback
from collections import OrderedDict
from operator import attrgetter
from pathlib import Path
from traceback import StackSummary
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import HigherOrderOperator
from torch.fx.node import base_types
from torch.fx.proxy import Scope
from torch.utils._pytree import tree_leaves

from .. import proxy as core
from ..proxy import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from torch import nn
    from torch.fx import Graph, Node

SOLUTIONS = Path(core.__file__).parent

_FUNCTIONS = (FunctionType, MethodType, BuiltinFunctionType, functools.partial)
_CONSTANTS = (*base_types, enum.Enum, type(None), type(...), HigherOrderOperator)
_CONTAINERS = (tuple, list, dict, slice, range)

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "TraceError",
    "TracerBase",
    "assert_true",
]


class Proxy(core.Proxy):
    """The core's proxy, with every operation that code may apply to one.

    In torch: ``torch.fx.Proxy``.

    >>> from copy import deepcopy
    >>> from torch.fx import Graph
    >>> x = Proxy(Graph().placeholder("x"))
    >>> deepcopy(x)
    Proxy(x)
    """

    tracer: TracerBase

    def __init__(self, node: Node, tracer: Any = None) -> None:
        super().__init__(node, GraphAppendingTracer(node.graph) if tracer is None else tracer)

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Record a call of one of torch's functions.

        Raises:
            RuntimeError: The arguments are proxies of several tracers; or a Python function is
                handed to an operator of higher order.
        """
        leaves = tree_leaves((args, kwargs))
        proxies = [each for each in leaves if isinstance(each, core.Proxy)]
        tracer = proxies[0].tracer
        if any(each.tracer is not tracer for each in proxies):
            raise proxies[0].refusal(
                RuntimeError,
                f"the arguments of {orig_method} are proxies of several tracers",
                "trace one function at a time",
            )
        if isinstance(orig_method, torch._C.ScriptMethod):
            receiver = (orig_method.owner, *args)
            return tracer.create_proxy("call_method", orig_method.name, receiver, kwargs or {})
        functions = [each for each in leaves if isinstance(each, _FUNCTIONS)]
        if functions and isinstance(orig_method, HigherOrderOperator):
            raise proxies[0].refusal(
                RuntimeError,
                f"no graph can hold {functions[0]}, which {orig_method.name()} gets",
                "use `torch.export`, or `make_fx`",
            )
        return super().__torch_function__(orig_method, types, args, kwargs)

    def __getattr__(self, attr: str) -> Attribute:
        return Attribute(self, attr)

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and is_asserting(sys._getframe(1)):
            self.tracer.create_proxy("call_function", assert_true, (self,), {})
            return True
        return super().__bool__()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Record that the value is called: a ``call_method`` of ``__call__``."""
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def keys(self) -> Any:
        """Return ``tracer.keys(self)``; Python calls this method for ``f(**x)``."""
        return self.tracer.keys(self)

    def refusal(self, error: type[Exception], reason: str, way_out: str) -> Exception:
        return super().refusal(error, reason, f"  {line_of_the_user()}\n{way_out}")

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        """Copy the node and the tracer; a tracer that can't be copied is shared."""
        result = copy.copy(self)
        for name, value in vars(self).items():
            vars(result)[name] = deep_copied(value, memo)
        return result

    # Python asks for these three, and `__getattr__` would answer.

    def __copy__(self) -> Proxy:
        result = object.__new__(type(self))
        vars(result).update(vars(self))
        return result

    def __getstate__(self) -> dict[str, Any]:
        return vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


class Attribute(core.Attribute, Proxy):
    """``x.name`` of a proxy. In torch: ``torch.fx.proxy.Attribute``."""


class ParameterProxy(Proxy):
    """The proxy of a parameter, which answers questions about its shape with numbers.

    Args:
        tracer: What creates the nodes.
        node: The ``get_attr`` node.
        name: The parameter's path.
        param: The parameter.

    In torch: ``torch.fx.proxy.ParameterProxy``.
    """

    def __init__(self, tracer: Any, node: Node, name: str, param: nn.Parameter) -> None:
        super().__init__(node, tracer)
        self.name, self.param = name, param

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"


for _name in ("shape", "ndim", "size", "dim", "numel", "nelement"):
    setattr(ParameterProxy, _name, property(attrgetter(f"param.{_name}")))


class TracerBase(core.TracerBase):
    """The core's tracer, with the proxies of this file.

    Attributes:
        trace_asserts: Whether ``assert x`` is recorded.
        check_mutable_operations: Whether a function that writes to its arguments is refused.
        record_stack_traces: Whether a node gets the Python stack at which it was recorded.
        scope: The module whose call is in progress.
        module_stack: The module calls in progress, outermost first.
        node_name_to_scope: The scope in which each node was created, by the node's name.

    In torch: ``torch.fx.proxy.TracerBase``.
    """

    trace_asserts = False
    check_mutable_operations = False
    record_stack_traces = False
    _record_forward_stack_traces_only = False

    def __init__(self) -> None:
        super().__init__()
        self.scope: Any = Scope("", None)
        self.module_stack: OrderedDict[str, tuple[str, Any]] = OrderedDict()
        self.node_name_to_scope: dict[str, Any] = {}

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Any] | None = None,
    ) -> Any:
        """Create a node, and return ``proxy_factory_fn(node)``; by default ``self.proxy(node)``."""
        if proxy_factory_fn is None:
            return super().create_proxy(kind, target, args, kwargs, name, type_expr)
        plain_args, plain_kwargs = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, plain_args, plain_kwargs, name, type_expr)
        return proxy_factory_fn(node)

    # Writes the scope, the module stack, preserved metadata and the stack trace on the node, and
    # refuses a function that writes to its arguments where `check_mutable_operations` is set.
    create_node = torch.fx.proxy.TracerBase.create_node

    def _filter_traceback_frames(self, user_stack_summary: StackSummary) -> StackSummary:
        """Leave out the lines of the engine; torch leaves out those of its own."""
        frames = torch.fx.proxy.TracerBase._filter_traceback_frames(self, user_stack_summary)  # type: ignore[arg-type]
        return StackSummary.from_list(
            [frame for frame in frames if SOLUTIONS not in Path(frame.filename).parents]
        )

    def create_arg(self, a: Any) -> Any:
        """Return ``a`` with each proxy in it replaced by its node.

        If ``a`` has a method ``__fx_create_arg__(tracer)``, return what that returns.

        Raises:
            NotImplementedError: ``a`` is of a type that a graph can't hold.
        """
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        result = super().create_arg(a)
        if result is a and not isinstance(a, _CONSTANTS + _CONTAINERS):
            way_out = "pass its parts, as numbers or strings"
            raise NotImplementedError(f"a graph can't hold {a!r}, of {type(a)}: {way_out}")
        return result

    def proxy(self, node: Node) -> Any:
        return Proxy(node, self)

    def keys(self, obj: Any) -> Any:
        """Record a call of the method ``keys``."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Adds nodes to a graph that is there already. In torch: a class of the same name."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph


def assert_true(value: object) -> None:
    """Raise an ``AssertionError`` unless the value is true; what a recorded ``assert`` calls.

    In torch: ``torch.fx.proxy.assert_fn``.
    """
    if not value:
        raise AssertionError("an assertion that was traced doesn't hold")


def is_asserting(frame: FrameType) -> bool:
    """Return whether a frame decides an ``assert``: after the jump comes its error."""
    jump, *after = (
        each for each in dis.get_instructions(frame.f_code) if each.offset >= frame.f_lasti
    )
    if jump.opname == "TO_BOOL" or jump.argrepr.startswith("bool("):  # since Python 3.13
        jump, *after = after
    return after[0].opname == "LOAD_ASSERTION_ERROR"


def line_of_the_user() -> str:
    """Return where the innermost frame outside these folders is, and its code."""
    *_, line = (
        each for each in traceback.extract_stack() if SOLUTIONS not in Path(each.filename).parents
    )
    return f"{line.filename}:{line.lineno}: {line.line}"


def deep_copied(value: Any, memo: dict[int, Any]) -> Any:
    """Return a deep copy, or the value itself where it can't be copied."""
    try:
        return copy.deepcopy(value, memo)
    except Exception:
        return value
