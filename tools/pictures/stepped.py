"""Pictures of a function that runs: each step shows what is there after one more of its lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import torch

from drawing import Node, Panel, Picture
from drawing.listing import panel
from solutions.graph import Graph
from solutions.interpreter import Interpreter
from solutions.stretch.tracer import symbolic_trace
from tools.pictures.changed import Steps, lines_of
from tools.pictures.models import Residual, Scaled
from tools.pictures.recorded import source_of


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
    return stepped(
        "A graph is a ring of nodes",
        "Left eight lines that build and edit a graph, right its nodes in order, below the root "
        "that closes the ring. Beside each are the one before, the one after and its users. A mark "
        "says where the next node goes: before the root, and within the block before relu.",
        source_of(edit),
        says,
        run_in_steps(edit, (), lambda variables: ring_of(variables["graph"])),
    )


def ring_of(graph: Graph) -> Panel:
    """The root and its nodes, each with its neighbours and users."""
    root, place = graph._root, graph._insert.__self__  # type: ignore[attr-defined]
    rows = (Node("root", "value"), *panel(graph).nodes)  # type: ignore[arg-type]
    return Panel(
        tuple(
            replace(
                row,
                note=f"{node.prev.name or 'root'} ↔ {node.next.name or 'root'}"
                + f", used by {', '.join(user.name for user in node.users)}" * bool(node.users),
                mark="next above" if node is place else "",
            )
            for row, node in zip(rows, (root, *graph.nodes), strict=True)
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
