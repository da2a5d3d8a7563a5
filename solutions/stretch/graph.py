"""Unlike the core: a graph that holds up where torch's does.

- What can't be right is refused: an unknown opcode, a target of the wrong kind, a node of another
  graph, an erased one. Iterations skip nodes that were erased.
- A graph is printed as torch prints it, or as a table.
- Names are numbered as in torch; a name can belong to an object.
- An insertion point works without a block, and without a node: at the beginning, or the end.
- Users can be left out when a value is replaced, and metadata be passed on.
- Nodes can be compared: ``x < y`` if ``x`` comes first. ``find_nodes`` finds them by opcode and
  target.
- Graphs can be copied and pickled, at any length.
- A graph knows its module: ``lint`` checks the targets, dead code elimination keeps calls that have
  an effect and goes into subgraphs, and the module's hooks are called for each edit.
- Single arguments are set by position and by name; ``normalized_arguments`` names them all.
- A graph keeps a code generator.
"""

from __future__ import annotations

import copy
import functools
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn
from torch._library.utils import is_impure
from torch.fx.node import map_aggregate
from torch.fx.operator_schemas import normalize_function, normalize_module

from .. import graph as core
from ..graph import map_arg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["Graph", "Namespace", "Node", "map_aggregate", "map_arg"]

OPCODES = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")
GAP = 1 << 32  # between the positions of two neighbours, for those that come between them


class Namespace(core.Namespace):
    """The core's, numbered as in torch. In torch: ``_Namespace``."""

    def __init__(self) -> None:
        super().__init__()
        self.used |= {"NoneType", "fx_pytree", "pytree"}
        self.name_of: dict[Any, str] = {}

    def create_name(self, candidate: str, obj: Any = None) -> str:
        """Return the name of an object, the same each time; without an object, a new name.

        Counting goes on from a number that a candidate has.

        >>> namespace = Namespace()
        >>> [namespace.create_name("x_7", each) for each in (max, max, min, None)]
        ['x_7', 'x_7', 'x_8', 'x_9']
        """
        if obj is not None:
            if obj not in self.name_of:
                self.name_of[obj] = self.create_name(candidate)
            return self.name_of[obj]
        name = super().create_name(candidate or "_unnamed")
        base, _, number = name.rpartition("_")
        if base and number.isdecimal():
            self.last_number[base] = int(number)
        return name


