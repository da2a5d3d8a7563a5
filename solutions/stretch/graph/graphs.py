"""Unlike the core: a graph that knows its module, and the order of any two nodes."""

from __future__ import annotations

import copy
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any

from torch import nn

from ... import graph as core
from .._paths import attribute_at
from .names import Namespace, name_for
from .nodes import Node
from .storing import fill, state_of

if TYPE_CHECKING:
    from collections.abc import Callable

GAP = 1 << 64  # between the positions of two neighbours, for nodes that are inserted there
WIDE = 1 << 32  # the least gap between nodes that were spread again


class InsertPoint:
    """The place for new nodes, from now on; the end of a ``with`` block restores the old one.

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
    """The core's graph, with the other methods of torch's.

    Args:
        owning_module: The module that holds the graph and has what its nodes name.
        tracer_cls: The class of the tracer that recorded it.
        tracer_extras: Further arguments of such a tracer.

    In torch: ``torch.fx.Graph``.
    """

    _codegen: Any = None
    _find_nodes_lookup_table = property(lambda self: self.nodes)  # torch's passes read it

    def __init__(
        self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None
    ) -> None:
        super().__init__()
        self.owning_module, self._tracer_cls = owning_module, tracer_cls
        self._tracer_extras = tracer_extras
        self._graph_namespace = Namespace()
        self._root: Any = Node(self, "", "root", "", (), {})
        self._root._position = 0
        self.nodes: Any = core.NodeList(self._root)
        self._insert = self._root.prepend

    # Nodes

    _target_to_str = staticmethod(name_for)  # torch's proxies ask for it

    def create_node(
        self,
        op: str,
        target: Callable[..., Any] | str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> core.Node:
        name = self._graph_namespace.create_name(name_for(target) if name is None else name)
        node = Node(self, name, op, target, args or (), kwargs or {}, type_expr)
        self._insert(node)
        return node

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> core.Node:
        """Create a node for an attribute of the graph's module; warn if the module has none."""
        owner = self.owning_module
        if owner is not None and attribute_at(owner, qualified_name) is None:
            reason = f"the graph's module has no {qualified_name}: give it one before it runs"
            warnings.warn(reason, stacklevel=2)
        return self.create_node("get_attr", qualified_name, (), {}, None, type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> core.Node:
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def call_method(
        self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> core.Node:
        return self.create_node("call_method", method_name, args, kwargs, None, type_expr)

    def call_module(
        self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> core.Node:
        return self.create_node("call_module", module_name, args, kwargs, None, type_expr)

    def inserting_before(self, n: core.Node | None = None) -> InsertPoint:
        """Insert new nodes before a node, or at the beginning: from this call on, or in a block."""
        return InsertPoint(self, self.neighbour(n).prepend if n else self._root.append)

    def inserting_after(self, n: core.Node | None = None) -> InsertPoint:
        """Insert new nodes after a node, or at the end: from this call on, or in a block."""
        return InsertPoint(self, self.neighbour(n).append if n else self._root.prepend)

    def neighbour(self, n: core.Node) -> core.Node:
        """Return a node of this graph.

        Raises:
            ValueError: It is in another graph. In torch an ``AssertionError``.
        """
        if n.graph is not self:
            raise ValueError(f"{n} isn't in this graph: new nodes can't be inserted beside it")
        return n

    def erase_node(self, to_erase: Any) -> None:
        """Remove an unused node from the graph; warn if it was erased before.

        Raises:
            RuntimeError: The node is in another graph, or it has users.
        """
        if to_erase.graph is not self:
            raise RuntimeError(f"{to_erase} isn't in this graph, which can't erase it")
        if to_erase._erased:
            warnings.warn(f"{to_erase} was erased already", stacklevel=2)
            return
        super().erase_node(to_erase)

    def output_node(self) -> core.Node:
        """Return the output, which is the last node.

        Raises:
            RuntimeError: The last node isn't an output, or there is none. In torch an
                ``AssertionError``.
        """
        last = self._root.prev
        if last.op != "output":
            raise RuntimeError("the graph doesn't end with an output: create it with `output`")
        return last

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[core.Node]:
        """Return the core's result: it is in order, even if ``sort`` is false."""
        return super().find_nodes(op=op, target=target)

    def number(self, node: Any) -> None:
        """Give positions to a node and to those beside it that have none.

        They are spread over the gap between the nearest two nodes that have one. If it is used up,
        nodes on both sides are spread with them, and more of these until their gaps are wide: many
        nodes that are inserted at one place cost little more than as many elsewhere.
        """
        run, more, wanted = deque([node]), 0, 1
        while True:
            most = len(run) + more
            while self._is_joining(before := run[0].prev, len(run) < most):
                run.appendleft(before)
            most = len(run) + more
            while self._is_joining(after := run[-1].next, len(run) < most):
                run.append(after)
            start, is_at_end = before._position, after is self._root
            step = GAP if is_at_end else (after._position - start) // (len(run) + 1)
            if step >= wanted:
                break
            more, wanted = len(run), WIDE
        for index, each in enumerate(run, start=1):
            each._position = start + index * step

    def _is_joining(self, node: Any, is_wanted: bool) -> bool:
        """Return whether ``number`` takes a node in: it has no position, or more are wanted."""
        return node is not self._root and (node._position is None or is_wanted)

    # Whole graphs

    def graph_copy(
        self, g: core.Graph, val_map: dict[core.Node, Any], return_output_node: bool = False
    ) -> Any:
        """Copy the nodes of another graph, as the core does.

        Args:
            g: The other graph.
            val_map: From nodes of ``g`` to the values to use here.
            return_output_node: Whether to return the output node of ``g`` as well.
        """
        result = super().graph_copy(g, val_map)
        output = next((node for node in g.nodes if node.op == "output"), None)
        return (result, output) if return_output_node and output else result

    def __deepcopy__(self, memo: dict[int, Any]) -> core.Graph:
        result: Any = super().__deepcopy__(memo)
        result._tracer_cls, result._tracer_extras = self._tracer_cls, self._tracer_extras
        result._codegen = copy.deepcopy(self._codegen, memo)
        return result

    def __getstate__(self) -> dict[str, Any]:
        origin = self.owning_module, self._tracer_cls, self._tracer_extras
        return {"origin": origin, **state_of(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(*state["origin"])  # type: ignore[misc]
        fill(self, state)

    def lint(self) -> None:
        """Check that the graph can run, and that its module has what the nodes name.

        Raises:
            RuntimeError: The graph can't run, two nodes have one name, or a target is missing.
        """
        super().lint()
        seen = set()
        for node in self.nodes:
            if node.name in seen:
                raise RuntimeError(f"there are two nodes of the name {node}")
            seen.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                kind = nn.Module if node.op == "call_module" else object
                found = attribute_at(self.owning_module, node.target)
                if found is None or not isinstance(found, kind):
                    raise RuntimeError(f"{node} names {node.target}: the graph's module has none")

    def eliminate_dead_code(self, is_impure_node: Callable[[Any], bool] | None = None) -> bool:
        """Erase unused nodes, as the core does, after ``lint``."""
        self.lint()
        return super().eliminate_dead_code(is_impure_node)

    # Code

    def set_codegen(self, codegen: Any) -> None:
        """Set the object that turns the graph into code."""
        self._codegen = codegen

    def process_inputs(self, *args: Any) -> Any:
        """Return the graph's inputs for the module's arguments."""
        return self._codegen.process_inputs(*args) if self._codegen else args

    def process_outputs(self, out: Any) -> Any:
        """Return the module's result for the graph's result."""
        return self._codegen.process_outputs(out) if self._codegen else out
