"""Record what the callees do, in the graph that has the calls."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import Argument, map_arg
from torch.fx.proxy import TraceError

from .._paths import named_modules
from ..tracer import Tracer

# What norm layers call to look at their input.
_CHECK = "_check_input_dim"


@dataclass(frozen=True)
class Call:
    """A node to replace, and what to run in its place."""

    node: Node
    callee: Callable[..., Any]

    def __str__(self) -> str:
        callee = getattr(self.callee, "__name__", type(self.callee).__name__)
        return f"{callee} at node {self.node.name!r} ({self.node.op} {self.node.target})"


def record(
    gm: GraphModule, calls: list[Call], is_leaf: Callable[[nn.Module], bool]
) -> list[Argument]:
    """Record each callee in front of its call, or, if one of them can't be recorded, none.

    Args:
        gm: the module whose graph has the calls.
        calls: what to record, in the graph's order.
        is_leaf: whether a module may be recorded as one call, where the tracer would do so.

    Returns:
        What each call gives, as an argument for the nodes that use it.
    """
    with _undone_on_failure(gm.graph), _without_input_checks(gm):
        recorder = _CallRecorder(gm, calls, is_leaf)
        recorder.trace(gm)
        return recorder.results


class _CallRecorder(Tracer):
    """A tracer that runs the callees instead of ``forward``, in the graph that exists."""

    # A buffer that the callee changes is to be changed by the graph, and not now.
    proxy_buffer_attributes = True

    def __init__(
        self, gm: GraphModule, calls: list[Call], is_leaf: Callable[[nn.Module], bool]
    ) -> None:
        super().__init__()
        self.gm = gm
        self.calls = calls
        self.is_leaf = is_leaf
        self.results: list[Argument] = []

    def create_args_for_root(self, *_: Any) -> tuple[Callable[[], None], list[Any]]:
        """Say what the trace is to run, and with which arguments."""
        self.graph = self.gm.graph
        return self.run_callees, []

    def run_callees(self) -> None:
        for call in self.calls:
            with self.graph.inserting_before(call.node):
                self.module_stack = _stack_around(call)
                self.results.append(self.create_arg(self.run(call)))

    def run(self, call: Call) -> Any:
        args = map_arg(call.node.args, self.proxy)  # type: ignore[arg-type]
        kwargs = map_arg(call.node.kwargs, self.proxy)  # type: ignore[arg-type]
        try:
            return call.callee(*args, **kwargs)
        except Exception as error:
            raise TraceError(
                f"cannot inline {call}: {type(error).__name__}: {error} (while it is recorded, "
                "values are proxies: its code must not branch on, loop over or convert them)"
            ) from error

    def create_node(self, kind: str, *args: Any, **kwargs: Any) -> Node:
        """Create a node, except the output: the graph has one."""
        if kind == "output":
            return self.graph.output_node()
        return super().create_node(kind, *args, **kwargs)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return self.is_leaf(m) and super().is_leaf_module(m, module_qualified_name)


def _stack_around(call: Call) -> OrderedDict[str, tuple[str, Any]]:
    """The modules that the call is in; a module that is called adds itself."""
    stack = OrderedDict(call.node.meta.get("nn_module_stack", {}))
    if stack and isinstance(call.callee, nn.Module):
        stack.popitem()
    return stack


@contextmanager
def _undone_on_failure(graph: Graph) -> Iterator[None]:
    """Erase the nodes that were added, and free their names, should the block fail."""
    present = set(graph.nodes)
    names = {name: copy(value) for name, value in vars(graph._graph_namespace).items()}
    try:
        yield
    except BaseException:
        for node in reversed(graph.nodes):
            if node not in present:
                graph.erase_node(node)
        vars(graph._graph_namespace).update(names)
        raise


@contextmanager
def _without_input_checks(gm: GraphModule) -> Iterator[None]:
    """Switch off the check that norm layers make: it branches on a shape, and a proxy has none."""
    modules = [module for _, module in named_modules(gm)]
    tables = [vars(module) for module in modules if hasattr(module, _CHECK)]
    before = [(table, table.get(_CHECK)) for table in tables]
    for table in tables:
        table[_CHECK] = lambda _: None
    try:
        yield
    finally:
        for table, own in before:
            if own is None:
                del table[_CHECK]
            else:
                table[_CHECK] = own
