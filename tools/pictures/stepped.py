"""Pictures of what happens while something runs: a function line by line, a trace from inside."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

import torch
from torch import nn

from drawing import Node, Panel, Picture
from drawing.listing import panel
from solutions.graph import Graph
from solutions.graph import Node as GraphNode
from solutions.interpreter import Interpreter
from solutions.proxy import Proxy
from solutions.stretch.tracer import symbolic_trace
from solutions.tracer import Tracer
from tools.pictures.changed import Steps, lines_of
from tools.pictures.models import InTwoLines, Residual, Scaled
from tools.pictures.recorded import LineTracer, source_of


def run_in_steps(
    function: Callable, arguments: tuple, show: Callable[[dict[str, Any]], Panel]
) -> list[tuple[int, Panel]]:
    """Run a function, and show its variables after each line; the line is counted from 1."""
    steps: list[tuple[int, Panel]] = []
    code, running = function.__code__, 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal running
        if frame.f_code is not code:
            return None
        if event in ("line", "return"):
            if running:
                steps.append((running, show(frame.f_locals)))
            running = frame.f_lineno - code.co_firstlineno + 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)
    return steps


def stepped(
    title: str, description: str, source: str, says: list[str], steps: list[tuple[int, Panel]]
) -> Picture:
    """A picture of these steps, each with its words."""
    picture = Steps()
    for words, (line, shown) in zip(says, steps, strict=True):
        picture.add(words, shown, line)
    return picture.picture(title, description, source)


def edit() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(torch.relu, (x,))
    graph.output(relu)
    with graph.inserting_before(relu):
        neg = graph.call_function(torch.neg, (x,))
    relu.args = (neg,)


def ring() -> Picture:
    """Nodes in a ring: who is before and after each, who uses it, and where the next one goes."""
    says = [
        "an empty graph is a root that is its own neighbour",
        "x goes before the root, which is the end of the list",
        "relu goes there too, and x has a user",
        "so does the output",
        "from now on, new nodes go before relu",
        "neg goes before relu, and both neighbours point at it",
        "after the block, new nodes go to the end again",
        "relu takes neg instead of x, and both tables of users follow",
    ]
    before: set[tuple[str, str]] = set()
    return stepped(
        "A graph is a ring of nodes",
        "Left eight lines that build and edit a graph, right its nodes in order, below the root "
        "that closes the ring. Arrows on the left of the nodes link each with the next and the one "
        "before; those that a line changed are marked. Lines on the right lead from each node to "
        "its users. A dashed line is where the next node goes: at the end, and within the block "
        "before relu.",
        source_of(edit),
        says,
        run_in_steps(edit, (), lambda variables: ring_of(variables["graph"], before)),
    )


def ring_of(graph: Graph, before: set[tuple[str, str]]) -> Panel:
    """The root and its nodes, and which links are new; the links are the next ``before``."""
    root, place = graph._root, graph._insert.__self__  # type: ignore[attr-defined]
    rows = (Node("root", "value"), *panel(graph).nodes)  # type: ignore[arg-type]
    links = [(node.name, node.next.name) for node in (root, *graph.nodes)]
    known = set(before)
    before.clear()
    before.update(links)
    return Panel(
        tuple(
            replace(
                row,
                link="kept" if link in known else "new",
                mark="the next node goes before it" if node is place else "",
            )
            for row, node, link in zip(rows, (root, *graph.nodes), links, strict=True)
        )
    )


class ShownInterpreter(Interpreter):
    """An interpreter that adds a step after each node: every value that it has."""

    steps: Steps
    lines: dict[str, int]

    def execute(self, n: Any) -> None:
        super().execute(n)
        held = {node.name: str(list(value.shape)) for node, value in self.env.items()}
        shown = panel(self.graph, note=lambda node: held.get(node.name, ""), marks={n.name: "ran"})  # type: ignore[arg-type]
        self.steps.add(f"{n} has run; env has {', '.join(held)}", shown, self.lines[n.name])


def interpreted() -> Picture:
    """Return which values an interpreter has after each node."""
    model = Residual().eval()
    interpreter = ShownInterpreter(symbolic_trace(model))
    interpreter.steps, interpreter.lines = Steps(), lines_of(model)
    interpreter.run(torch.ones(1, 8, 4, 4))
    return interpreter.steps.picture(
        "A graph runs node by node",
        "Left the forward of a residual block, right its six nodes, and the shapes of the values "
        "that there are after each node. x stays until add has run; conv goes when bn has run.",
        source_of(Residual.forward),
    )


def lifetimes() -> Picture:
    """Return which tensors a generated forward holds after each of its lines."""
    gm = symbolic_trace(Scaled())
    for node in gm.graph.nodes:
        node.type = None  # an annotation would be a word more to explain
    gm.recompile()
    forward = type(gm).forward

    def show(variables: dict[str, Any]) -> Panel:
        alive = {name: each for name, each in variables.items() if isinstance(each, torch.Tensor)}
        rows = (Node(name, "value", note=str(list(each.shape))) for name, each in alive.items())
        return Panel((Node("self", "module"), *rows))

    steps = run_in_steps(forward, (gm, torch.ones(2, 4)), show)
    held = [len(shown.nodes) - 1 for _, shown in steps]
    return stepped(
        "A value lives until its last use",
        "Left the generated code, right the tensors that it holds after each line. Where a line "
        f"ends with `= None`, a value goes. There are never more than {max(held)} at once.",
        gm.code.strip() + "\n",
        [f"{count} tensor{'s' * (count != 1)} alive" for count in held],
        steps,
    )


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
        line = self.lines.ends.get(new) or self.lines.running_line()
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
