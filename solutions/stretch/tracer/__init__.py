"""Unlike the core: a ``torch.fx.Tracer``, with everything that one takes care of, and more.

- It makes torch's objects: the core's makers ``new_graph``, ``create_node`` and ``proxy`` are
  torch's here, so that passes written for torch run on the result.
- Functions under ``torch.fx.wrap``, those of ``math`` and those named to the tracer are recorded
  as calls; ``param_shapes_constant`` makes shapes of parameters plain numbers.
- A trace leaves other threads alone, and traces may overlap: the patched methods ask who is
  tracing in their own thread, and the last trace to end restores them.
- After an error nothing is left on the tracer, and a data-dependent one carries the code so far.
- Roots that can't be traced are refused: neither a module nor a Python function, a class
  without the method, a module that replaces another during the trace.
- Generated code knows its source, graph modules that compile late can be traced, stack traces
  contain no lines of the engine, tracers can be copied.
"""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from contextlib import contextmanager
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from torch import fx, nn
from torch.fx import Graph, GraphModule, Proxy
from torch.fx._lazy_graph_module import _LazyGraphModule, _make_graph_module
from torch.fx.proxy import ParameterProxy

from ... import tracer as core
from ..create_arg import CreateArg
from ..path_of_module import PathOfModule
from ..placeholders import Placeholders
from ..proxy import TracerBase
from ._recording import original, recording, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class ModuleStack(OrderedDict[str, tuple[str, Any]]):
    """The calls in progress; ``copy.copy`` of it is fast, because each node gets a copy."""

    def __copy__(self) -> OrderedDict[str, tuple[str, Any]]:
        return OrderedDict(self)


class TorchsBase(fx.Tracer, TracerBase):
    """What the core's tracer asks ``TracerBase`` for, answered by torch's class of that name.

    As a base of ``Tracer`` it comes after the core, so the core decides, and torch's class makes
    the nodes and proxies. In particular, torch's nodes carry stack traces and preserved metadata.
    """

    create_arg = fx.proxy.TracerBase.create_arg  # `fx.Tracer.create_arg` is what the core replaces
    _filter_traceback_frames = TracerBase._filter_traceback_frames


class Tracer(PathOfModule, CreateArg, Placeholders, core.Tracer, TorchsBase):
    """The core's tracer in torch's place, with torch's options.

    Args:
        autowrap_modules: Their public functions are recorded as calls wherever the traced code
            finds them.
        autowrap_functions: Single functions that are recorded as calls in the same way.
        param_shapes_constant: Whether ``shape``, ``size()`` and the like of a parameter are
            numbers, so that code may branch on them, and not proxies.

    In torch: ``torch.fx.Tracer``.

    >>> import math
    >>> for node in Tracer().trace(lambda x: math.sqrt(x) + 1).nodes:
    ...     print(node.op, node.name, node.args)
    placeholder x ()
    call_function sqrt (x,)
    call_function add (sqrt, 1)
    output output (add,)
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrap_search = [*autowrap_modules]
        self._autowrap_function_ids = {id(function) for function in autowrap_functions} | {
            id(original(vars(module), name))
            for module in autowrap_modules
            for name in vars(module)
            if not name.startswith("_")
        }
        self.param_shapes_constant = param_shapes_constant
        self._traced_function: Callable[..., Any] | None = None
        self._module_at: dict[str, nn.Module] = {}
        self.module_stack = ModuleStack()

    create_node = fx.Tracer.create_node

    def new_graph(self) -> Graph:
        """Return an empty graph of torch's that remembers the class of its tracer."""
        return Graph(tracer_cls=type(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        """Copy the tracer, but not the Python modules in which it searches for functions."""
        memo.update((id(module), module) for module in self._autowrap_search)
        result = memo[id(self)] = copy.copy(self)
        result.__dict__.update(copy.deepcopy(vars(self), memo))
        return result

    def trace(
        self,
        root: nn.Module | Callable[..., Any],
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> Graph:
        """Return the graph of what ``root`` does, and leave nothing behind where that fails.

        Args:
            root: A module or a function, as in the core.
            concrete_args: Arguments that are known now; see ``create_args_for_root``.

        Raises:
            TypeError: ``root`` is neither a module nor a Python function.
            AttributeError: The module's class has no method named ``self.traced_func_name``.

        Traces may be nested, and run in several threads at once; other threads' modules run as
        always. An error whose message says ``data-dependent`` carries the code so far as
        ``partial_fx_graph``. In torch: ``torch.fx.Tracer.trace``.

        >>> Tracer().trace(len)
        Traceback (most recent call last):
            ...
        TypeError: can't trace a builtin_function_or_method: wrap it in a function that calls it
        """
        # A graph module that compiles late has no forward worth tracing before.
        _LazyGraphModule.force_recompile(root)  # type: ignore[arg-type]
        self.root_module_name = root._get_name() if isinstance(root, nn.Module) else ""
        with rollback_on_error(self):
            return super().trace(root, concrete_args)  # type: ignore[arg-type]  # or a tuple

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Record placeholders, and note where the function was written.

        Raises:
            TypeError: It isn't a Python function.
        """
        if not isinstance(root_fn, FunctionType | MethodType if is_module else FunctionType):
            raise TypeError(
                f"can't trace a {type(root_fn).__name__}: wrap it in a function that calls it"
            )
        self._traced_function = root_fn
        self.graph._co_fields = {
            field: getattr(root_fn.__code__, field)
            for field in ("co_name", "co_filename", "co_firstlineno")
        }
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
        """Wrap the functions in a module's globals that are to be recorded everywhere, once."""
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
        if self.param_shapes_constant and type(proxy) is Proxy:
            path = str(proxy.node.target)
            proxy = parameter_proxy_cache[path] = ParameterProxy(self, proxy.node, path, attr_val)
        return proxy

    @classmethod
    def _graph_module_deserialization_tracer(cls, root: nn.Module) -> Tracer:
        # torch asks for it, since 2.15, when it reads a pickled graph module
        return cls()


def symbolic_trace(
    root: nn.Module | Callable[..., Any],
    concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
) -> GraphModule:
    """Return a module that does what ``root`` does, from its recorded graph.

    Args:
        root: A module or a function.
        concrete_args: Arguments that are known now, so that code may branch on them, and
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
    return _make_graph_module(tracer.root, graph, name)


@contextmanager
def rollback_on_error(tracer: Tracer) -> Iterator[None]:
    """Restore the tracer if the trace fails; attach the code so far to data-dependent errors."""
    before = tracer.num_calls.copy(), tracer.node_name_to_scope.copy()
    try:
        yield
    except BaseException as error:
        tracer.num_calls, tracer.node_name_to_scope = before
        if isinstance(error, RuntimeError) and "data-dependent" in str(error):
            code = tracer.graph.python_code(root_module="self", verbose=True)
            error.partial_fx_graph = code.src  # type: ignore[attr-defined]
        raise
    finally:
        tracer._module_at = {}
