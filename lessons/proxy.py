"""A proxy: an object that records every operation on it as a graph node.

Call a function with a proxy in place of a tensor. Each operation on the proxy adds a node to a
graph and returns a new proxy, which stands for the result of that node. Nothing is computed. For
example, ``x + 1`` calls ``Proxy.__add__``, which calls ``record_call(operator.add, x, 1)``, which
calls ``tracer.create_proxy``. That method replaces proxies with their nodes (``create_arg``), adds
a ``call_function`` node to the graph (``create_node``), and returns a proxy of that node
(``proxy``).

A proxy intercepts four kinds of operation: operators (``x + 1``, through ``__add__`` and its like),
torch functions (``torch.relu(x)``, through ``__torch_function__``), attributes and methods
(``x.relu()``, through ``__getattr__``), and conversions to a Python value (``if x:``, through
``__bool__``). It records the first three. A conversion raises an error, because a proxy has no
value.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from torch.utils._pytree import tree_leaves

from given.proxy import call_that_makes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .graph import Graph, Node

# Names of functions in `operator`. BINARY ones also get a reflected method, such as `__radd__`.
# UNARY also holds comparisons, which have none: for `1 < x` Python calls `x.__gt__(1)`.
UNARY = ["abs", "invert", "neg", "pos", "eq", "ge", "gt", "le", "lt", "ne"]
BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "getitem"]
BINARY += ["and_", "or_", "xor", "lshift", "rshift"]


def record_call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # step 1
    """Record a call of a function that has a proxy somewhere among its arguments.

    Args:
        function: The function that is called, such as ``torch.cat`` or ``torch.Tensor.add``.
            ``torch.overrides.is_tensor_method_or_property`` recognises methods of tensors.
        args: The arguments; a proxy may be inside a list, tuple or dict.
        kwargs: The keyword arguments.

    Returns:
        The proxy of a new node, created by the tracer of the first proxy among the arguments. If
        ``function`` is a method of ``torch.Tensor``, the node is a ``call_method`` node with the
        method's name as its target; otherwise it is a ``call_function`` node.

    In torch: ``Proxy.__torch_function__``.
    """
    raise NotImplementedError(
        "proxy: record a call of a function that has a proxy somewhere among its arguments"
    )


class Proxy:
    """Takes the place of the value that a node will have, and records each operation on it.

    Args:
        node: The node whose value the proxy stands for.
        tracer: Creates the nodes for operations on the proxy. Default: a new
            ``GraphAppendingTracer`` for the node's graph.

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
        # torch's tracers call this on an argument that isn't a `torch.fx.Proxy`
        return self.node

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # step 2
        """Record a call of a torch function; torch calls this method if an argument has it.

        >>> import torch
        >>> from torch.fx import Graph
        >>> x = Proxy(Graph().placeholder("x"))
        >>> torch.cat([x, x]), torch.ones(3).add(x)
        (Proxy(cat), Proxy(add))
        """
        raise NotImplementedError(
            "proxy: record a call of a torch function; torch calls this method if an argument has it"
        )

    def __getattr__(self, attr: str) -> Attribute:  # step 3
        """Return an ``Attribute``: only its use will tell whether it is a method.

        >>> from torch.fx import Graph
        >>> x = Proxy(Graph().placeholder("x"))
        >>> x.relu(), x.shape + (1,)
        (Proxy(relu), Proxy(add))
        """
        raise NotImplementedError(
            "proxy: return an ``Attribute``: only its use will tell whether it is a method"
        )

    def __bool__(self) -> bool:  # step 4
        """Return ``tracer.to_bool(self)``: for ``if x``, ``x and y``, ``not x``, ``assert x``."""
        raise NotImplementedError(
            "proxy: return ``tracer.to_bool(self)``: for ``if x``, ``x and y``, ``not x``, ``assert x``"
        )

    def __iter__(self) -> Iterator[Any]:  # step 4
        """Return an iterator, one proxy per element, for ``a, b = x``, else ``tracer.iter(self)``.

        For ``a, b = x`` you can read the number of elements in the caller's bytecode: it is the
        argument of ``UNPACK_SEQUENCE``, the instruction that the caller's frame is executing
        (``f_lasti``). There may be more than 255 names, so the byte after the opcode isn't enough:
        ``dis`` knows the whole number. For ``for y in x``, ``f(*x)``, ``y in x`` and
        ``a, *rest = x`` the number is unknown. Don't use ``yield`` in this method: its body would
        run too late.

        >>> from torch.fx import Graph
        >>> first, second = Proxy(Graph().placeholder("x"))
        >>> first, second
        (Proxy(getitem), Proxy(getitem_1))
        """
        raise NotImplementedError(
            "proxy: return an iterator, one proxy per element, for ``a, b = x``, else ``tracer.iter(self)``"
        )

    def __len__(self) -> int:  # step 4
        """Raise a ``RuntimeError``: ``len`` has to return an ``int``, not a proxy."""
        raise NotImplementedError(
            "proxy: raise a ``RuntimeError``: ``len`` has to return an ``int``, not a proxy"
        )

    def __index__(self) -> int:  # step 4
        """Raise a ``TypeError``: ``range(x)`` and ``[1, 2][x]`` need an ``int``."""
        raise NotImplementedError(
            "proxy: raise a ``TypeError``: ``range(x)`` and ``[1, 2][x]`` need an ``int``"
        )

    def refusal(self, error: type[Exception], reason: str, way_out: str) -> Exception:  # given
        """Return the error to raise, which says what can't be traced and what to write instead."""
        return error(f"{reason}\n{way_out}")


