"""Graphs to generate code for, and what torch generates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn

from tests.suite import equal, is_value


def traced(function: Callable[..., Any]) -> fx.Graph:
    return fx.symbolic_trace(function).graph


def call(
    target: Any, *args: Any, op: str = "call_function", inputs: str = "xy", **kwargs: Any
) -> fx.Graph:
    """The graph of one call; among its arguments, a letter of ``inputs`` means that input.

    The output is the call's value, so nothing is freed in its line.
    """
    graph = fx.Graph()
    nodes = {name: graph.placeholder(name) for name in inputs}

    def as_nodes(value: Any) -> Any:
        return nodes.get(value, value) if isinstance(value, str) else value

    args, kwargs = fx.node.map_aggregate((args, kwargs), as_nodes)
    graph.output(graph.create_node(op, target, args, kwargs))
    return graph


def calling(path: str) -> fx.Graph:
    graph = fx.Graph()
    graph.output(graph.call_module(path, (graph.placeholder("x"),)))
    return graph


def lines(code: str) -> list[str]:
    """The lines of generated code that aren't empty."""
    return [line.strip() for line in code.splitlines() if line.strip()]


# What a line that frees wrongly shows, for the functions of the suite.
FREEING: list[tuple[Any, str]] = [
    (lambda got: "return" in got and ";" in got, "nothing is freed after a `return`"),
    (lambda got: "; " in got and ";  " not in got, "torch writes two spaces after a `;`"),
    (lambda got: "del " in got, "torch assigns `None`, and deletes nothing"),
    (lambda got: got.endswith(";   = None"), "this line frees nothing, and ends before the `;`"),
    (lambda got: got.count("None") > 1, "torch frees them in one assignment: `x = y = None`"),
    (is_value("    sin = torch.sin(neg);  neg = None"), "`sin` is unused: its own line frees it"),
    (lambda got: "input_1 = None" in got, "a placeholder frees nothing"),
    (is_value("    sub = x - add;  add = x = None"), "they aren't in the order of `last_uses`"),
]


def same_code(actual: str, graph: fx.Graph, *, until: str = "\n", cause: Any = ()) -> None:
    """Fail at the first line that isn't torch's; of each, the text before ``until`` counts."""
    codes = actual, graph.python_code("self").src
    ours, theirs = (
        [line.partition(until)[0] for line in code.strip().split("\n")] for code in codes
    )
    for our, their in zip(ours, theirs, strict=False):
        blank = (not our.strip(), "this line is blank; a statement without text has no line")
        spaces = (our.lstrip() == their.lstrip(), "each statement is indented by four spaces")
        equal(our, their, cause=[*cause, blank, spaces])
    equal(len(ours), len(theirs))


def same_statements(actual: str, graph: fx.Graph) -> None:
    """Fail at the first line whose statement isn't torch's; what it frees isn't compared."""
    same_code(actual, graph, until=";")


def runnable(lesson: Any, graph: fx.Graph) -> Callable[..., Any]:
    """The generated function of a graph that doesn't use ``self``."""
    source, names = lesson.python_code(graph)
    scope = dict(names)
    exec(compile(source, "<generated>", "exec", dont_inherit=True), scope)
    forward = scope["forward"]
    return lambda *args, **kwargs: forward(None, *args, **kwargs)


def freed_early(graph: fx.Graph, freed: dict[fx.Node, list[fx.Node]]) -> str:
    """Say which value is freed by a node before another one uses it; empty if none is."""
    order = list(graph.nodes)
    for number, node in enumerate(order):
        for value in freed[node]:
            later = [user for user in order[number + 1 :] if user in value.users]
            if later:
                return f"{value} is freed by {node}, and {later[0]} uses it later"
    return ""


class Same:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same)

    def __hash__(self) -> int:
        return 0


class Nested(nn.Module):
    """A parameter, buffers, a plain tensor and modules at several depths, and more of each."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh())
        self.scale = nn.Parameter(torch.rand(4))
        self.register_buffer("shift", torch.rand(4))
        self.block.constant = torch.rand(4)
        self.unused = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.block[2](self.block[0](x)) * self.scale + self.shift
        return y + self.block.constant - self.block[0].bias


def nested() -> tuple[Nested, fx.Graph]:
    """A ``Nested`` and its graph, in which buffers are nodes too."""
    model = Nested()
    tracer = fx.Tracer()
    tracer.proxy_buffer_attributes = True
    return model, tracer.trace(model)
