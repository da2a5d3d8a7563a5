"""Unlike the core: proxies and tracers with the features of torch's.

- An error for a question without an answer shows the line that asked.
- Proxies of two tracers in one call are refused. The core uses the first one's tracer, and then
  one graph has a node of another graph as an argument.
- A proxy can be called, and unpacked with ``**``.
- A tracer writes the module stack, the scope and the metadata that ``torch.fx.traceback`` preserves
  on each node and, with ``record_stack_traces``, where the node was recorded; the last line is the
  model's.
- A tracer refuses an argument that a graph can't hold and, with ``check_mutable_operations``, a
  function that writes to its arguments. An argument may convert itself (``__fx_create_arg__``).
"""

from __future__ import annotations

import copy
import enum
import traceback
from collections import OrderedDict
from operator import attrgetter
from pathlib import Path
from traceback import FrameSummary, StackSummary
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import HigherOrderOperator
from torch.fx.node import base_types
from torch.fx.proxy import Scope
from torch.utils._pytree import tree_leaves

from .. import proxy as core

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.fx import Graph, Node

SOLUTIONS = Path(core.__file__).parent
TORCH = Path(torch.__file__).parent

_CONSTANTS = (*base_types, enum.Enum, type(None), type(...), HigherOrderOperator)
_CONTAINERS = (tuple, list, dict, slice, range)


class Proxy(core.Proxy):
    """The core's proxy, which can also be called and unpacked with ``**``."""

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
        """Record a call of one of torch's functions, or of a method of a scripted module.

        Raises:
            RuntimeError: The arguments are proxies of several tracers.
        """
        proxies = [each for each in tree_leaves((args, kwargs)) if isinstance(each, core.Proxy)]
        tracer = proxies[0].tracer
        if any(each.tracer is not tracer for each in proxies):
            raise proxies[0].refusal(
                RuntimeError,
                f"the arguments of {orig_method} are proxies of several tracers",
                "trace one function at a time",
            )
        if isinstance(orig_method, torch._C.ScriptMethod):
            args = orig_method.owner, *args
            return tracer.create_proxy("call_method", orig_method.name, args, kwargs or {})
        return super().__torch_function__(orig_method, types, args, kwargs)

    def __getattr__(self, attr: str) -> Attribute:
        return Attribute(self, attr)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Record that the value is called: a ``call_method`` of ``__call__``."""
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def keys(self) -> Any:
        """Return ``tracer.keys(self)``; Python calls this method for ``f(**x)``."""
        return self.tracer.keys(self)

    def refusal(self, error: type[Exception], reason: str, way_out: str) -> Exception:
        return super().refusal(error, reason, f"  {line_of_the_user()}\n{way_out}")

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        """Copy the node and the tracer; without this, ``__getattr__`` would record a call."""
        result = object.__new__(type(self))
        vars(result).update(copy.deepcopy(vars(self), memo))
        return result

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Fill a copy or an unpickled proxy; until then, ``__getattr__`` has no tracer to ask."""
        vars(self).update(state)


class Attribute(core.Attribute, Proxy):
    """``x.name`` of a proxy. In torch: ``torch.fx.proxy.Attribute``."""


class ParameterProxy(Proxy):
    """The proxy of a parameter whose shape is known. In torch: ``fx.proxy.ParameterProxy``."""

    def __init__(self, node: Node, tracer: Any, param: torch.Tensor) -> None:
        super().__init__(node, tracer)
        self.param = param


for _name in ("shape", "ndim", "size", "dim", "numel", "nelement"):
    setattr(ParameterProxy, _name, property(attrgetter(f"param.{_name}")))


class TracerBase(core.TracerBase):
    """The core's tracer, which makes the proxies of this file and writes metadata on the nodes.

    Attributes:
        check_mutable_operations: Whether to refuse a function that writes to its arguments.
        record_stack_traces: Whether a node gets the Python stack at which it was recorded.
        scope: The module whose call is in progress.
        module_stack: The module calls in progress, outermost first.
        node_name_to_scope: The scope in which each node was created, by the node's name.

    In torch: ``torch.fx.proxy.TracerBase``.
    """

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

    # Writes the scope, the module stack, preserved metadata and the stack trace on the node. With
    # `check_mutable_operations`, it refuses a function that writes to its arguments.
    create_node = torch.fx.proxy.TracerBase.create_node

    def _filter_traceback_frames(self, user_stack_summary: StackSummary) -> StackSummary:
        """Leave out the lines of the engine, so that the last line is the model's."""
        frames = torch.fx.proxy.TracerBase._filter_traceback_frames(self, user_stack_summary)  # type: ignore[arg-type]
        frames = StackSummary(each for each in frames if not is_inside(SOLUTIONS, each))
        while len(frames) > 1 and is_inside(TORCH, frames[-1]):
            frames.pop()
        return frames

    def create_arg(self, a: Any) -> Any:
        """Return ``a`` with each proxy in it replaced by its node.

        If ``a`` has a method ``__fx_create_arg__(tracer)``, return what that returns.

        Raises:
            NotImplementedError: A graph can't hold a value of this type.
        """
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        result = super().create_arg(a)
        if result is a and not isinstance(a, _CONSTANTS + _CONTAINERS):
            raise NotImplementedError(f"a graph can't hold {a!r}, of {type(a)}: pass its parts")
        return result

    def proxy(self, node: Node) -> Any:
        return Proxy(node, self)

    def keys(self, obj: Any) -> Any:
        """Record a call of the method ``keys``."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Adds nodes to an existing graph. In torch: ``torch.fx.proxy.GraphAppendingTracer``."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph


def is_inside(folder: Path, frame: FrameSummary) -> bool:
    """Return whether a line of a stack is in a file below a folder."""
    return folder in Path(frame.filename).parents


def line_of_the_user() -> str:
    """Return the file, the number and the text of the innermost line outside these folders."""
    *_, line = (each for each in traceback.extract_stack() if not is_inside(SOLUTIONS, each))
    return f"{line.filename}:{line.lineno}: {line.line}"
