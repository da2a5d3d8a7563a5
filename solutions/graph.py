"""Nodes that know their users, in an order that can be edited.

A graph is a function as data. Each node is one step: what is called, and with which arguments, and
an argument may be another node. The order of the nodes is the order in which they run, so they are
a linked list: editing a graph means inserting, moving and erasing in the middle. Replacing a value
means asking who uses it, so each node also knows its users. Users are the arguments read backwards,
and they stay correct because one method writes both.
"""

from __future__ import annotations

import builtins
import copy
import inspect
import keyword
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OPCODES = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")
# Names that mean something else in the code that a graph becomes.
RESERVED = {*keyword.kwlist, *vars(builtins), "inf", "nan", "NoneType", "torch", "device"}
RESERVED |= {"fx_pytree", "pytree"}
NO_DEFAULT = inspect.Signature.empty


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:  # given
    """Return an argument with ``fn(node)`` in the place of each node.

    Args:
        a: A node, or a value that holds nodes at any depth: in tuples, named tuples, lists, slices
            and the values of dicts.
        fn: Is called for each node in it, from left to right, and as often as it occurs.

    The containers are new ones, of the same kind. In torch: ``torch.fx.node.map_arg``.

    >>> x = Graph().placeholder("x")
    >>> map_arg((x, [1, x], slice(x, None), {"key": x}), lambda node: node.name)
    ('x', [1, 'x'], slice('x', None, None), {'key': 'x'})
    """
    if isinstance(a, Node):
        return fn(a)
    if isinstance(a, tuple | list):
        parts = [map_arg(each, fn) for each in a]
        is_named = hasattr(a, "_fields")
        return type(a)(*parts) if is_named else tuple(parts) if isinstance(a, tuple) else parts
    if isinstance(a, dict):
        return {key: map_arg(value, fn) for key, value in a.items()}
    if isinstance(a, slice):
        return slice(*map_arg((a.start, a.stop, a.step), fn))
    return a


