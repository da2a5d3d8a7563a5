"""A proxy: an object that records every operation on it as a graph node.

Call a function with a proxy in place of a tensor. Each operation on the proxy adds a node to a
graph and returns a new proxy, which stands for the result of that node; nothing is computed. For
``x + 1``, Python calls ``Proxy.__add__``, which calls ``record_call(operator.add, x, 1)``, which
asks the tracer for a node and its proxy (``create_proxy``).
"""

from __future__ import annotations

import dis
import operator
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from torch.overrides import is_tensor_method_or_property
from torch.utils._pytree import tree_leaves

from given.proxy import call_that_makes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType

    from .graph import Graph, Node

# Names of functions in `operator`. BINARY ones also get a reflected method, such as `__radd__`.
# UNARY also holds comparisons, which have none: for `1 < x` Python calls `x.__gt__(1)`.
UNARY = ["abs", "invert", "neg", "pos", "eq", "ge", "gt", "le", "lt", "ne"]
BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "getitem"]
BINARY += ["and_", "or_", "xor", "lshift", "rshift"]


def record_call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # step 1
    """Record a call of a function, and return the proxy of its node.

    Every operator and every torch function ends up here: ``2 * x`` as
    ``record_call(operator.mul, 2, x)``, and ``torch.cat([x, x])`` with its proxies in a list. The
    tracer of the first proxy that you find creates the node. ``tree_leaves`` returns all values in
    nested lists, tuples and dicts.

    Args:
        function: The function. A method of ``torch.Tensor``, such as ``torch.Tensor.add``, becomes
            a ``call_method`` node with the method's name as its target; anything else becomes a
            ``call_function`` node. ``is_tensor_method_or_property``, which you import from
            ``torch.overrides``, tells them apart.
        args: The arguments, at least one of which is or contains a proxy.
        kwargs: The keyword arguments, which may contain the only proxy.

    In torch: ``Proxy.__torch_function__``.

    >>> import torch
    >>> x = Proxy(torch.fx.Graph().placeholder("x"))
    >>> record_call(torch.Tensor.sigmoid, x).node.op
    'call_method'
    >>> record_call(torch.add, torch.ones(2), other=x)
    Proxy(add)
    """
    tracer = next(each.tracer for each in tree_leaves((args, kwargs)) if isinstance(each, Proxy))
    if is_tensor_method_or_property(function):
        return tracer.create_proxy("call_method", function.__name__, args, kwargs)
    return tracer.create_proxy("call_function", function, args, kwargs)


