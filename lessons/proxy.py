"""A value that writes down what is done to it.

Call a function with a proxy: each operation on it adds a node to a graph, and answers with a proxy
of that node. No number is computed. When the function returns, the graph says what it did.

Python hands an operation to its operand in four ways, and a proxy answers all of them: operators
(``x + 1``), torch's functions (``torch.relu(x)``), attributes and methods (``x.relu()``), and
questions that only a number can answer (``if x:``). These it refuses.
"""

from __future__ import annotations

import operator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch.fx import Graph, Node

# Python's operators by their names in `operator`; those in BINARY have a reflected form as well.
UNARY = ["abs", "invert", "neg", "pos", "eq", "ge", "gt", "le", "lt", "ne"]
BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "getitem"]
BINARY += ["and_", "or_", "xor", "lshift", "rshift"]


def record_call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Record a call of a function that has a proxy somewhere among its arguments.

    Args:
        function: What is called: ``operator.add``, ``torch.cat``, ``torch.Tensor.add``.
        args: The arguments; a proxy may be inside a list, tuple or dict.
        kwargs: The keyword arguments.

    Returns:
        The proxy of a new node, which the tracer of the first proxy creates. It is a
        ``call_method`` node if ``function`` is a method of tensors, else a ``call_function`` node.

    In torch: ``Proxy.__torch_function__``.
    """
    raise NotImplementedError(
        "proxy: record a call of a function that has a proxy somewhere among its arguments"
    )


def refusal(error: type[Exception], reason: str, way_out: str) -> Exception:
    """Return an error that says what can't be traced, where, and what to write instead.

    Args:
        error: The type of the error.
        reason: Why it can't be traced.
        way_out: What to write instead.

    The place is the innermost line that is not in this folder: the user's.
    """
    raise NotImplementedError(
        "proxy: return an error that says what can't be traced, where, and what to write instead"
    )


class Proxy:
    """Stands for the value that a node will have, and records what is done with it.

    Args:
        node: The node.
        tracer: What creates the nodes; by default one that adds them to the node's graph.

    In torch: ``torch.fx.Proxy``.

    >>> import torch
    >>> from torch.fx import Graph
    >>> graph = Graph()
    >>> x = Proxy(graph.placeholder("x"))
    >>> torch.relu(2 * x).sum(dim=-1)
    Proxy(sum_1)
    >>> for node in graph.nodes:
    ...     print(node.op, node.name, node.args)
    placeholder x ()
    call_function mul (2, x)
    call_function relu (mul,)
    call_method sum_1 (relu,)
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:  # given
        self.node = node
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer

    def __repr__(self) -> str:  # given
        return f"Proxy({self.node.name})"

    def __fx_create_arg__(self, tracer: Any) -> Node:  # given
        # torch's tracers ask this of what is no proxy of theirs
        return self.node

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Record a call of one of torch's functions: they hand it over to an argument that asks.

        >>> import torch
        >>> from torch.fx import Graph
        >>> x = Proxy(Graph().placeholder("x"))
        >>> torch.cat([x, x]), torch.ones(3).add(x)
        (Proxy(cat), Proxy(add))
        """
        raise NotImplementedError(
            "proxy: record a call of one of torch's functions: they hand it over to an argument that asks"
        )

    def __getattr__(self, attr: str) -> Attribute:
        """Return the attribute of that name, or the method: which of them is not known yet.

        >>> from torch.fx import Graph
        >>> x = Proxy(Graph().placeholder("x"))
        >>> x.relu(), x.shape + (1,)
        (Proxy(relu), Proxy(add))
        """
        raise NotImplementedError(
            "proxy: return the attribute of that name, or the method: which of them is not known yet"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Record that the value is called: a ``call_method`` of ``__call__``."""
        raise NotImplementedError(
            "proxy: record that the value is called: a ``call_method`` of ``__call__``"
        )

    def __bool__(self) -> bool:
        """Ask the tracer: ``if x``, ``x and y``, ``not x``, ``assert x``."""
        raise NotImplementedError(
            "proxy: ask the tracer: ``if x``, ``x and y``, ``not x``, ``assert x``"
        )

    def __iter__(self) -> Iterator[Any]:
        """Return the elements where the caller wants a known number of them; else ask the tracer.

        Only ``a, b = x`` says how many: the caller's frame is at an ``UNPACK_SEQUENCE``. In
        ``for y in x``, ``f(*x)`` and ``y in x`` the number is unknown.

        >>> from torch.fx import Graph
        >>> first, second = Proxy(Graph().placeholder("x"))
        >>> first, second
        (Proxy(getitem), Proxy(getitem_1))
        """
        raise NotImplementedError(
            "proxy: return the elements where the caller wants a known number of them; else ask the tracer"
        )

    def keys(self) -> Any:
        """Ask the tracer: Python calls it for ``f(**x)``."""
        raise NotImplementedError("proxy: ask the tracer: Python calls it for ``f(**x)``")

    def __len__(self) -> int:
        """Refuse with a ``RuntimeError``: Python wants a number, not a proxy of one."""
        raise NotImplementedError(
            "proxy: refuse with a ``RuntimeError``: Python wants a number, not a proxy of one"
        )

    def __index__(self) -> int:
        """Refuse with a ``TypeError``: ``range(x)`` and ``[1, 2][x]`` want a number."""
        raise NotImplementedError(
            "proxy: refuse with a ``TypeError``: ``range(x)`` and ``[1, 2][x]`` want a number"
        )


