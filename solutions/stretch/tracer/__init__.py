"""Unlike the core: a ``torch.fx.Tracer``, with everything that one takes care of, and more.

- It makes torch's objects: the core's makers ``new_graph``, ``create_node`` and ``proxy`` are
  torch's here, so that passes written for torch run on the result. ``engine`` has the same tracer
  with makers of ours.
- Arguments may be known (``concrete_args``), and another method than ``forward`` may be traced.
- Functions under ``torch.fx.wrap``, those of ``math`` and those passed to the constructor are
  recorded as calls; ``param_shapes_constant`` makes shapes of parameters plain numbers.
- A tensor that was an attribute when it was read is a constant if ``forward`` sets another there.
- After an error nothing is left on the tracer, and a module that replaces another during a trace
  is refused.
- Graph modules that compile late can be traced, stack traces contain no lines of the engine, and
  tracers can be copied.
- ``patching``: a trace leaves other threads alone, and traces may overlap.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections import OrderedDict
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from torch import fx, nn
from torch.fx import Graph, GraphModule, Proxy
from torch.fx._lazy_graph_module import _LazyGraphModule, _make_graph_module
from torch.fx.proxy import ParameterProxy

from given.code import keep_persistence
from given.graph import has_effect

from ... import tracer as core
from ..create_arg import CreateArg
from ..path_of_module import PathOfModule
from ..placeholders import Placeholders
from ..proxy import ParameterProxy as OwnParameterProxy
from ..proxy import Proxy as OwnProxy
from ..proxy import TracerBase
from .patching import PROXIES, recording, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

__all__ = ["Tracer", "TracerOfAnyGraph", "UntraceableError", "symbolic_trace"]


class ModuleStack(OrderedDict[str, tuple[str, Any]]):
    """The calls in progress; ``copy.copy`` of it is fast, because each node gets a copy."""

    def __copy__(self) -> OrderedDict[str, tuple[str, Any]]:
        return OrderedDict(self)


class TracerOfAnyGraph(PathOfModule, CreateArg, Placeholders, core.Tracer):
    """The core's tracer with torch's options; a subclass says which graphs and proxies it makes.

    Args:
        autowrap_modules: Their public functions are recorded as calls wherever the traced code
            finds them.
        autowrap_functions: Single functions that are recorded as calls in the same way.
        param_shapes_constant: Whether ``shape``, ``size()`` and the like of a parameter are
            numbers, so that code may branch on them, and not proxies.

    Attributes:
        traced_func_name: The name of the method that is traced if the root is a module.
    """

    traced_func_name = "forward"

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrap_search = [*autowrap_modules]
        self._autowrap_function_ids = {id(function) for function in autowrap_functions} | {
            id(getattr(value, "recorded_function", value))
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_")
        }
        self.param_shapes_constant = param_shapes_constant
        self._traced_function: Callable[..., Any] | None = None
        self._module_at: dict[str, nn.Module] = {}
        self.module_stack = ModuleStack()

    def __deepcopy__(self, memo: dict[int, Any]) -> TracerOfAnyGraph:
        """Copy the tracer, but not the Python modules in which it searches for functions."""
        memo.update((id(module), module) for module in self._autowrap_search)
        result = memo[id(self)] = copy.copy(self)
        result.__dict__.update(copy.deepcopy(vars(self), memo))
        return result

    def trace(
        self,
        root: nn.Module | Callable[..., Any],
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> Any:
        """Trace ``root`` and return the graph; leave nothing on the tracer if that fails.

        Raises:
            UntraceableError: ``root`` is neither a module nor a function, but a builtin or
                ``functools.partial``, say; or ``traced_func_name`` isn't the name of a function.

        Traces may be nested, and run in several threads at once; the modules of other threads run
        as always. In torch: ``torch.fx.Tracer.trace``.
        """
        refuse_untraceable(root, self.traced_func_name)
        # A graph module that compiles late has no forward worth tracing before.
        _LazyGraphModule.force_recompile(root)  # type: ignore[arg-type]
        self.root_module_name = root._get_name() if isinstance(root, nn.Module) else ""
        before = self.num_calls.copy(), self.node_name_to_scope.copy()
        try:
            return self.record_run(root, concrete_args)
        except BaseException:
            self.num_calls, self.node_name_to_scope = before
            raise
        finally:
            self._module_at = {}

    def record_run(self, root: Any, concrete_args: Any) -> Any:
        """Record a run, as the core's ``trace`` does, and pass the concrete arguments on."""
        is_module = isinstance(root, nn.Module)
        function = getattr(type(root), self.traced_func_name) if is_module else root
        self.root = root if is_module else nn.Module()
        self.graph = self.new_graph()
        call, args = self.create_args_for_root(function, is_module, concrete_args)
        with self.patched_modules():
            result = self.create_arg(call(*args))
            annotations = inspect.get_annotations(inspect.unwrap(call))
            self.create_node("output", "output", (result,), {}, None, annotations.get("return"))
        self.keep_what_was_read()
        return self.graph

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Create the placeholders, and note which function is traced, and where it is."""
        self._traced_function = root_fn
        code = getattr(root_fn, "__code__", None)
        if code and code.co_name.isidentifier():  # `inspect` finds no source under `… in <lambda>`
            place = ("co_name", "co_filename", "co_firstlineno")
            fields = {name: getattr(code, name) for name in place}
            self.graph._co_fields = fields  # type: ignore[attr-defined]
        return super().create_args_for_root(root_fn, is_module, concrete_args)

    @contextmanager
    def patched_modules(self) -> Iterator[None]:
        """Let this tracer decide what modules and wrapped functions do, in this thread alone."""
        self._searched: set[int] = set()  # namespaces, by their ids
        with recording(self):
            self.autowrap(getattr(self._traced_function, "__globals__", {}))
            for module in self._autowrap_search:
                self.autowrap(vars(module))
            yield

    def autowrap(self, namespace: dict[str, Any]) -> None:
        """Record calls of this tracer's functions that are found in a module's globals."""
        if id(namespace) not in self._searched:
            self._searched.add(id(namespace))
            for name, value in list(namespace.items()):
                if id(value) in self._autowrap_function_ids and not name.startswith("_"):
                    wrap(namespace, name)

    def path_of_module(self, mod: nn.Module) -> str:
        """Return the path of a module; in one graph each path stands for one module.

        Raises:
            NameError: Another module had the path earlier in this trace.
        """
        path = super().path_of_module(mod)
        if self._module_at.setdefault(path, mod) is not mod:
            raise NameError(
                f"{path!r} led to another module when it was called before: a graph has one module "
                "for a path, so don't replace modules while they are traced"
            )
        return path

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """Return what the core does; with ``param_shapes_constant``, a ``ParameterProxy``."""
        proxy = super().getattr(attr, attr_val, parameter_proxy_cache)
        if not self.param_shapes_constant or type(proxy) not in PROXIES:
            return proxy
        node, path = proxy.node, str(proxy.node.target)
        known: Any = ParameterProxy(self, node, path, attr_val)
        if type(proxy) is OwnProxy:
            known = OwnParameterProxy(node, self, attr_val)
        parameter_proxy_cache[path] = known
        return known


class TorchsBase(fx.Tracer, TracerBase):
    """What the core's tracer asks ``TracerBase`` for, answered by torch's class of that name.

    As a base of ``Tracer`` it comes after the core, so the core decides, and torch's class makes
    the nodes and proxies. In particular, torch's nodes carry stack traces and preserved metadata.
    """

    def create_arg(self, a: Any) -> Any:
        """Return what torch's ``TracerBase`` does; `fx.Tracer.create_arg` is the core's."""
        if isinstance(a, dict) and any(type(key) is not str for key in a):
            TracerBase.create_arg(self, dict.fromkeys(a))  # refuses a proxy of ours as a key
        return fx.proxy.TracerBase.create_arg(self, a)

    _filter_traceback_frames = TracerBase._filter_traceback_frames


class EffectsGraph(Graph):
    """torch's graph, except that eliminating dead code keeps every call that has an effect."""

    def eliminate_dead_code(self, is_impure_node: Callable[[Any], bool] | None = None) -> bool:
        """Erase the nodes without users, except for those that ``is_impure_node`` keeps."""
        return super().eliminate_dead_code(is_impure_node or self.is_needed)

    @staticmethod
    def is_needed(node: fx.Node) -> bool:
        return node.is_impure() or has_effect(node)


