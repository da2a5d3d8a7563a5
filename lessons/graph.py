"""Nodes that know their users, in an order that can be edited.

A graph is a function as data. Each node is one step: a call and its arguments, which may be other
nodes. You edit a graph by inserting, moving and erasing nodes in the middle, so the order in which
they run is a linked list. To replace a value, you have to know which nodes use it, so each node
stores its users, which are the arguments read backwards.
"""

from __future__ import annotations

import builtins
import inspect
import keyword
from collections import Counter
from functools import partialmethod
from typing import TYPE_CHECKING, Any

import torch.fx
from torch.fx.node import map_aggregate

from given.graph import has_effect, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

# Names that mean something else in the code that a graph becomes.
RESERVED = {*keyword.kwlist, *vars(builtins), "torch", "device", "inf", "nan"}


def map_arg(a: Any, fn: Callable[[Any], Any]) -> Any:  # given
    """Return a copy of an argument, with ``fn(node)`` in place of each node in it.

    Lists and dicts in the copy are torch's immutable ones: changing one in place raises a
    ``TypeError``. Of other subclasses, only named tuples are kept.

    Args:
        a: A node, or a value that holds nodes at any depth: in tuples, lists, slices and the values
            of dicts. So it can also be the pair ``(args, kwargs)``. A ``torch.fx.Node`` counts too,
            so you can copy one of torch's graphs.
        fn: Called for each occurrence of a node, from left to right.

    In torch: ``torch.fx.node.map_arg``.

    >>> x = Graph().placeholder("x")
    >>> map_arg((x, [1, x], slice(x, None), {"key": x}), lambda node: node.name)
    ('x', [1, 'x'], slice('x', None, None), {'key': 'x'})
    """
    return map_aggregate(a, lambda leaf: fn(leaf) if is_node(leaf) else leaf)


def is_node(a: Any) -> bool:  # given
    """Return whether a value is a node: one of yours, or one of torch's."""
    return isinstance(a, Node | torch.fx.Node)


class Namespace:
    """Creates names that are legal in Python, and never the same one twice.

    In torch: ``torch.fx.graph._Namespace``.
    """

    def __init__(self) -> None:  # given
        self.used = {*RESERVED}
        self.last_number: Counter[str] = Counter()

    def create_name(self, candidate: str) -> str:  # step 1
        """Return a name that is legal in Python and not used yet: the candidate, if possible.

        Node names become variables. So each run of illegal characters becomes one ``_``, and a
        leading digit gets a ``_`` before it. If the name is in ``used``, which holds the reserved
        names from the start, count: the second ``x`` is ``x_1``. Don't stack numbers: a second
        ``x_1`` becomes ``x_2``, not ``x_1_1``.

        Continue from ``last_number``, which holds the last number that you gave each base. If you
        begin with 1 each time, the thousandth ``add`` tries a thousand names; only the stretch
        measures that. It's up to you whether a number that a candidate brings counts. A base is
        never empty, so ``_1`` is a base without a number.

        >>> namespace = Namespace()
        >>> [namespace.create_name(each) for each in ("x", "x", "x_1", "x", "layer1.0", "a--b")]
        ['x', 'x_1', 'x_2', 'x_3', 'layer1_0', 'a_b']
        >>> [namespace.create_name(each) for each in ("1x", "list", "_1", "_1")]
        ['_1x', 'list_1', '_1', '_1_1']
        """
        raise NotImplementedError("graph: Namespace.create_name")