@functools.total_ordering
class Node(core.Node):
    """The core's node, for all that is done to one. In torch: ``torch.fx.Node``.

    >>> graph = Graph()
    >>> x, y = graph.placeholder("x"), graph.placeholder("y")
    >>> x < y, max(y, x)
    (True, y)
    """

    graph: Graph
    is_erased = False
    position = 0  # the root's

    def __lt__(self, other: Any) -> bool:
        return self.position < other.position

    def __deepcopy__(self, memo: dict[int, Any]) -> Node:
        copy.deepcopy(self.graph, memo)
        return memo[id(self)]

    @property
    def name(self) -> str:
        """The name. If it changes, the module's hooks are called, once for each user."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        for user in getattr(self, "users", ()):
            self.graph.call_hooks("_replace_hooks", old=self, new=name, user=user)
        self._name = name

    @property
    def stack_trace(self) -> str | None:
        """The Python stack at which the node was recorded, innermost frame last, or ``None``."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    # Arguments

    def update_arg(self, idx: int, arg: Any) -> None:
        """Set one positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Insert a positional argument in front of one, or behind the last.

        Raises:
            IndexError: There is no such place. In torch an ``AssertionError``.
        """
        if not 0 <= idx <= len(self.args):
            raise IndexError(f"{self} has {len(self.args)} arguments: no place {idx} to insert at")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Set one keyword argument."""
        self.kwargs = dict(self.kwargs) | {key: arg}

    def normalized_arguments(
        self,
        root: nn.Module,
        arg_types: tuple[Any] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """Return the arguments of a call of a function or module by the names that it gives them.

        Args:
            root: What module names refer to.
            arg_types: Types of the arguments, where the function has several signatures.
            kwarg_types: Types of the keyword arguments.
            normalize_to_only_use_kwargs: Whether positional arguments become keyword arguments.

        Returns:
            Arguments and keyword arguments, or ``None`` if the signature isn't known.
        """
        target: Any = self.target
        only = normalize_to_only_use_kwargs
        if self.op == "call_function":
            return normalize_function(target, self.args, self.kwargs, arg_types, kwarg_types, only)
        if self.op == "call_module":
            return normalize_module(root, target, self.args, self.kwargs, only)
        return None

    def replace_input_with(self, old_input: core.Node, new_input: core.Node) -> None:
        """Replace an input by another node, and call the module's hooks."""
        self.graph.call_hooks("_replace_hooks", old=old_input, new=new_input.name, user=self)
        super().replace_input_with(old_input, new_input)

    def replace_all_uses_with(
        self,
        replace_with: core.Node,
        delete_user_cb: Callable[[Any], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[core.Node]:
        """Make the users of this node use another node instead, and return those users.

        Args:
            replace_with: The other node.
            delete_user_cb: Called with each user: whether to change it. By default all are.
            propagate_meta: Whether the other node gets this one's metadata. It must have none.

        Raises:
            ValueError: It has metadata. In torch an ``AssertionError``.
        """
        if propagate_meta:
            if replace_with.meta:
                raise ValueError(f"{replace_with} has metadata, which would be mixed with {self}'s")
            replace_with.meta.update(self.meta)
        users = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in users:
            user.replace_input_with(self, replace_with)
        return users

    # Place

    def prepend(self, x: Any) -> None:
        """Move a node of the same graph to the place in front of this one.

        Raises:
            ValueError: ``x`` belongs to another graph. In torch an ``AssertionError``.
            RuntimeError: One of them was erased. In torch the list is damaged.
        """
        if x.graph is not self.graph:
            raise ValueError(f"{x} is in another graph than {self}: copy it with `node_copy`")
        for node in (self, x):
            if node.is_erased:
                raise RuntimeError(f"{node} was erased: it has no place in the graph")
        super().prepend(x)
        self.graph.number(x)

    # Effects

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node is needed even if nobody uses its result.

        Args:
            impure_random: Whether that is so for functions that draw random numbers.

        torch knows it for its own functions; a module says so in an attribute ``_is_impure``.
        """
        if self.op == "call_function":
            target: Any = self.target
            args, kwargs = self.args, self.kwargs
            return is_impure(target, args=args, kwargs=kwargs, impure_random=impure_random)
        if self.op == "call_module" and self.graph.owning_module is not None:
            module = self.graph.owning_module.get_submodule(self.target)
            return getattr(module, "_is_impure", False)
        return super().is_impure()

    # Printing

    def format_node(self) -> str:
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


class NodeList(core.NodeList):
    """The core's, without nodes that are erased during an iteration."""

    def __iter__(self) -> Iterator[Any]:
        return (node for node in super().__iter__() if not node.is_erased)

    def __reversed__(self) -> Iterator[Any]:
        return (node for node in super().__reversed__() if not node.is_erased)


class InsertPoint:
    """The place for new nodes, from now on; at the end of a ``with`` block the old one is back.

    In torch: ``torch.fx.graph._InsertPoint``.
    """

    def __init__(self, graph: core.Graph, insert: Callable[[core.Node], None]) -> None:
        self.graph, self.before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.graph._insert = self.before


class Graph(core.Graph):
    """The core's graph, for all that is done to one.

    Args:
        owning_module: The module that holds the graph, and what its nodes name.
        tracer_cls: The class of the tracer that recorded it.
        tracer_extras: What else such a tracer needs to be made again.

    In torch: ``torch.fx.Graph``.

    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.output([x])
    >>> list(copy.deepcopy(graph).nodes)
    [x, output]
    """

    node_type = Node
    _codegen: Any = None

    def __init__(
        self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None
    ) -> None:
        super().__init__(tracer_cls)
        self.owning_module, self._tracer_extras = owning_module, tracer_extras
        self._graph_namespace = Namespace()
        self.nodes: core.NodeList = NodeList(self._root)

    # Nodes

    def create_node(
        self,
        op: str,
        target: Callable[..., Any] | str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> core.Node:
        """Create a node at the insertion point, and call the module's hooks.

        Raises:
            ValueError: There is no such opcode (in torch an ``AssertionError``), or the target is
                not of its kind.
            TypeError: The arguments are no tuple and dict. In torch an ``AssertionError``.
        """
        is_fitting = callable(target) if op == "call_function" else isinstance(target, str)
        if op not in OPCODES or not is_fitting:
            way_out = f"one of {', '.join(OPCODES)}; a function for call_function, else a name"
            raise ValueError(f"there is no node {op!r} of {target!r}: {way_out}")
        if not isinstance(args or (), tuple) or not isinstance(kwargs or {}, dict):
            raise TypeError(f"{op} of {target!r}: a tuple and a dict, not {args!r} and {kwargs!r}")
        candidate = name_for(target) if name is None else name
        node = super().create_node(op, target, args, kwargs, candidate, type_expr)
        self.call_hooks("_create_node_hooks", node)
        return node

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> core.Node:
        """Create a node for an attribute; warn if the graph's module has none of that name."""
        self.warn_if_missing(qualified_name)
        return self.create_node("get_attr", qualified_name, (), {}, None, type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> core.Node:
        """Create a node for a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def call_method(
        self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> core.Node:
        """Create a node for a call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, None, type_expr)

    def call_module(
        self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> core.Node:
        """Create a node for a call; warn if the graph's module has no submodule of that name."""
        self.warn_if_missing(module_name)
        return self.create_node("call_module", module_name, args, kwargs, None, type_expr)

    def warn_if_missing(self, path: str) -> None:
        """Warn if the graph has a module that lacks an attribute."""
        if self.owning_module is not None and attribute_at(self.owning_module, path) is None:
            kind = type(self.owning_module).__name__
            warnings.warn(f"no {path} in the graph's {kind}: add it there", stacklevel=3)

    def inserting_before(self, n: core.Node | None = None) -> InsertPoint:
        """Insert new nodes in front of a node: from this call on, or until a ``with`` block ends.

        Args:
            n: The node; by default each goes to the very beginning of the graph, so the one
                created last comes first.
        """
        return InsertPoint(self, n.prepend if n else self._root.append)

    def inserting_after(self, n: core.Node | None = None) -> InsertPoint:
        """Insert new nodes behind a node: from this call on, or until a ``with`` block ends.

        Args:
            n: The node; by default new nodes go to the end of the graph.
        """
        return InsertPoint(self, n.append if n else self._root.prepend)

    def erase_node(self, to_erase: Any) -> None:
        """Take a node that nobody uses out of the graph; warn if that was done already.

        Raises:
            RuntimeError: It is in another graph, or it has users.
        """
        if to_erase.graph is not self:
            raise RuntimeError(f"{to_erase} is not in this graph: nothing to erase")
        if to_erase.is_erased:
            warnings.warn(f"{to_erase} was erased already", stacklevel=2)
            return
        super().erase_node(to_erase)
        to_erase.is_erased = True
        self.call_hooks("_erase_node_hooks", to_erase)

    def output_node(self) -> core.Node:
        """Return the output, which is the last node.

        Raises:
            RuntimeError: The last node is no output, or there is none. In torch an
                ``AssertionError``.
        """
        last = self._root.prev
        if last.op != "output":
            raise RuntimeError("the graph doesn't end with an output: create it with `output`")
        return last

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[core.Node]:
        """Return the nodes of an opcode, and of a target if one is given, in the graph's order.

        In torch: without an order if ``sort`` is false, and a function needs a target.

        >>> graph = Graph()
        >>> x = graph.placeholder("x")
        >>> calls = [graph.call_method(name, (x,)) for name in ("relu", "tanh", "relu")]
        >>> graph.find_nodes(op="call_method", target="relu")
        [relu, relu_1]
        """
        found = (node for node in self.nodes if node.op == op)
        return [node for node in found if target is None or node.target == target]

    def number(self, node: Any) -> None:
        """Give a node a position between its neighbours'; renumber all if there is none left."""
        before, after = node.prev, node.next
        if after is self._root:
            node.position = before.position + GAP
        elif before is self._root:
            node.position = after.position - GAP
        else:
            node.position = (before.position + after.position) // 2
        if node.position == before.position:
            for index, each in enumerate(self.nodes, start=1):
                each.position = index * GAP

    # Whole graphs

    def graph_copy(
        self, g: core.Graph, val_map: dict[core.Node, Any], return_output_node: bool = False
    ) -> Any:
        """Copy the nodes of another graph, but for its output, to the insertion point.

        Args:
            g: The other graph.
            val_map: From nodes of ``g`` to what stands for them here.
            return_output_node: Whether to return the output node of ``g`` as well.

        Returns:
            What stands for the result of ``g``, or ``None`` if ``g`` has no output.
        """
        result = super().graph_copy(g, val_map)
        output = next((node for node in g.nodes if node.op == "output"), None)
        return (result, output) if return_output_node and output else result

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        """Copy the nodes. What is copied along and refers to one of them refers to its copy."""
        result = type(self)(None, self._tracer_cls, self._tracer_extras)
        result._codegen = copy.deepcopy(self._codegen, memo)
        table: dict[core.Node, core.Node] = {}
        for node in self.nodes:
            table[node] = result.node_copy(node, table.__getitem__)
        memo.update({id(old): new for old, new in [(self, result), *table.items()]})
        return result

    def __getstate__(self) -> dict[str, Any]:
        """Return the nodes one after another; in the arguments each stands by its number."""
        numbers = {node: Numbered(index) for index, node in enumerate(self.nodes)}
        return {
            "origin": (self.owning_module, self._tracer_cls, self._tracer_extras),
            "steps": [(node.op, node.target, node.name, node.type, node.meta) for node in numbers],
            "arguments": [map_arg((node.args, node.kwargs), numbers.get) for node in numbers],
            "codegen": self._codegen,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(*state["origin"])  # type: ignore[misc]
        self._codegen = state["codegen"]
        nodes: list[core.Node] = []
        for op, target, name, type_expr, meta in state["steps"]:
            nodes.append(self.create_node(op, target, (), {}, name, type_expr))
            nodes[-1].meta = meta

        def node_at(leaf: Any) -> Any:
            return nodes[leaf.index] if isinstance(leaf, Numbered) else leaf

        for node, arguments in zip(nodes, state["arguments"], strict=True):
            node.set_arguments(*map_aggregate(arguments, node_at))

    def lint(self) -> None:
        """Check that the graph can run, and that its module has what the nodes name.

        Raises:
            RuntimeError: It can't run, or two nodes have one name; or there is no such attribute,
                or it is no module.
        """
        super().lint()
        seen = set()
        for node in self.nodes:
            if node.name in seen:
                raise RuntimeError(f"there are two nodes of the name {node}")
            seen.add(node.name)
        for node in self.nodes if self.owning_module is not None else ():
            if node.op in ("get_attr", "call_module"):
                kind = nn.Module if node.op == "call_module" else object
                found = attribute_at(self.owning_module, node.target)
                if found is None or not isinstance(found, kind):
                    owner = type(self.owning_module).__name__
                    what = "module" if node.op == "call_module" else "attribute"
                    raise RuntimeError(
                        f"{node} names {node.target}: the {owner} has no such {what}"
                    )

    def eliminate_dead_code(self, is_impure_node: Callable[[Any], bool] | None = None) -> bool:
        """Erase what nobody uses; also in the graphs that the module has and the nodes name.

        Raises:
            RuntimeError: The graph can't run, see ``lint``.
        """
        self.lint()
        changed = super().eliminate_dead_code(is_impure_node)
        paths = dict.fromkeys(node.target for node in self.find_nodes(op="get_attr"))
        children = [attribute_at(self.owning_module, path) for path in paths]
        for child in children:
            if isinstance(getattr(child, "graph", None), core.Graph):
                changed |= child.graph.eliminate_dead_code()
                child.recompile()
        return changed

    def print_tabular(self) -> None:
        """Print the nodes as a table. In torch it needs the package ``tabulate``.

        >>> graph = Graph()
        >>> x = graph.placeholder("x")
        >>> graph.print_tabular()
        opcode       name  target  args  kwargs
        -----------  ----  ------  ----  ------
        placeholder  x     x       ()    {}
        """
        rows = [(node.op, node.name, node.target, node.args, node.kwargs) for node in self.nodes]
        for row in table(["opcode", "name", "target", "args", "kwargs"], rows):
            print(row)

    # Code

    def set_codegen(self, codegen: Any) -> None:
        """Keep what turns the graph into code."""
        self._codegen = codegen

    def process_inputs(self, *args: Any) -> Any:
        """Return the inputs of the graph for the arguments of the module."""
        return self._codegen.process_inputs(*args) if self._codegen else args

    def process_outputs(self, out: Any) -> Any:
        """Return the module's result for that of the graph."""
        return self._codegen.process_outputs(out) if self._codegen else out

    def call_hooks(self, kind: str, *args: Any, **kwargs: Any) -> None:
        """Call the hooks of one kind that the graph's module has."""
        for hook in getattr(self.owning_module, kind, None) or ():
            hook(*args, **kwargs)


@dataclass(frozen=True)
class Numbered:
    """Stands for a node in the arguments of another, by its number in the graph."""

    index: int


def attribute_at(module: nn.Module | None, path: Any) -> Any:
    """Return what a path leads to, or ``None``."""
    try:
        return functools.reduce(getattr, str(path).split("."), module)
    except AttributeError:
        return None


def table(head: list[str], rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """Return the lines of a table, its columns as wide as they have to be."""
    cells = [head, *([str(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    pairs = [zip(row, widths, strict=True) for row in cells]
    return ["  ".join(cell.ljust(width) for cell, width in pair).rstrip() for pair in pairs]


def name_for(target: Callable[..., Any] | str) -> str:
    """Return a name for what a target gives: ``avgPool`` is ``avg_pool``, ``__call__`` ``call``."""
    name = target if isinstance(target, str) else function_name(target)
    if isinstance(target, str) and re.fullmatch("__.*__", name):
        name = name[2:-2]
    return name if name.islower() else re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def qualified_name(target: Callable[..., Any] | str) -> str:
    """Return a target as it is printed: ``operator.add``, ``torch.relu``, ``layer1.0.conv1``."""
    if isinstance(target, str):
        return target
    module = getattr(target, "__module__", "torch.Tensor")  # a tensor's own methods say none
    for private, public in (("_operator", "operator"), ("torch._ops", "torch.ops")):
        module = module.replace(private, public)
    return f"{module.replace('torch._tensor', 'torch.Tensor')}.{function_name(target)}"


def function_name(function: Callable[..., Any]) -> str:
    """Return a function's name; that of its class if it has none, as a ``functools.partial``."""
    return getattr(function, "__name__", type(function).__name__)


def type_name(annotation: Any) -> str:
    """Return an annotation as it is printed: ``int``, ``torch.Tensor``, ``list[int]``."""
    if not isinstance(annotation, type):
        return repr(annotation)
    return f"{annotation.__module__}.{annotation.__qualname__}".removeprefix("builtins.")


def format_arg(a: Any) -> str:
    """Return an argument as it is printed: a node is ``%name``, at any depth."""
    if isinstance(a, tuple | list):
        parts = ", ".join(map(format_arg, a))
        ending = "," if isinstance(a, tuple) and len(a) == 1 else ""
        return f"({parts}{ending})" if isinstance(a, tuple) else f"[{parts}]"
    if isinstance(a, dict):
        return "{" + ", ".join(f"{key}: {format_arg(value)}" for key, value in a.items()) + "}"
    return f"%{a}" if isinstance(a, core.Node) else str(a)