class Tracer(TracerOfAnyGraph, TorchsBase):
    """The core's tracer in torch's place: a ``torch.fx.Tracer``, which makes torch's objects.

    In torch: ``torch.fx.Tracer``.

    >>> import math
    >>> list(Tracer().trace(lambda x: math.sqrt(x) + 1).nodes)
    [x, sqrt, add, output]
    """

    create_node = fx.Tracer.create_node

    def new_graph(self) -> Graph:  # type: ignore[override]
        """Return an empty graph of torch's kind that remembers the class of its tracer."""
        return EffectsGraph(tracer_cls=type(self))

    @classmethod
    def _graph_module_deserialization_tracer(cls, root: nn.Module) -> Tracer:
        # torch asks for it, since 2.15, when it reads a pickled graph module
        return cls()


class UntraceableError(TypeError, AssertionError):
    """What is to be traced is neither a module nor a Python function. In torch: the latter base."""


def refuse_untraceable(root: Any, method: str) -> None:
    """Refuse a root that is neither a Python function nor a module with such a method.

    Raises:
        UntraceableError: It is neither; the message says what to trace instead.
    """
    is_module = isinstance(root, nn.Module)
    function: Any = getattr(type(root), method, None) if is_module else root
    if not isinstance(inspect.unwrap(function), FunctionType | MethodType):
        kind = type(root).__name__
        raise UntraceableError(
            f"`{method}` doesn't exist in {kind} or isn't a function: set `traced_func_name` to one"
            if is_module
            else f"can't trace a {kind}: pass a module, or a function that calls it"
        )


def symbolic_trace(
    root: nn.Module | Callable[..., Any],
    concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
) -> GraphModule:
    """Trace ``root`` and return a module of torch's that runs the recorded graph.

    ``concrete_args`` are arguments that are known now, so that code may branch on them, and
    containers to flatten, with ``torch.fx.PH`` for each leaf that stays an input.

    In torch: ``torch.fx.symbolic_trace``.

    >>> def power(x, n):
    ...     return x if n == 1 else x * power(x, n - 1)
    >>> cube = symbolic_trace(power, {"n": 3})
    >>> cube(2, 3)
    8
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    gm = _make_graph_module(tracer.root, graph, name)
    keep_persistence(gm, tracer.root)
    return gm