class Namespace:
    """Hands out names that are legal in Python, and each of them once.

    In torch: ``torch.fx.graph._Namespace``.
    """

    def __init__(self) -> None:  # given
        self.used: set[str] = set()
        self.last_number: dict[str, int] = {}

    def create_name(self, candidate: str) -> str:
        """Return a name that is not used yet: the candidate, if possible.

        Each run of characters that are illegal in a name becomes one ``_``. An empty candidate
        becomes ``_unnamed``, and one that begins with a digit gets a ``_`` in front.

        If the result is used already, or is ``RESERVED``, it needs another number. A name is a base
        and perhaps a number, as in ``relu_3``. For each base the latest number is remembered, 0 at
        first, and counting goes on from there until a name is free. A name without a number leaves
        what is remembered as it is.

        >>> namespace = Namespace()
        >>> [namespace.create_name(each) for each in ("x_7", "x", "x", "layer1.0", "list", "")]
        ['x_7', 'x', 'x_8', 'layer1_0', 'list_1', '_unnamed']
        """
        name = re.sub("[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        name = f"_{name}" if name[0].isdigit() else name
        base, digits = re.fullmatch(r"(.+?)(?:_(\d+))?", name).groups()  # type: ignore[union-attr]
        is_numbered = digits is not None and name not in self.used
        number = int(digits) if is_numbered else self.last_number.get(base, 0)
        while name in self.used or name in RESERVED:
            number += 1
            name = f"{base}_{number}"
        self.used.add(name)
        self.last_number[base] = number
        return name


class Node:
    """One step of a graph: what is called, with which arguments, and who uses the result.

    Attributes:
        graph: The graph that it belongs to.
        name: Its name, unique in the graph.
        op: What kind of step it is; one of ``OPCODES``.
        target: The function that is called; or the name of the parameter, attribute, method or
            module.
        args, kwargs: The arguments, in which other nodes may occur. To change them, assign.
        type: The annotation of the result, or ``None``.
        users: The nodes in whose arguments it occurs, as the keys of a dict, in the order in which
            they began to use it. Read it only: ``set_arguments`` writes it.
        meta: Whatever else is known about the step.
        prev, next: Its neighbours in the list; the graph's root stands at both ends.

    In torch: ``torch.fx.Node``.
    """

    map_arg = staticmethod(map_arg)

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Callable[..., Any] | str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: Any = None,
    ) -> None:  # given
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.type = return_type
        self.meta: dict[str, Any] = {}
        self.users: dict[Node, None] = {}
        self.prev = self.next = self
        self._erased = False
        self._inputs: dict[Node, Node] = {}  # an ordered set: each node stands for itself
        self.set_arguments(args, kwargs)

    def __repr__(self) -> str:  # given
        return self.name

    @property
    def args(self) -> tuple[Any, ...]:  # given
        """The positional arguments."""
        return self._args

    @args.setter
    def args(self, a: tuple[Any, ...]) -> None:  # given
        self.set_arguments(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:  # given
        """The keyword arguments."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Any]) -> None:  # given
        self.set_arguments(self._args, k)

    def set_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Set both kinds of arguments, and make the users of other nodes agree with them.

        No other method writes ``_args``, ``_kwargs``, ``_inputs`` or the ``users`` of any node.
        First the node stops being a user of its old inputs, then it becomes the last user of each
        new one, even of those it had before. Containers are copied: if the caller changes a list
        afterwards, the node keeps what it was given. In torch: ``Node._update_args_kwargs``.

        >>> graph = Graph()
        >>> x, y = graph.placeholder("x"), graph.placeholder("y")
        >>> node = graph.call_function(max, (x, x))
        >>> node.args = (x, [y, 1])
        >>> node.all_input_nodes, list(x.users), list(y.users)
        ([x, y], [max_1], [max_1])
        """
        for node in self._inputs:
            del node.users[self]
        inputs: dict[Node, Node] = {}
        arguments = self.map_arg((args, kwargs), lambda node: inputs.setdefault(node, node))
        (self._args, self._kwargs), self._inputs = arguments, inputs
        for node in inputs:
            node.users[self] = None

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes that occur in the arguments, each once: in ``args`` first, then ``kwargs``."""
        return list(self._inputs)

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Put ``new_input`` in the place of ``old_input``, wherever that is in the arguments."""
        arguments = self.args, self.kwargs
        replaced = self.map_arg(arguments, lambda node: new_input if node is old_input else node)
        self.set_arguments(*replaced)

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None
    ) -> list[Node]:
        """Make the users of this node use another node instead, and return those users.

        Args:
            replace_with: The other node. If it is a user of this one, it becomes a user of itself,
                unless ``delete_user_cb`` excludes it.
            delete_user_cb: Called with each user: whether to change it. By default all are.

        The node itself stays in the graph.

        >>> graph = Graph()
        >>> x = graph.placeholder("x")
        >>> old, new = graph.call_method("relu", (x,)), graph.call_method("tanh", (x,))
        >>> result = graph.output((old, old))
        >>> old.replace_all_uses_with(new), result.args
        ([output], ((tanh, tanh),))
        """
        users = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in users:
            user.replace_input_with(self, replace_with)
        return users

    def prepend(self, x: Node) -> None:
        """Move a node of the same graph to the place in front of this one.

        It is taken out of its old place. Moving a node in front of itself changes nothing.

        Raises:
            ValueError: ``x`` belongs to another graph. In torch an ``AssertionError``.
        """
        if x.graph is not self.graph:
            raise ValueError(f"{x} is in another graph than {self}: copy it with `node_copy`")
        if x is self:
            return
        x._unlink()
        x.prev, x.next = self.prev, self
        x.prev.next = x.next.prev = x

    def append(self, x: Node) -> None:
        """Move a node of the same graph to the place behind this one.

        >>> graph = Graph()
        >>> x, y = graph.placeholder("x"), graph.placeholder("y")
        >>> y.append(x)
        >>> list(graph.nodes)
        [y, x]
        """
        self.next.prepend(x)

    def _unlink(self) -> None:
        # Its own links stay: an iteration that has come here goes on from here.
        self.prev.next, self.next.prev = self.next, self.prev

    def is_impure(self) -> bool:  # given
        """Return whether the node is needed even if nobody uses its result."""
        return self.op in ("placeholder", "output")

    def format_node(self) -> str:  # given
        """Return the node as one line of the printed graph.

        The parts are the name, the annotation (if there is one), the number of users, the opcode
        and the target. Then come the default of a placeholder (if it has one), the arguments of a
        call, and nothing more for ``get_attr``. An output has a line of its own kind.

        >>> import operator, torch
        >>> graph = Graph()
        >>> x = graph.placeholder("x", torch.Tensor, default_value=None)
        >>> total = graph.call_function(operator.add, (x, 1))
        >>> for node in (x, graph.get_attr("linear.bias"), total, graph.output((total,))):
        ...     print(node.format_node())
        %x : torch.Tensor [num_users=1] = placeholder[target=x](default=None)
        %linear_bias : [num_users=0] = get_attr[target=linear.bias]
        %add : [num_users=1] = call_function[target=operator.add](args = (%x, 1), kwargs = {})
        return (add,)
        """
        if self.op == "output":
            return f"return {self.args[0]}"
        annotation = f"{type_name(self.type)} " if self.type is not None else ""
        step = f"{self.op}[target={qualified_name(self.target)}]"
        line = f"%{self.name} : {annotation}[num_users={len(self.users)}] = {step}"
        if self.op == "placeholder":
            return f"{line}(default={self.args[0]})" if self.args else line
        if self.op == "get_attr":
            return line
        return f"{line}(args = {format_arg(self.args)}, kwargs = {format_arg(self.kwargs)})"


