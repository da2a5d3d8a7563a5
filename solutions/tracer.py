"""Record a run as a graph.

The last three lessons come together. A tracer calls the model with proxies, and every operation
on a proxy adds a node. Two things a model does are no operations on a proxy: it calls its
modules, and it reads its parameters. Python has one place for each, ``nn.Module.__call__`` and
``nn.Module.__getattr__``. While a trace runs, and only then, both are replaced, and ask the
tracer.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Proxy
from torch.fx import _symbolic_trace as torch_fx
from torch.fx.proxy import Scope, TracerBase

from .create_arg import CreateArg
from .path_of_module import PathOfModule
from .placeholders import Placeholders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What a module does when nobody traces it.
ORIGINAL_CALL, ORIGINAL_GETATTR = nn.Module.__call__, nn.Module.__getattr__


class Tracer(PathOfModule, CreateArg, Placeholders, TracerBase):
    """Records what a module or function does to its arguments.

    ``Tracer().trace(model)`` returns the graph; ``symbolic_trace(model)`` a module that runs. A
    subclass decides what is recorded: every method, here and in ``TracerBase``, may be overridden.

    Attributes:
        scope: path and class of the module that runs; ``""`` and ``None`` in the root.
        module_stack: the calls that are running, outermost first: ``key: (path, class)``.
        num_calls: how often each path was called so far.
        node_name_to_scope: in which scope each node was made, by the node's name.

    In torch: ``torch.fx.Tracer``.
    """

    def __init__(self) -> None:  # given
        super().__init__()
        self.scope = Scope("", None)
        self.module_stack: OrderedDict[str, tuple[str, Any]] = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope: dict[str, tuple[str, Any]] = {}

    def trace(
        self, root: nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
    ) -> Graph:
        """Return the graph of what ``root`` does.

        Args:
            root: A module, of which the method named ``self.traced_func_name`` is traced, or a
                function.
            concrete_args: Arguments that are known now; handed to ``create_args_for_root``.

        Returns:
            The graph. It has placeholders, what happened to them, and an ``output`` node that
            holds the result, converted by ``create_arg``, and has the annotation of the return
            value as its type. The graph knows the tracer's class (``tracer_cls``). ``self.root``
            is the module that its names refer to: ``root`` itself, or an empty module that
            receives the constants of a function.

        The function that runs is the plain one of the module's class, with the root as its first
        argument; the root's own call is not recorded. In torch: ``torch.fx.Tracer.trace``.

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
        is_module = isinstance(root, nn.Module)
        function = getattr(type(root), self.traced_func_name) if is_module else root
        self.root = root if isinstance(root, nn.Module) else nn.Module()
        self.graph = Graph(tracer_cls=type(self))  # type: ignore[arg-type]  # says torch's Tracer
        call, args = self.create_args_for_root(function, is_module, concrete_args)
        with self.patched_modules():
            result = self.create_arg(call(*args))
            annotations = inspect.get_annotations(inspect.unwrap(call))
            self.create_node("output", "output", (result,), {}, None, annotations.get("return"))
        return self.graph

    @contextmanager
    def patched_modules(self) -> Iterator[None]:
        """Let this tracer decide what modules do while the block runs.

        In the block, a call of any module comes to ``self.call_module(module, forward, args,
        kwargs)``; ``forward(*args, **kwargs)`` is the call as it always was, hooks and all. A look
        at what ``nn.Module`` keeps in tables (parameters, buffers, submodules) comes to
        ``self.getattr(name, value, cache)``, with one empty ``cache`` for the whole block. And
        torch's own flag says that a trace is on; ``tracing_flag()`` tells where it is.

        Afterwards all three are what they were before the block, which may be inside another
        trace; after an error as well. In torch these are ``module_call_wrapper`` and
        ``module_getattr_wrapper`` inside ``Tracer.trace``, and ``_Patcher``.

        >>> class Loud(Tracer):
        ...     def call_module(self, m, forward, args, kwargs):
        ...         return f"{type(m).__name__} is called"
        >>> with Loud().patched_modules():
        ...     nn.ReLU()(1)
        'ReLU is called'
        """
        call, get = _recorders(self)
        changes = (nn.Module, "__call__", call), (nn.Module, "__getattr__", get)
        with _patched(*changes, (*tracing_flag(), True)):
            yield

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
        ``path@1: ...``, for the third ``path@2``. Then both are what they were, after an error as
        well. ``TracerBase.create_node`` writes them onto each node. In torch:
        ``torch.fx.Tracer.call_module``.

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

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Return whether a call of ``m`` is one node, instead of what happens inside ``m``.

        Args:
            m: The module that is called.
            module_qualified_name: Its path below the root.

        A module is a leaf if its class was written in ``torch.nn`` (or ``torch.ao.nn``), whatever
        it holds, but for ``nn.Sequential``. In torch: ``torch.fx.Tracer.is_leaf_module``.

        >>> [Tracer().is_leaf_module(module, "") for module in (nn.ReLU(), nn.Sequential())]
        [True, False]
        """
        is_torchs = m.__module__.startswith(("torch.nn", "torch.ao.nn"))
        return is_torchs and not isinstance(m, nn.Sequential)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """Return what the traced code gets when it looks at an attribute of a module.

        Args:
            attr: The attribute's name.
            attr_val: Its value.
            parameter_proxy_cache: Path to proxy, for this trace. A parameter that is looked at
                twice is one node.

        Returns:
            For a parameter of the root, and with ``self.proxy_buffer_attributes`` for a buffer
            too, the proxy of a ``get_attr`` node. Anything else, as it is: a buffer, a submodule,
            a parameter that the root doesn't hold. Parameters are told apart by identity.

        In torch: ``torch.fx.Tracer.getattr``.
        """
        is_buffer = self.proxy_buffer_attributes and isinstance(attr_val, Tensor)
        is_proxied = is_buffer or isinstance(attr_val, nn.Parameter)
        path = self.path_of_value(attr_val) if is_proxied else None
        if path is None:
            return attr_val
        if path not in parameter_proxy_cache:
            parameter_proxy_cache[path] = self.create_proxy("get_attr", path, (), {})
        return parameter_proxy_cache[path]


def symbolic_trace(
    root: nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """Return a module that does what ``root`` does, from its recorded graph.

    Args:
        root: A module or a function.
        concrete_args: Arguments that are known now; handed to ``trace``.

    Returns:
        A ``GraphModule`` with the class or function name of ``root``, and the very parameters and
        modules of the tracer's root that the graph refers to.

    In torch: ``torch.fx.symbolic_trace``.

    >>> def double(x):
    ...     return x + x
    >>> symbolic_trace(double)(4)
    8
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


def tracing_flag() -> tuple[Any, str]:  # given
    """Return where torch notes that a trace is on: an object and the name of its attribute.

    Up to torch 2.13 that is a global for all threads; later each thread has its own.
    """
    own = getattr(torch_fx, "_is_fx_tracing_tls", None)
    return (torch_fx, "_is_fx_tracing_flag") if own is None else (own, "flag")


def _recorders(tracer: Tracer) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return what takes the place of ``nn.Module.__call__`` and ``__getattr__`` in one trace."""
    parameter_proxies: dict[str, Proxy] = {}

    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return tracer.call_module(module, partial(ORIGINAL_CALL, module), args, kwargs)

    def get(module: nn.Module, name: str) -> Any:
        return tracer.getattr(name, ORIGINAL_GETATTR(module, name), parameter_proxies)

    return call, get


@contextmanager
def _patched(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Give attributes other values while the block runs: ``(owner, name, value)`` each."""
    before = [(owner, name, getattr(owner, name, False)) for owner, name, _ in changes]
    try:
        for change in changes:
            setattr(*change)
        yield
    finally:
        for unchanged in before:
            setattr(*unchanged)
