"""Record a run as a graph.

The first three lessons come together. A tracer calls the model with proxies; every operation on
a proxy adds a node. What is missing is attention to modules: a call of one, and a look at one
of its parameters, must become nodes as well. Python has one place for each,
``nn.Module.__call__`` and ``nn.Module.__getattr__``. While a trace runs, and only then, both are
patched: they ask the tracer.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections import OrderedDict
from pathlib import Path
from traceback import StackSummary
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch.fx.traceback as fx_traceback
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node, Proxy
from torch.fx._lazy_graph_module import _make_graph_module
from torch.fx.proxy import ParameterProxy, Scope, TracerBase

from .._nodes import add_node
from .._paths import registered_path
from ..create_arg import CreateArg
from ..path_of_module import PathOfModule
from ..placeholders import Placeholders
from ._recording import recording
from ._root import describe, forgetting_failure, function_to_trace

if TYPE_CHECKING:
    from collections.abc import Callable

_LEAF_NAMESPACES = ("torch.nn", "torch.ao.nn")
_OWN_FOLDER = Path(__file__).parent.parent


class Tracer(PathOfModule, CreateArg, Placeholders, TracerBase):
    """Records what a module or function does to its arguments.

    Make a subclass to decide what is recorded: every method here and in ``TracerBase`` is there
    to be overridden. ``Tracer().trace(model)`` returns the graph; ``symbolic_trace(model)`` a
    module that runs.

    Args:
        autowrap_modules: Their public functions are recorded as calls wherever the traced code
            finds them.
        autowrap_functions: Likewise, single functions.
        param_shapes_constant: Whether ``shape``, ``size()`` and the like of a parameter are
            numbers, so that code may branch on them, and not proxies.

    In torch: ``torch.fx.Tracer``.

    >>> from torch import nn
    >>> class Block(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.linear = nn.Linear(2, 2)
    ...
    ...     def forward(self, x):
    ...         return self.linear(x).relu() + self.linear.bias
    >>> for node in Tracer().trace(Block()).nodes:
    ...     print(node.op, node.name, node.args)
    placeholder x ()
    call_module linear (x,)
    call_method relu (linear,)
    get_attr linear_bias ()
    call_function add (relu, linear_bias)
    output output (add,)
    """

    def __init__(  # given
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrap_search = list(autowrap_modules)
        self._autowrap_function_ids = {id(function) for function in autowrap_functions}
        self.param_shapes_constant = param_shapes_constant
        # Where the trace is: in which module, inside which others, and how often each was called
        self.root_module_name = ""
        self.submodule_paths: dict[nn.Module, str] | None = None
        self.scope = Scope("", None)
        self.module_stack: OrderedDict[str, tuple[str, Any]] = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope: dict[str, tuple[str, Any]] = {}

    def trace(
        self,
        root: nn.Module | Callable[..., Any],
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> Graph:
        """Return the graph of what ``root`` does.

        Args:
            root: A module, of which the method named ``self.traced_func_name`` is traced, or a
                function.
            concrete_args: Arguments that are known now; see ``create_args_for_root``.

        Returns:
            The graph: placeholders, what happened to them, and an ``output`` node with the
            result and the annotation of the return value. ``self.root`` is the module that its
            names refer to: ``root`` itself, or an empty module that receives the constants of a
            function.

        Raises:
            TypeError: ``root`` is neither a module nor a Python function.
            AttributeError: The module's class has no method of that name.

        While ``root`` runs, ``torch.fx._symbolic_trace.is_fx_symbolic_tracing()`` is true. It asks
        ``_is_fx_tracing_flag`` of that module, or, since torch 2.14, ``_is_fx_tracing_tls.flag``.
        Whatever happens, the flag and ``nn.Module`` are afterwards what they were before.
        Traces may be nested, and run in several threads at once; other threads' modules run as
        always. An error whose message says ``data-dependent`` carries the code so far as
        ``partial_fx_graph``.

        >>> def f(x):
        ...     return x.softmax(dim=-1)
        >>> print(Tracer().trace(f))
        graph():
            %x : [num_users=1] = placeholder[target=x]
            %softmax : [num_users=1] = call_method[target=softmax](args = (%x,), kwargs = {dim: -1})
            return softmax
        """
        function = function_to_trace(root, self.traced_func_name)
        is_module = isinstance(root, nn.Module)
        self.root = root if isinstance(root, nn.Module) else nn.Module()
        self.root_module_name = self.root._get_name() if is_module else ""
        self._callees: dict[str, nn.Module] = {}
        self.graph = Graph(tracer_cls=type(self))  # type: ignore[arg-type]  # says torch's Tracer
        describe(self.graph, function)
        with forgetting_failure(self):
            call, args = self.create_args_for_root(function, is_module, concrete_args)
            with recording(self) as record:
                record.autowrap(function.__globals__)
                result = self.create_arg(call(*args))
                annotations = inspect.get_annotations(inspect.unwrap(call))
                self.create_node("output", "output", (result,), {}, None, annotations.get("return"))
        return self.graph

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Return whether a call of ``m`` is one node, instead of what happens inside ``m``.

        Args:
            m: The module that is called.
            module_qualified_name: Its path below the root.

        Modules that PyTorch brings along, in ``torch.nn`` and ``torch.ao.nn``, are leaves, but for
        ``Sequential``. In torch: ``torch.fx.Tracer.is_leaf_module``.

        >>> [Tracer().is_leaf_module(module, "") for module in (nn.ReLU(), nn.Sequential())]
        [True, False]
        """
        return m.__module__.startswith(_LEAF_NAMESPACES) and not isinstance(m, nn.Sequential)

    def call_module(
        self,
        m: nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Record a call of a module: one node for a leaf, else whatever its ``forward`` does.

        Args:
            m: The module that the traced code calls.
            forward: Runs it, hooks and all, with the arguments it is given.
            args: Its arguments, in which proxies may occur.
            kwargs: Its keyword arguments.

        Returns:
            The proxy of a new ``call_module`` node, or what ``forward`` returns.

        While the call lasts, ``self.scope`` is the module's path and class, and the last entry
        of ``self.module_stack`` is ``path: (path, class)``; for the module's second call
        ``path@1: ...``, for the third ``path@2``. An error takes them away as well. In torch:
        ``torch.fx.Tracer.call_module``.

        Raises:
            NameError: Another module was recorded under the same path before.
        """
        path = self.path_of_module(m)
        count = self.num_calls.get(path, 0)
        self.num_calls[path] = count + 1
        key = f"{path}@{count}" if count else path
        outer, self.scope = self.scope, Scope(path, type(m))
        self.module_stack[key] = (path, type(m))
        try:
            if self.is_leaf_module(m, path):
                if self._callees.setdefault(path, m) is not m:
                    raise NameError(
                        f"{path!r} led to another module when it was called before: a graph has "
                        "one module for a path, so don't replace modules while they are traced"
                    )
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)
        finally:
            del self.module_stack[key]
            self.scope = outer

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """Return what the traced code gets when it looks at an attribute of a module.

        Args:
            attr: The attribute's name.
            attr_val: Its value.
            parameter_proxy_cache: Path to proxy, for this trace. A parameter that is looked at
                twice is one node.

        Returns:
            For a parameter of the root, and with ``proxy_buffer_attributes`` for a buffer too,
            the proxy of a ``get_attr`` node. With ``param_shapes_constant`` a parameter's is a
            ``ParameterProxy``. Anything else, as it is.

        In torch: ``torch.fx.Tracer.getattr``.
        """
        path = self._path_of_state(attr_val) if isinstance(attr_val, Tensor) else None
        if path is None:
            return attr_val
        if path not in parameter_proxy_cache:
            proxy = self.create_proxy("get_attr", path, (), {})
            if self.param_shapes_constant and isinstance(attr_val, nn.Parameter):
                proxy = ParameterProxy(self, proxy.node, path, attr_val)
            parameter_proxy_cache[path] = proxy
        return parameter_proxy_cache[path]

    def _path_of_state(self, tensor: Tensor) -> str | None:
        """Return the path of a tensor that is read through a proxy, ``None`` for all others."""
        path = None
        if isinstance(tensor, nn.Parameter):
            path = registered_path(self, tensor, "_parameters")
        if path is None and self.proxy_buffer_attributes:
            path = registered_path(self, tensor, "_buffers")
        return path

    def create_node(  # reference only: the inherited one does the same, and more slowly
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node to the graph, and note in which module that happened.

        This is ``TracerBase.create_node`` for a tracer that asks for nothing special; for all
        others it calls that.
        """
        special = self.record_stack_traces or self.check_mutable_operations
        if special or fx_traceback.has_preserved_node_meta():
            return super().create_node(kind, target, args, kwargs, name, type_expr)
        node = add_node(self.graph, kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if self.module_stack:
            node.meta["nn_module_stack"] = self.module_stack.copy()
        return node

    @classmethod
    def _graph_module_deserialization_tracer(cls, root: nn.Module) -> Tracer:  # given
        # torch asks for it, since 2.15, when it reads a pickled graph module
        return cls()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:  # reference only
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        for name, value in vars(self).items():
            # modules, in the sense of files, can't be copied
            is_search = name == "_autowrap_search"
            setattr(twin, name, list(value) if is_search else copy.deepcopy(value, memo))
        return twin

    def _filter_traceback_frames(self, user_stack_summary: StackSummary) -> StackSummary:
        frames = super()._filter_traceback_frames(user_stack_summary)
        return StackSummary.from_list(
            [frame for frame in frames if not Path(frame.filename).is_relative_to(_OWN_FOLDER)]
        )


def symbolic_trace(
    root: nn.Module | Callable[..., Any],
    concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
) -> GraphModule:
    """Return a module that does what ``root`` does, from its recorded graph.

    Args:
        root: A module or a function.
        concrete_args: Arguments that are known now, so that code may branch on them, and
            containers that shall be taken apart, with ``torch.fx.PH`` for what stays an input.

    Returns:
        A ``GraphModule`` with the class or function name of ``root``, its parameters and its
        modules.

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