class NodeList:
    """The nodes of a graph in their order.

    Nodes may be inserted, moved and erased during an iteration, even the current one: the iteration
    goes on from where that node is or was, and skips nodes that have been erased.

    In torch: ``torch.fx.graph._node_list``.
    """

    def __init__(self, graph: Graph) -> None:  # given
        self.graph = graph

    def __len__(self) -> int:  # given
        return self.graph._len

    def __iter__(self) -> Iterator[Any]:
        """Iterate from the first node to the last."""
        return self._walk("next")

    def __reversed__(self) -> Iterator[Any]:
        """Iterate from the last node to the first."""
        return self._walk("prev")

    def _walk(self, direction: str) -> Iterator[Node]:
        node = getattr(self.graph._root, direction)
        while node is not self.graph._root:
            if not node._erased:
                yield node
            node = getattr(node, direction)


class InsertPoint:  # given
    """The place for new nodes, from now on; at the end of a ``with`` block the old one is back.

    In torch: ``torch.fx.graph._InsertPoint``.
    """

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph, self.before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.graph._insert = self.before


class Graph:
    """A list of nodes, and the place in it where the next node goes.

    Args:
        owning_module: The module that holds the graph, and what its nodes name.
        tracer_cls: The class of the tracer that recorded it.
        tracer_extras: What else such a tracer needs to be made again.

    In torch: ``torch.fx.Graph``.

    >>> import torch
    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(torch.relu, (x,))
    >>> result = graph.output(y)
    >>> with graph.inserting_before(y):
    ...     y.args = (graph.call_method("neg", (x,)),)
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %neg : [num_users=1] = call_method[target=neg](args = (%x,), kwargs = {})
        %relu : [num_users=1] = call_function[target=torch.relu](args = (%neg,), kwargs = {})
        return relu
    """

    node_type = Node

    def __init__(
        self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None
    ) -> None:  # given
        self.owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._graph_namespace = Namespace()
        # The ends of the list meet in the root, which is no step: so each node has two neighbours.
        self._root = self.node_type(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0

    def __str__(self) -> str:  # given
        return "\n    ".join(["graph():", *(node.format_node() for node in self.nodes)])

    @property
    def nodes(self) -> NodeList:  # given
        """The nodes, in the order in which they run."""
        return NodeList(self)

    def output_node(self) -> Node:
        """Return the output, which is the last node.

        Raises:
            RuntimeError: The last node is no output, or there is none. In torch an
                ``AssertionError``.
        """
        last = self._root.prev
        if last.op != "output":
            raise RuntimeError("the graph doesn't end with an output: create it with `output`")
        return last

    def create_node(
        self,
        op: str,
        target: Callable[..., Any] | str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Create a node at the insertion point, count it in ``_len``, and return it.

        Args:
            op: One of ``OPCODES``.
            target: A function for ``call_function``, else a name.
            args: The arguments.
            kwargs: The keyword arguments.
            name: A candidate for its name; by default ``name_for(target)``.
            type_expr: The annotation of the result.

        Raises:
            ValueError: There is no such opcode (in torch an ``AssertionError``), or the target is
                not of its kind.
        """
        is_fitting = callable(target) if op == "call_function" else isinstance(target, str)
        if op not in OPCODES or not is_fitting:
            way_out = f"one of {', '.join(OPCODES)}; a function for call_function, else a name"
            raise ValueError(f"there is no node {op!r} of {target!r}: {way_out}")
        name = self._graph_namespace.create_name(name_for(target) if name is None else name)
        node = self.node_type(self, name, op, target, args or (), kwargs or {}, type_expr)
        self._insert(node)
        self._len += 1
        return node

    def placeholder(
        self, name: str, type_expr: Any = None, default_value: Any = NO_DEFAULT
    ) -> Node:  # given
        """Create a node for an input of the function."""
        args = () if default_value is NO_DEFAULT else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:  # given
        """Create a node for a parameter, a buffer or a submodule."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:  # given
        """Create a node for a call of a submodule."""
        return self.create_node("call_module", module_name, args, kwargs, None, type_expr)

    def call_method(
        self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:  # given
        """Create a node for a call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, None, type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:  # given
        """Create a node for a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:  # given
        """Create a node for what the function returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def inserting_before(self, n: Node | None = None) -> InsertPoint:
        """Insert new nodes in front of a node: from this call on, or until a ``with`` block ends.

        Args:
            n: The node; by default each goes to the very beginning of the graph, so the one
                created last comes first.
        """
        return InsertPoint(self, n.prepend if n else self._root.append)

    def inserting_after(self, n: Node | None = None) -> InsertPoint:
        """Insert new nodes behind a node: from this call on, or until a ``with`` block ends.

        Each goes directly behind it, so the one created last comes first.

        Args:
            n: The node; by default new nodes go to the end of the graph.

        >>> graph = Graph()
        >>> x = graph.placeholder("x")
        >>> with graph.inserting_after(x):
        ...     y, z = graph.placeholder("y"), graph.placeholder("z")
        >>> list(graph.nodes)
        [x, z, y]
        """
        return InsertPoint(self, n.append if n else self._root.prepend)

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node without users from the graph, from ``_len``, and from its inputs' users.

        Raises:
            RuntimeError: It is in another graph, or it has users: the error names the node, its
                users and the way out. In torch the way out isn't said.
        """
        if to_erase.graph is not self or to_erase._erased:
            raise RuntimeError(f"{to_erase} is not in this graph: nothing to erase")
        if to_erase.users:
            raise RuntimeError(
                f"{to_erase} is used by {', '.join(map(str, to_erase.users))}, and can't be erased:"
                f" give them another value first, `{to_erase}.replace_all_uses_with(other)`"
            )
        to_erase.set_arguments((), {})
        to_erase._unlink()
        to_erase._erased = True
        self._len -= 1

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """Create a node like one of this or another graph, and return it.

        Args:
            node: The node. The copy has its opcode, target and type, a name made from its name, and
                a shallow copy of its metadata.
            arg_transform: From a node in its arguments to what the copy has there instead.
        """
        args, kwargs = map_arg((node.args, node.kwargs), arg_transform)
        result = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        result.meta = copy.copy(node.meta)
        return result

    def graph_copy(self, g: Graph, val_map: dict[Node, Any]) -> Any:
        """Copy the nodes of another graph, but for its output, to the insertion point.

        Args:
            g: The other graph.
            val_map: From nodes of ``g`` to what stands for them here. It gets an entry for each
                node that is copied; a node that has one already isn't copied.

        Returns:
            What stands for the result of ``g``, or ``None`` if ``g`` has no output.

        >>> graph, other = Graph(), Graph()
        >>> x, y = graph.placeholder("x"), other.placeholder("y")
        >>> value = other.output(other.call_method("relu", (y,)))
        >>> graph.graph_copy(other, {y: x}), list(graph.nodes)
        (relu, [x, relu])
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                return map_arg(node.args[0], val_map.__getitem__)
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def lint(self) -> None:
        """Check that every node comes before its users, and that every name is unique.

        Raises:
            RuntimeError: Two nodes have one name; or an argument is of another graph, or comes
                after its user. The error names both nodes. In torch targets are checked, too.
        """
        seen: dict[str, Node] = {}
        for node in self.nodes:
            for each in node.all_input_nodes:
                if each.graph is not self:
                    raise RuntimeError(f"{node} uses {each} of another graph: see `node_copy`")
                if seen.get(each.name) is not each:
                    raise RuntimeError(f"{node} uses {each} before it is there: see `prepend`")
            if node.name in seen:
                raise RuntimeError(f"there are two nodes of the name {node}")
            seen[node.name] = node

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erase unused nodes, and those that become unused by it; return whether there were any.

        Args:
            is_impure_node: Whether a node is needed even if nobody uses its result; by default
                ``Node.is_impure``.

        Raises:
            RuntimeError: The graph can't run, see ``lint``.
        """
        self.lint()
        is_impure = is_impure_node or (lambda node: node.is_impure())
        before = len(self.nodes)
        for node in reversed(self.nodes):
            if not node.users and not is_impure(node):
                self.erase_node(node)
        return len(self.nodes) < before


def name_for(target: Callable[..., Any] | str) -> str:  # given
    """Return a name for what a target gives: ``avgPool`` is ``avg_pool``, ``__call__`` ``call``."""
    name = target if isinstance(target, str) else function_name(target)
    if isinstance(target, str) and re.fullmatch("__.*__", name):
        name = name[2:-2]
    return re.sub("(?<=[a-z])([A-Z])", r"_\1", name).lower()


def qualified_name(target: Callable[..., Any] | str) -> str:  # given
    """Return a target as it is printed: ``operator.add``, ``torch.relu``, ``layer1.0.conv1``."""
    if isinstance(target, str):
        return target
    module = getattr(target, "__module__", "torch.Tensor")  # a tensor's own methods say none
    for private, public in (("_operator", "operator"), ("torch._ops", "torch.ops")):
        module = module.replace(private, public)
    return f"{module.replace('torch._tensor', 'torch.Tensor')}.{function_name(target)}"


def function_name(function: Callable[..., Any]) -> str:  # given
    """Return a function's name; that of its class if it has none, as a ``functools.partial``."""
    return getattr(function, "__name__", type(function).__name__)


def type_name(annotation: Any) -> str:  # given
    """Return an annotation as it is printed: ``int``, ``torch.Tensor``, ``list[int]``."""
    if not isinstance(annotation, type):
        return repr(annotation)
    return f"{annotation.__module__}.{annotation.__qualname__}".removeprefix("builtins.")


def format_arg(a: Any) -> str:  # given
    """Return an argument as it is printed: a node is ``%name``, at any depth."""
    if isinstance(a, tuple | list):
        parts = ", ".join(map(format_arg, a))
        ending = "," if isinstance(a, tuple) and len(a) == 1 else ""
        return f"({parts}{ending})" if isinstance(a, tuple) else f"[{parts}]"
    if isinstance(a, dict):
        return "{" + ", ".join(f"{key}: {format_arg(value)}" for key, value in a.items()) + "}"
    return f"%{a}" if isinstance(a, Node) else str(a)