class Attribute(Proxy):
    """The result of ``x.name`` on a proxy: either a method or the value of an attribute.

    Calling it records a ``call_method`` node. Any other use records ``getattr(x, "name")`` as a
    ``call_function`` node, once, at the first use.

    In torch: ``torch.fx.proxy.Attribute``.
    """

    def __init__(self, root: Proxy, attr: str) -> None:  # given
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]  # step 3
        """The ``getattr`` node, created at the first use."""
        raise NotImplementedError("proxy: the ``getattr`` node, created at the first use")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # step 3
        """Record a call of the method."""
        raise NotImplementedError("proxy: record a call of the method")


class TraceError(ValueError):
    """The traced code needs the value of a proxy. In torch: ``torch.fx.proxy.TraceError``."""


class TracerBase:  # given
    """Creates the nodes in ``self.graph``; a subclass may override every method.

    In torch: ``torch.fx.proxy.TracerBase``.
    """

    graph: Graph

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Any:
        """Create a node from arguments that may contain proxies, and return its proxy."""
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
        """Return ``a`` with each proxy in it replaced by its node."""
        if isinstance(a, Proxy):
            return a.node
        if (call := call_that_makes(a)) is not None:  # this node makes one when the graph runs
            args, kwargs = map(self.create_arg, call)
            return self.create_node("call_function", type(a), args, kwargs)
        if isinstance(a, tuple | list):
            elements = map(self.create_arg, a)
            return type(a)(*elements) if hasattr(a, "_fields") else type(a)(elements)
        if isinstance(a, slice | range):
            return type(a)(*map(self.create_arg, (a.start, a.stop, a.step)))
        if isinstance(a, dict):
            for each in tree_leaves([*a]):
                if isinstance(each, Proxy):
                    raise each.refusal(RuntimeError, "a proxy can't be a key", "use a str")
            return {key: self.create_arg(value) for key, value in a.items()}
        return a

    def to_bool(self, obj: Proxy) -> bool:
        """Raise a ``TraceError``: a proxy has no truth value."""
        raise obj.refusal(TraceError, "a proxy is neither true nor false", "use `torch.where`")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Raise a ``TraceError``: the number of elements is unknown."""
        raise obj.refusal(TraceError, "the elements of a proxy are unknown", "index it: `x[0]`")


class GraphAppendingTracer(TracerBase):  # given
    """Adds nodes to an existing graph. In torch: ``torch.fx.proxy.GraphAppendingTracer``."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


def operator_method(name: str, *, reflected: bool = False) -> Callable[..., Any]:  # given
    """Return a method that records a call of ``operator.<name>``."""

    def method(*operands: Any) -> Any:
        return record_call(getattr(operator, name), *operands[:: -1 if reflected else 1])

    return method


for _name in UNARY + BINARY:
    setattr(Proxy, f"__{_name.strip('_')}__", operator_method(_name))
for _name in BINARY:
    setattr(Proxy, f"__r{_name.strip('_')}__", operator_method(_name, reflected=True))
