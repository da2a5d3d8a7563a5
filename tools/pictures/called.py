"""The picture of a trace from inside: which patched method calls what, for each line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from drawing import Node, Panel, Picture
from drawing.listing import panel
from solutions.graph import Node as GraphNode
from solutions.proxy import Proxy
from solutions.tracer import Tracer
from tools.pictures.changed import Steps
from tools.pictures.models import InTwoLines
from tools.pictures.recorded import LineTracer, source_of


class WatchedTracer(Tracer):
    """A tracer that shows, step by step, the graph so far and the calls in progress below it."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.lines = LineTracer(function)
        self.calls: list[str] = []
        self.steps = Steps()

    def show(self, says: str, new: str = "") -> None:
        """Add a step: the nodes, then the calls, each below its caller."""
        parents = ["", *self.calls]
        calls = (
            Node(call, "value", parent=above)
            for call, above in zip(self.calls, parents, strict=False)
        )
        nodes = panel(self.graph, marks={new: "new"}).nodes  # type: ignore[arg-type]
        line = len(self.lines.lines) if new == "output" else self.lines.running_line()
        self.steps.add(says, Panel((*nodes, *calls)), line)

    @contextmanager
    def calling(self, patched: str, says: str, method: str) -> Iterator[None]:
        """Show a patched method of ``nn.Module``, then the tracer's method that it calls."""
        self.calls.append(f"nn.Module.{patched}")
        self.show(says)
        self.calls.append(f"Tracer.{method}")
        yield
        del self.calls[-2:]

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        path = self.path_of_module(m)
        says = f"{path} is called, and that is __call__, which is patched"
        with self.calling(f"__call__({path})", says, f"call_module({path})"):
            return super().call_module(m, forward, args, kwargs)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        leaf = super().is_leaf_module(m, module_qualified_name)
        kind = type(m).__name__
        self.show(
            f"the tracer is asked: {kind} is a leaf, so the call is one node"
            if leaf
            else f"the tracer is asked: {kind} isn't a leaf, so its forward runs"
        )
        return leaf

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        says = f"{attr} isn't an ordinary attribute, so Python calls __getattr__, which is patched"
        with self.calling(f"__getattr__({attr})", says, f"getattr({attr})"):
            kind = type(attr_val).__name__
            got = super().getattr(attr, attr_val, parameter_proxy_cache)
            if got is attr_val:
                self.show(f"the tracer is asked: a {kind} is returned as it is")
            return got

    def create_node(self, kind: str, *arguments: Any, **options: Any) -> GraphNode:
        node = super().create_node(kind, *arguments, **options)
        if kind == "get_attr":
            self.show("the tracer is asked: a parameter becomes a get_attr node", node.name)
        elif kind != "placeholder":
            self.show(f"{node} is in the graph", node.name)
        return node


def called() -> Picture:
    """Return how a call of a module and the read of a parameter reach the tracer."""
    tracer = WatchedTracer(InTwoLines.forward)
    tracer.trace(InTwoLines())
    return tracer.steps.picture(
        "How the tracer hears of calls and attributes",
        "Left a forward of two lines, right the nodes so far, and below them the calls in "
        "progress. Reading layers or scale calls nn.Module.__getattr__, and calling a module calls "
        "nn.Module.__call__; both are patched and ask the tracer. layers, a Sequential, is no "
        "leaf: its forward runs, and calls layers.0, a leaf, which becomes a node.",
        source_of(InTwoLines.forward),
    )