class Proxy:
    """Takes the place of the value that a node will have, and records each operation on it.

    Args:
        node: The node whose value the proxy stands for.
        tracer: Creates the nodes for operations on the proxy. Default: a new
            ``GraphAppendingTracer`` for the node's graph.

    In torch: ``torch.fx.Proxy``.
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
        """Record a call of a torch function.

        If an argument has this method, torch calls it *instead of* running its own function. For
        ``torch.add(x, 1)``, ``orig_method`` is ``torch.add`` and ``args`` is ``(x, 1)``. A call
        without keyword arguments may pass ``None`` as ``kwargs``. ``types`` doesn't matter here.

        >>> import torch
        >>> from torch.fx import Graph
        >>> x = Proxy(Graph().placeholder("x"))
        >>> torch.cat([x, x]), torch.ones(3).add(x)
        (Proxy(cat), Proxy(add))
        """
        return record_call(orig_method, *args, **(kwargs or {}))

    def __getattr__(self, attr: str) -> Attribute:  # step 3
        """Return an ``Attribute`` for ``x.attr``.

        When Python asks for ``x.relu``, you can't know whether a call will follow. So don't record
        anything yet.

        >>> from torch.fx import Graph
        >>> x = Proxy(Graph().placeholder("x"))
        >>> x.relu(), x.shape + (1,)
        (Proxy(relu), Proxy(add))
        """
        return Attribute(self, attr)

    def __bool__(self) -> bool:  # step 4
        """Let the tracer answer ``if x``, ``x and y``, ``not x`` and ``assert x``.

        This tracer raises a ``TraceError``; a subclass may know an answer. See ``TracerBase``.
        """
        return self.tracer.to_bool(self)

    def __iter__(self) -> Iterator[Any]:  # step 4
        """Let ``a, b = x`` work, and leave every other iteration to the tracer.

        ``a, b = x`` should give two proxies, ``x[0]`` and ``x[1]``. Python doesn't tell you that
        there are two names on the left, but the code of your caller does: how could you look? There
        may be 300 names. ``for y in x``, ``f(*x)``, ``y in x`` and ``a, *rest = x`` have no fixed
        number of elements, and are questions for ``tracer.iter``.

        If this method contained a ``yield``, calling it would run nothing, and Python would ask its
        questions only at the first element: by then, the caller is somewhere else.

        >>> from torch.fx import Graph
        >>> first, second = Proxy(Graph().placeholder("x"))
        >>> first, second
        (Proxy(getitem), Proxy(getitem_1))
        """
        caller = sys._getframe(1)
        number = _unpacked(caller.f_code).get(caller.f_lasti)
        if number is None:
            return self.tracer.iter(self)
        return map(self.__getitem__, range(number))

    def __len__(self) -> int:  # step 4
        """Refuse ``len(x)``, which needs an ``int``: say what is wrong and what to write instead.

        Raises:
            RuntimeError: Always; ``refusal`` puts the message together.
        """
        raise self.refusal(RuntimeError, "the `len` of a proxy is unknown", "take `x.shape[0]`")

    def __index__(self) -> int:  # step 4
        """Refuse ``range(x)`` and ``[1, 2][x]`` in the same way, with a ``TypeError``."""
        raise self.refusal(TypeError, "the value of a proxy is unknown", "index a tensor")

    def refusal(self, error: type[Exception], reason: str, way_out: str) -> Exception:  # given
        """Return the error to raise: what can't be traced, and what to write instead."""
        return error(f"{reason}\n{way_out}")


class Attribute(Proxy):
    """The result of ``x.name`` on a proxy: either a method or the value of an attribute.

    ``x.relu()`` calls it, so it was a method: that is one ``call_method`` node. ``x.shape + (1,)``
    uses it as a value, which needs a node for ``getattr(x, "shape")``. It is a ``Proxy`` as well,
    so operators and torch functions already work on it; all they ask for is its ``node``.

    In torch: ``torch.fx.proxy.Attribute``.
    """

    def __init__(self, root: Proxy, attr: str) -> None:  # given
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]  # step 3
        """The node of ``getattr(root, attr)``, a call of a function: recorded once, when needed.

        >>> from torch.fx import Graph
        >>> x = Proxy(Graph().placeholder("x"))
        >>> shape = x.shape
        >>> len(x.node.graph.nodes)
        1
        >>> shape.node is shape.node, len(x.node.graph.nodes)
        (True, 2)
        """
        if self._node is None:
            self._node = record_call(getattr, self.root, self.attr).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # step 3
        """Record a call of the method ``attr`` on ``root``: one node, and no ``getattr``."""
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


@lru_cache
def _unpacked(code: CodeType) -> dict[int, int]:
    """Return the number of elements of each ``UNPACK_SEQUENCE`` in some code, by its offset."""
    instructions = dis.get_instructions(code)
    return {each.offset: each.argval for each in instructions if each.opname == "UNPACK_SEQUENCE"}


class TraceError(ValueError):
    """The traced code needs the value of a proxy. In torch: ``torch.fx.proxy.TraceError``."""


class TracerBase:  # given
    """Creates the nodes in ``self.graph``; a subclass may override every method.

    What ``create_proxy`` calls ``kind`` is the node's ``op``, also known as its opcode.

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
