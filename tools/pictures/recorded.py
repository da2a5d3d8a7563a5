"""Pictures that are gone through step by step: which line of the source made which node."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn

from drawing import Panel, Picture
from drawing.listing import panel
from solutions.stretch.capture import Recorder
from solutions.stretch.tracer import Tracer
from tools.pictures.models import Gate


def source_of(*things: Callable | type) -> str:
    """The source of functions and classes, one below the other."""
    return "\n".join(textwrap.dedent(inspect.getsource(each)) for each in things)


class LineTracer(Tracer):
    """A tracer that keeps the line of ``function`` that was running when a node was made."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        lines, self.first = inspect.getsourcelines(function)
        self.ends = {"placeholder": 1, "output": len(lines)}
        self.file = inspect.getsourcefile(function)

    def create_node(self, kind: str, *arguments: Any, **options: Any) -> fx.Node:
        """Make the node; a placeholder belongs to the signature, the output to the last line."""
        node = super().create_node(kind, *arguments, **options)
        node.meta["line"] = self.ends.get(kind) or self.running_line()
        return node

    def running_line(self) -> int:
        """The innermost line of the function on Python's stack, counted from its first."""
        frame = sys._getframe()
        while frame := frame.f_back:  # type: ignore[assignment]
            line = frame.f_lineno - self.first + 1
            if frame.f_code.co_filename == self.file and 1 <= line <= self.ends["output"]:
                return line
        raise LookupError("no line of the function is running")


def recorded(root: nn.Module | Callable, title: str, description: str) -> Picture:
    """Trace a module or a function, and keep its source and the line of each node."""
    function = type(root).forward if isinstance(root, nn.Module) else root
    return grown(LineTracer(function).trace(root), function, title, description)


def grown(graph: fx.Graph, function: Callable, title: str, description: str) -> Picture:
    """A graph beside its source, with what each node notes of its line and the dispatcher."""
    listed = panel(graph, note=lambda node: node.meta.get("dispatched", "")).nodes
    lines = [node.meta["line"] for node in graph.nodes]
    nodes = tuple(replace(node, line=line) for node, line in zip(listed, lines, strict=True))
    return Picture(title, description, (Panel(nodes),), source=source_of(function))


def summed(x: Tensor) -> Tensor:
    doubled = 2 * x
    active = torch.relu(doubled)
    return active.sum(dim=-1)


def recorded_line() -> Picture:
    """Record what three lines do to a proxy."""
    return recorded(
        summed,
        "Three operations, recorded line by line",
        "Five nodes in a column: the placeholder x, then mul, relu and sum_1, each of which takes "
        "the one before it, then the output.",
    )


def recorded_gate() -> Picture:
    """Record the model of the ten minutes."""
    return recorded(
        Gate(),
        "The gate, recorded line by line",
        "Seven nodes in a column. The placeholder x goes into linear and into mul, past sigmoid. "
        "scale is fetched where it is used, and multiplied with the result.",
    )


class LineRecorder(Recorder):
    """A recorder that keeps where a node comes from.

    That is the line of ``function`` that was running, and what the dispatcher got from it.
    """

    def __init__(self, function: Callable) -> None:
        super().__init__({})
        self.graph = fx.Graph()  # type: ignore[assignment]
        self.lines = LineTracer(function)
        self.dispatched = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Handle an operator; those that it is broken into belong to it."""
        outermost = self.dispatched
        shapes = [shape_of(each) for each in args if isinstance(each, Tensor)]
        self.dispatched = outermost or f"← {func}({', '.join(shapes)})"
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        finally:
            self.dispatched = outermost

    def add_node(self, *arguments: Any) -> Any:
        node = super().add_node(*arguments)
        node.meta.update(line=self.lines.running_line(), dispatched=self.dispatched)
        return node


def shape_of(tensor: Tensor) -> str:
    return "×".join(map(str, tensor.shape))


def lines_captured(function: Callable, arguments: tuple) -> fx.Graph:
    """Capture a function, with the line of each node and what the dispatcher got in its ``meta``.

    An input belongs to the signature, the output to the last line.
    """
    recorder = LineRecorder(function)
    recorder.finish(recorder.run(function, arguments, {}))
    for node in recorder.graph.nodes:
        node.meta["line"] = recorder.lines.ends.get(node.op) or node.meta["line"]
    return recorder.graph  # type: ignore[return-value]


def normalised(x: Tensor, bias: Tensor) -> Tensor:
    scores = torch.nn.functional.linear(x, bias)
    if scores.shape[-1] > 2:
        scores -= scores.amax(-1, keepdim=True)
    scores[0].relu_()
    return torch.softmax(scores, -1)


def captured() -> Picture:
    """A function with a branch and two writes, captured below autograd."""
    return grown(
        lines_captured(normalised, (torch.ones(2, 4), torch.ones(3, 4))),
        normalised,
        "A function is captured",
        "Left the function, right the nodes, each with the operator that the dispatcher got, and "
        "the shapes of its tensors. The branch leaves none. A write, sub_, becomes a new value, "
        "and a write to a row, relu_, is put into the whole by select_scatter.",
    )