class Node:
    """One step of a graph: what is called, with which arguments, and who uses the result.

    Attributes:
        graph: The graph that it belongs to.
        name: Its name, unique in the graph.
        op: What kind of step it is: ``"placeholder"`` (an input of the function), ``"get_attr"``,
            ``"call_function"``, ``"call_method"``, ``"call_module"`` or ``"output"``.
        target: The function that is called; or the name of the input, attribute, method or module.
        args, kwargs: The arguments, which may contain other nodes. Assign to change them.
        type: The annotation of the result, or ``None``.
        users: The nodes that have it in their arguments, as the keys of a dict, in the order in
            which they began to use it. Only ``set_arguments`` writes it.
        meta: Further information about the step.
        prev, next: Its neighbours in the list; the graph's root is at both ends.

    In torch: ``torch.fx.Node``.
    """

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
        self._args = ()
        self._kwargs: dict[str, Any] = {}
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

    @property
    def all_input_nodes(self) -> list[Node]:  # step 2
        """The nodes in ``args``, then those in ``kwargs``, at any depth and each of them once."""
        raise NotImplementedError("graph: Node.all_input_nodes")

    def set_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # step 2
        """Set ``args`` and ``kwargs``, and update the users of other nodes to match.

        This is the only method that writes arguments or users, so the two can't disagree. The node
        becomes the last user of each input, even of one that it had before. If the caller changes a
        list afterwards, the node's arguments stay as they are.

        In torch: ``Node._update_args_kwargs``.

        >>> graph = Graph()
        >>> x, y = graph.placeholder("x"), graph.placeholder("y")
        >>> node = graph.call_function(max, (x, x))
        >>> node.args = (x, [y, 1])
        >>> node.all_input_nodes, list(x.users), list(y.users)
        ([x, y], [max_1], [max_1])
        """
        raise NotImplementedError("graph: Node.set_arguments")

    def replace_input_with(self, old_input: Node, new_input: Any) -> None:  # step 2
        """Replace ``old_input`` with ``new_input`` wherever it occurs in the arguments.

        ``new_input`` may be a node or any other argument, such as ``1`` or ``(x, 1)``.
        """
        raise NotImplementedError("graph: Node.replace_input_with")

    def replace_all_uses_with(self, replace_with: Node) -> list[Node]:  # step 2
        """Make the users of this node use another node instead, and return those users.

        If the other node is one of the users, it becomes a user of itself. This node stays in the
        graph.

        >>> graph = Graph()
        >>> x = graph.placeholder("x")
        >>> old, new = graph.call_method("relu", (x,)), graph.call_method("tanh", (x,))
        >>> result = graph.output((old, old))
        >>> old.replace_all_uses_with(new), result.args
        ([output], ((tanh, tanh),))
        """
        raise NotImplementedError("graph: Node.replace_all_uses_with")

    def prepend(self, x: Node) -> None:  # step 3
        """Move a node of the same graph to just before this one.

        It leaves its old place, and its neighbours there become neighbours of each other. Moving a
        node before itself changes nothing.
        """
        raise NotImplementedError("graph: Node.prepend")

    def append(self, x: Node) -> None:  # step 3
        """Move a node of the same graph to just after this one, as ``prepend`` does."""
        raise NotImplementedError("graph: Node.append")

    def is_impure(self) -> bool:  # given
        """Return whether the node is needed even if its result isn't used."""
        return self.op in ("placeholder", "output") or has_effect(self)

    def format_node(self) -> str:  # given
        """Return the node as one line of the printed graph."""
        target = getattr(self.target, "__name__", self.target)
        return f"{self.name} = {self.op} {target} {self.args} {self.kwargs}"


class NodeList:
    """The nodes of a graph in their order.

    A pass edits the list while it iterates over it. So an iteration visits nodes that were inserted
    after the current one, and skips nodes that were erased. If the current node itself is moved or
    erased, the iteration continues from where the node is now, or was before it was erased.

    In torch: ``torch.fx.graph._node_list``.
    """

    def __init__(self, root: Node) -> None:  # given
        self.root = root

    def __len__(self) -> int:  # given
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Any]:  # step 3
        """Iterate from the first node, which is the one after the root, to the last."""
        raise NotImplementedError("graph: NodeList.__iter__")

    def __reversed__(self) -> Iterator[Any]:  # step 3
        """Iterate from the last node to the first."""
        raise NotImplementedError("graph: NodeList.__reversed__")


