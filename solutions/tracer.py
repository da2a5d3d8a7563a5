"""Record a run as a graph.

A tracer calls the model with proxies, and every operation on a proxy adds a node. Two things that
a model does are not operations on a proxy: it calls submodules (``nn.Module.__call__``) and reads
parameters (``nn.Module.__getattr__``). During a trace, both methods are replaced with functions
that call ``Tracer.call_module`` and ``Tracer.getattr``. You have written everything else already.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn

from given.tracer import tracing_flag

from .code import GraphModule
from .create_arg import CreateArg
from .graph import Graph
from .path_of_module import PathOfModule
from .placeholders import Placeholders
from .proxy import TracerBase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .graph import Node
    from .proxy import Proxy

# Saved on import: during a trace, patched_modules replaces both.
ORIGINAL_CALL, ORIGINAL_GETATTR = nn.Module.__call__, nn.Module.__getattr__


class Tracer(PathOfModule, CreateArg, Placeholders, TracerBase):
    """Runs a module or a function once, with proxies, and records the operations as a graph.

    To change what is recorded, override a method. Two tracers share no state.

    Attributes:
        root: The module below which all paths begin; ``trace`` sets it.
        graph: The graph that is being recorded; ``trace`` sets it.
        scope: The module whose call is in progress.
        module_stack: The module calls in progress, outermost first; see ``call_module``.
        num_calls: How often the module at each path has been called. ``trace`` doesn't reset it.
        node_name_to_scope: The scope in which each node was created, by the node's name.
        proxy_buffer_attributes: Whether reading a buffer returns a proxy, as for a parameter.

    In torch: ``torch.fx.Tracer``.
    """

    proxy_buffer_attributes = False

    def __init__(self) -> None:  # given
        super().__init__()
        self.scope = Scope("", None)
        self.module_stack: OrderedDict[str, tuple[str, Any]] = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope: dict[str, Scope] = {}

    def trace(self, root: nn.Module | Callable[..., Any]) -> Graph:  # step 6
        """Trace ``root`` and return the graph.

        Args:
            root: A function, or a module, whose ``forward`` is traced in its current mode.

        Returns:
            A graph, made by ``new_graph``, with placeholders, the recorded operations, and an
            ``output`` node, made by ``create_node``, with the target ``"output"``. Its one argument
            is the result of the call, as ``create_arg`` converts it, even ``None``. Its
            ``type_expr`` is the function's return annotation, if it has one:
            ``inspect.get_annotations(function).get("return")``.

        Raises:
            TraceError: The code branches on a proxy. ``TracerBase`` raises it.

        ``self.root`` is ``root`` if that is a module, otherwise a new empty module, which stores
        the constants of the function. For a module, call ``type(root).forward``, and not the
        module: then there is no node for the call of the root. In torch: ``torch.fx.Tracer.trace``.

        >>> class Block(nn.Linear):
        ...     def forward(self, x):
        ...         return x.relu() + self.bias
        >>> for node in Tracer().trace(Block(2, 2)).nodes:
        ...     print(node.op, node.name, node.args)
        placeholder x ()
        call_method relu (x,)
        get_attr bias ()
        call_function add (relu, bias)
        output output (add,)
        """
        if is_module := isinstance(root, nn.Module):
            self.root, function = root, type(root).forward
        else:
            self.root, function = nn.Module(), root
        self.graph = self.new_graph()
        call, args = self.create_args_for_root(function, is_module)
        with self.patched_modules():
            result = self.create_arg(call(*args))
            annotations = inspect.get_annotations(inspect.unwrap(call))
            self.create_node("output", "output", (result,), {}, None, annotations.get("return"))
        return self.graph

    def new_graph(self) -> Graph:  # given
        """Return an empty graph."""
        return Graph()

    @contextmanager
    def patched_modules(self) -> Iterator[None]:  # step 2
        """Send module calls and attribute reads to this tracer while the block runs.

        In the block, ``nn.Module.__call__`` and ``nn.Module.__getattr__`` are functions of yours.

        - Calling any module calls ``self.call_module(module, forward, args, kwargs)``, where
          ``forward(*args, **kwargs)`` is the original call, including hooks. The keywords are the
          module's, and one of them may have the name of a parameter of your function.
        - Reading a parameter, buffer or submodule calls ``self.getattr(name, value, cache)``. The
          ``cache`` is one dict for the whole block, empty at first. A name that the module doesn't
          have raises an ``AttributeError``, as always.
        - Torch's own flag for a running trace is True; ``tracing_flag()`` says where it is: the
          object, and the name of the attribute.

        After the block, even after an error, all three are what they were before it. Blocks may be
        nested; calls and reads in the inner one reach its tracer alone. In torch:
        ``module_call_wrapper`` and ``module_getattr_wrapper`` inside ``Tracer.trace``, and
        ``_Patcher``.

        >>> class Loud(Tracer):
        ...     def call_module(self, m, forward, args, kwargs):
        ...         return f"{type(m).__name__} is called"
        >>> with Loud().patched_modules():
        ...     nn.ReLU()(1)
        'ReLU is called'
        """
        proxies: dict[str, Proxy] = {}

        def call(module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
            return self.call_module(module, partial(ORIGINAL_CALL, module), args, kwargs)

        def get(module: nn.Module, name: str) -> Any:
            return self.getattr(name, ORIGINAL_GETATTR(module, name), proxies)

        changes = (nn.Module, "__call__", call), (nn.Module, "__getattr__", get)
        with _patched(*changes, (*tracing_flag(), True)):
            yield

    def call_module(
        self,
        m: nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:  # step 4
        """Record a call of a module: one node for a leaf, otherwise the operations inside it.

        ``forward(*args, **kwargs)`` runs the module ``m``, including its hooks. The arguments may
        contain proxies.

        Returns:
            For a leaf, the proxy of a ``call_module`` node whose target is the path; the module
            isn't run. Otherwise what ``forward`` returns.

        Raises:
            NameError: ``m`` is neither the root nor inside it. ``path_of_module`` raises it.

        During the call, ``self.scope`` is ``Scope(path, class)``, and ``self.module_stack`` has one
        more entry, ``path: (path, class)``. Both are restored afterwards, even after an error. A
        dict has one entry per key, so the second call of ``layer.relu`` has the key
        ``layer.relu@1`` and the third ``layer.relu@2``; the path in the entry, and the target of a
        leaf, stay ``layer.relu``. ``self.num_calls`` counts the calls that have begun.

        It also works outside of ``trace``, once ``self.root`` and ``self.graph`` are set. In
        torch: ``torch.fx.Tracer.call_module``.

        >>> tracer = Tracer()
        >>> nodes = tracer.trace(nn.Sequential(nn.Sequential(nn.ReLU()), nn.Tanh())).nodes
        >>> [list(node.meta["nn_module_stack"]) for node in nodes if node.op == "call_module"]
        [['0', '0.0'], ['1']]
        """
        path = self.path_of_module(m)
        count = self.num_calls.get(path, 0)
        self.num_calls[path] = count + 1
        key = f"{path}@{count}" if count else path
        outer, self.scope = self.scope, Scope(path, type(m))
        self.module_stack[key] = (path, type(m))
        try:
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)
        finally:
            del self.module_stack[key]
            self.scope = outer

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:  # step 3
        """Create a node as ``TracerBase`` does, and note in which module call that happened.

        An addition in ``layer1.0`` and one in ``layer2.0`` look alike in the graph; these notes
        tell them apart. ``node_name_to_scope[node.name]`` is the current scope. If a module call is
        in progress, ``node.meta["nn_module_stack"]`` is the module stack as it is now; otherwise
        there is no such entry.

        In torch: ``TracerBase.create_node``.

        >>> tracer = Tracer()
        >>> tracer.graph = tracer.new_graph()
        >>> tracer.scope = Scope("layer1", nn.Sequential)
        >>> node = tracer.create_node("call_function", abs, (1,), {})
        >>> tracer.node_name_to_scope["abs_1"].module_path
        'layer1'
        """
        node = super().create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = self.scope
        if self.module_stack:
            node.meta["nn_module_stack"] = self.module_stack.copy()
        return node

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:  # step 1
        """Return whether a call of ``m`` is recorded as one node, without running ``m``.

        ``nn.Linear`` is a leaf: as a rule, you don't want the operations inside it. A module of
        yours isn't. So a class of ``torch.nn`` or ``torch.ao.nn`` (or of their submodules) is a
        leaf, even if it has children. One class of theirs only calls other modules, and neither it
        nor a subclass is ever a leaf: ``nn.Sequential``.

        ``type(m).__module__`` says where a class was defined. The path is for subclasses that
        decide by it.

        In torch: ``torch.fx.Tracer.is_leaf_module``.

        >>> [Tracer().is_leaf_module(module, "") for module in (nn.ReLU(), nn.Sequential())]
        [True, False]
        """
        is_torchs = m.__module__.startswith(("torch.nn", "torch.ao.nn"))
        return is_torchs and not isinstance(m, nn.Sequential)

    def getattr(
        self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]
    ) -> Any:  # step 5
        """Return what the traced code receives when it reads an attribute of a module.

        ``self.weight.t()`` involves no proxy. To get a node for ``t``, ``self.weight`` has to be
        one.

        ``parameter_proxy_cache`` has the proxies returned so far in this trace, by path. With it, a
        parameter that is read twice is one node.

        Returns:
            The proxy of a ``get_attr`` node, whose target is the path, if ``attr_val`` is a
            parameter that the root or one of its submodules has; with
            ``self.proxy_buffer_attributes``, also if it is such a buffer. Otherwise ``attr_val``
            itself: a submodule, ``None``, a parameter from elsewhere.

        In torch: ``torch.fx.Tracer.getattr``.

        >>> tracer, model, cache = Tracer(), nn.BatchNorm1d(2), {}
        >>> tracer.root, tracer.graph = model, tracer.new_graph()
        >>> tracer.getattr("weight", model.weight, cache)
        Proxy(weight)
        >>> tracer.getattr("running_mean", model.running_mean, cache)
        tensor([0., 0.])
        """
        is_buffer = self.proxy_buffer_attributes and isinstance(attr_val, Tensor)
        is_proxied = is_buffer or isinstance(attr_val, nn.Parameter)
        path = self.path_of_value(attr_val) if is_proxied else None
        if path is None:
            return attr_val
        if path not in parameter_proxy_cache:
            parameter_proxy_cache[path] = self.create_proxy("get_attr", path, (), {})
        return parameter_proxy_cache[path]


class Scope(NamedTuple):
    """The module whose call is in progress: its path and its class. For the root, "" and ``None``.

    In torch: ``torch.fx.proxy.Scope``.
    """

    module_path: str
    module_type: type[nn.Module] | None


def symbolic_trace(root: nn.Module | Callable[..., Any]) -> GraphModule:  # step 7
    """Trace ``root`` and return a module that runs the recorded graph.

    Returns:
        A ``GraphModule`` whose class is named after the class of ``root``, or after the function.
        It holds those parameters and modules of ``root`` that the graph refers to, not copies.

    In torch: ``torch.fx.symbolic_trace``.

    >>> def double(x):
    ...     return x + x
    >>> symbolic_trace(double)(4)
    8
    """
    tracer = Tracer()
    graph = tracer.trace(root)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


@contextmanager
def _patched(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Set attributes while the block runs; each change is ``(owner, name, value)``."""
    before = [(owner, name, getattr(owner, name, False)) for owner, name, _ in changes]
    try:
        for change in changes:
            setattr(*change)
        yield
    finally:
        for unchanged in before:
            setattr(*unchanged)