class Attribute(Proxy):
    """``x.name`` of a proxy, before it is known whether that is a method.

    Called, it is a ``call_method`` node of that name. Used in any other way, it is the value of a
    ``call_function`` node of ``getattr``, which is created at the first use.

    In torch: ``torch.fx.proxy.Attribute``.
    """

    def __init__(self, root: Proxy, attr: str) -> None:  # given
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node of ``getattr``; at the first use it is created."""
        raise NotImplementedError("proxy: the node of ``getattr``; at the first use it is created")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Record a call of the method."""
        raise NotImplementedError("proxy: record a call of the method")


class TraceError(ValueError):
    """A trace asked for what only a value has. In torch: ``torch.fx.proxy.TraceError``."""


class TracerBase:  # given
    """Turns what proxies report into nodes of ``self.graph``; every method may be overridden.

    In torch: ``torch.fx.proxy.TracerBase``.
    """

    graph: Graph
    traced_func_name = "forward"  # these two are what tracers of modules read
    proxy_buffer_attributes = False

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Any:
        """Create a node from arguments in which proxies may occur, and return its proxy."""
        plain_args, plain_kwargs = self.create_arg(args), self.create_arg(kwargs)
        return self.proxy(self.create_node(kind, target, plain_args, plain_kwargs, name, type_expr))

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node to the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Any:
        """Return the proxy of a node."""
        return Proxy(node, self)

    def create_arg(self, a: Any) -> Any:
        """Return a value with the node of each proxy in the proxy's place."""
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, tuple | list):
            return type(a)(map(self.create_arg, a))
        if isinstance(a, slice | range):
            return type(a)(*map(self.create_arg, (a.start, a.stop, a.step)))
        if isinstance(a, dict):
            if any(isinstance(each, Proxy) for each in tree_leaves([*a])):
                raise refusal(RuntimeError, "a proxy is no key: its value is unknown", "use a str")
            return {key: self.create_arg(value) for key, value in a.items()}
        if is_dataclass(a) and not isinstance(a, type):
            kwargs = {each.name: self.create_arg(getattr(a, each.name)) for each in fields(a)}
            return self.create_node("call_function", type(a), (), kwargs)
        return a

    def to_bool(self, obj: Proxy) -> bool:
        """Refuse with a ``TraceError``: only a value is true or false."""
        raise refusal(
            TraceError, "a proxy is neither true nor false while tracing", "use `torch.where`"
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Refuse with a ``TraceError``: only a value has a known number of elements."""
        raise refusal(
            TraceError, "a proxy has no known length while tracing", "index it: `x[0]`, `x[1]`"
        )

    def keys(self, obj: Proxy) -> Any:
        """Record a call of the method ``keys``."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):  # given
    """Adds nodes to a graph that is there already. In torch: a class of the same name."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


def operator_method(name: str, *, reflected: bool = False) -> Callable[..., Any]:  # given
    """Return a method that records the call of a function of ``operator``."""

    def method(*operands: Any) -> Any:
        return record_call(getattr(operator, name), *operands[:: -1 if reflected else 1])

    return method


for _name in UNARY + BINARY:
    setattr(Proxy, f"__{_name.strip('_')}__", operator_method(_name))
for _name in BINARY:
    setattr(Proxy, f"__r{_name.strip('_')}__", operator_method(_name, reflected=True))
