"""Record a run as a graph.

The last three lessons come together. A tracer calls the model with proxies, and every operation
on a proxy adds a node. Two things a model does are no operations on a proxy: it calls its
modules, and it reads its parameters. Python has one place for each, ``nn.Module.__call__`` and
``nn.Module.__getattr__``. While a trace runs, and only then, both are replaced, and ask the
tracer.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import nn
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
        raise NotImplementedError("tracer: return the graph of what ``root`` does")

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
        raise NotImplementedError(
            "tracer: let this tracer decide what modules do while the block runs"
        )

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
        raise NotImplementedError(
            "tracer: record a call of a module: one node for a leaf, else whatever its ``forward`` does"
        )

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
        raise NotImplementedError(
            "tracer: return whether a call of ``m`` is one node, instead of what happens inside ``m``"
        )

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
        raise NotImplementedError(
            "tracer: return what the traced code gets when it looks at an attribute of a module"
        )


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
    raise NotImplementedError(
        "tracer: return a module that does what ``root`` does, from its recorded graph"
    )


def tracing_flag() -> tuple[Any, str]:  # given
    """Return where torch notes that a trace is on: an object and the name of its attribute.

    Up to torch 2.13 that is a global for all threads; later each thread has its own.
    """
    own = getattr(torch_fx, "_is_fx_tracing_tls", None)
    return (torch_fx, "_is_fx_tracing_flag") if own is None else (own, "flag")