class Graph:
    """A list of nodes, and the place in it where the next node goes.

    Attributes:
        nodes: The nodes, in the order in which they run.
        owning_module: The module that has the targets of ``call_module`` and ``get_attr`` nodes, or
            ``None``.

    In torch: ``torch.fx.Graph``.
    """

    def __init__(self) -> None:  # given
        self.owning_module: Any = None
        self._graph_namespace = Namespace()
        # The root, which isn't a step, makes the list a ring, so every node has two neighbours.
        self._root = Node(self, "", "root", "", (), {})
        self.nodes = NodeList(self._root)
        # The insertion point is a function that puts a node there. At first that is the end.
        self._insert: Callable[[Node], None] = self._root.prepend

    def __str__(self) -> str:  # given
        return "\n    ".join(["graph():", *(node.format_node() for node in self.nodes)])

    def print_tabular(self) -> None:  # given
        """Print the nodes as a table, as torch does if the package ``tabulate`` is installed.

        >>> graph = Graph()
        >>> result = graph.output([graph.placeholder("x")])
        >>> graph.print_tabular()
        opcode       name    target    args    kwargs
        -----------  ------  --------  ------  --------
        placeholder  x       x         ()      {}
        output       output  output    ([x],)  {}
        """
        rows = [(each.op, each.name, each.target, each.args, each.kwargs) for each in self.nodes]
        print(table(("opcode", "name", "target", "args", "kwargs"), rows))

    def create_node(
        self,
        op: str,
        target: Callable[..., Any] | str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:  # step 3
        """Create a node at the insertion point, and return it.

        See ``Node`` for the parts. ``name`` is a candidate for its name, and stays as it is.
        Without one, the target or its ``__name__`` is the candidate, in lower case.
        """
        raise NotImplementedError("graph: Graph.create_node")

    def placeholder(  # given
        self, name: str, type_expr: Any = None, default_value: Any = inspect.Signature.empty
    ) -> Node:
        """Create a node for an input, with a default for callers that leave it out."""
        args = (default_value,) if default_value is not inspect.Signature.empty else ()
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    get_attr = partialmethod(create_node, "get_attr")
    call_function = partialmethod(create_node, "call_function")
    call_method = partialmethod(create_node, "call_method")
    call_module = partialmethod(create_node, "call_module")

    def output(self, result: Any, type_expr: Any = None) -> Node:  # given
        """Create a node for the function's result."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def find_nodes(self, *, op: str, target: Any = None) -> list[Any]:  # given
        """Return the nodes with this opcode and, unless it is ``None``, this target, in order.

        In torch: ``Graph.find_nodes``.

        >>> graph = Graph()
        >>> x = graph.placeholder("x")
        >>> relu, tanh = graph.call_method("relu", (x,)), graph.call_method("tanh", (x,))
        >>> graph.find_nodes(op="call_method", target="relu")
        [relu]
        """
        return [node for node in self.nodes if node.op == op and target in (None, node.target)]

    def output_node(self) -> Any:  # given
        """Return the output, which is the last node. In torch: ``Graph.output_node``."""
        return self._root.prev

    def inserting_before(self, n: Node) -> AbstractContextManager[None]:  # step 4
        """Insert new nodes before a node until the ``with`` block ends, with or without an error.

        ``_insert`` is the function that places a new node. The block replaces it; afterwards the
        old one is back. Blocks may be nested.
        """
        raise NotImplementedError("graph: Graph.inserting_before")

    def inserting_after(self, n: Node) -> AbstractContextManager[None]:  # step 4
        """Insert new nodes after a node until the ``with`` block ends, with or without an error.

        Each new node goes directly after it, so the one created last comes first.
        """
        raise NotImplementedError("graph: Graph.inserting_after")

    def erase_node(self, to_erase: Node) -> None:  # step 4
        """Remove a node without users from the graph, and from the users of its inputs.

        If it was erased before, the graph stays as it is. In torch, there is a warning.

        Raises:
            RuntimeError: It has users. The error names the node and its users.
        """
        raise NotImplementedError("graph: Graph.erase_node")

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x
    ) -> Node:  # step 5
        """Copy a node of this or another graph to the insertion point, and return the copy.

        The copy has the node's opcode, target and type, a name made from its name, and a shallow
        copy of its metadata. ``arg_transform`` maps a node in the arguments to what the copy has
        there instead.
        """
        raise NotImplementedError("graph: Graph.node_copy")

    def graph_copy(self, g: Graph, val_map: dict[Node, Any]) -> Any:  # step 5
        """Copy the nodes of another graph, except its output, to the insertion point.

        Args:
            g: The other graph, which may be a ``torch.fx.Graph``.
            val_map: Maps nodes of ``g`` to the values to use here. Each node that is copied is
                added to it; a node that is already in it isn't copied.

        Returns:
            The value that replaces the result of ``g``, or ``None`` if ``g`` has no output.

        >>> graph, other = Graph(), Graph()
        >>> x, y = graph.placeholder("x"), other.placeholder("y")
        >>> value = other.output(other.call_method("relu", (y,)))
        >>> graph.graph_copy(other, {y: x}), list(graph.nodes)
        (relu, [x, relu])
        """
        raise NotImplementedError("graph: Graph.graph_copy")

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:  # step 5
        """Return a graph with a copy of each node, including the output, for ``copy.deepcopy``.

        Without this method, ``copy.deepcopy`` would follow ``next`` from node to node, one level of
        recursion deeper each time: a graph of 1,000 nodes would raise a ``RecursionError``. You
        don't need ``memo``, the copies that it has made so far.

        >>> from copy import deepcopy
        >>> graph = Graph()
        >>> result = graph.output(graph.call_method("relu", (graph.placeholder("x"),)))
        >>> twin = deepcopy(graph)
        >>> twin.output_node().args = (1,)
        >>> list(twin.nodes), result.args
        ([x, relu, output], (relu,))
        """
        raise NotImplementedError("graph: Graph.__deepcopy__")

    def lint(self) -> None:  # step 5
        """Check that every node comes before its users.

        Raises:
            RuntimeError: An argument comes after its user, or belongs to another graph.
        """
        raise NotImplementedError("graph: Graph.lint")

    def eliminate_dead_code(
        self, is_impure_node: Callable[[Node], bool] | None = None
    ) -> bool:  # step 5
        """Erase unused nodes, and those that this leaves unused; return whether there were any.

        Args:
            is_impure_node: Whether a node is needed even if its result isn't used; by default
                ``Node.is_impure``, which keeps calls that have an effect, such as ``x.add_(1)``.

        >>> graph = Graph()
        >>> x = graph.placeholder("x")
        >>> dead = graph.call_method("tanh", (graph.call_method("relu", (x,)),))
        >>> graph.eliminate_dead_code(), list(graph.nodes), graph.eliminate_dead_code()
        (True, [x], False)
        """
        raise NotImplementedError("graph: Graph.eliminate_dead_code")
