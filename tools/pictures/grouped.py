"""A picture of rows that are grouped, step by step: loops that merge."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from drawing import Panel, Picture
from drawing.listing import panel
from solutions.backend import Kernel, kernels
from solutions.capture import capture
from solutions.code import GraphModule
from solutions.graph import Graph, Node
from solutions.split_module import with_calls
from tools.pictures.changed import Moves, Steps
from tools.pictures.recorded import lines_captured, source_of


def function(x: Tensor, w: Tensor) -> Tensor:
    scaled = x * 2 + 1
    mixed = scaled.mm(w)
    return torch.relu(mixed).neg()


def loops() -> Picture:
    """Four loops become two, and each becomes one call of a kernel."""
    arguments = (torch.ones(4, 3), torch.ones(3, 5))
    flat = capture(function, arguments)
    line_of = {node.name: node.meta["line"] for node in lines_captured(function, arguments).nodes}
    found = [kernel for kernel in kernels(flat) if kernel.is_fused]
    first = {node.name: node.name for kernel in found for node in kernel.nodes}
    marks: dict[str, str] = {}
    steps = Steps()

    def step(says: str, at: str = "") -> None:
        numbers = {name: number for number, name in enumerate(dict.fromkeys(first.values()), 1)}
        groups = {name: f"loop {numbers[leader]}" for name, leader in first.items()}
        shown = panel(flat.graph, groups=groups, marks=marks)  # type: ignore[arg-type]
        steps.add(says, shown, line_of.get(at, 0))

    step(f"eager runs {len(first)} loops, and each stores its result; mm is a call of torch")
    for kernel in found:
        for before, node in pairwise(kernel.nodes):
            first[node.name], marks[before.name] = first[before.name], "isn't stored"
            says = f"an element of {node} needs only that element of {before}: they share a loop"
            step(says, node.name)
    for node in flat.graph.find_nodes(op="call_function"):
        if node.name not in first:
            begins = f"{node} needs a whole row of {node.all_input_nodes[0]}"
            step(f"{begins}, so it can't share a loop with it", node.name)
    shown, moves = compiled(flat, found)
    steps.add("each loop is compiled, and the graph calls it", shown, moves=moves)
    return steps.picture(
        "Four loops become two",
        "A flat graph of mul, add, mm, relu and neg. First each of the four others is a loop of "
        "its own. Then mul and add share one, and so do relu and neg; mm separates the two. At "
        "the end each loop is one call of a kernel.",
        source_of(function),
    )


def compiled(flat: GraphModule, found: Sequence[Kernel]) -> tuple[Panel, Moves]:
    """The graph that calls the kernels, and which node became part of which call."""
    calls: dict[Kernel, Node] = {}

    def kernel(*inputs: Tensor) -> None:
        """The name of the calls; the picture needs no compiler."""

    kernel.__module__ = ""

    def call(graph: Graph, each: Kernel, inputs: tuple[Node, ...]) -> Node | None:
        if each.is_fused:
            calls[each] = graph.call_function(kernel, inputs)
        return calls.get(each)

    graph = with_calls(flat.graph, kernels(flat), call)
    pairs = zip(found, calls.values(), strict=True)
    moves = [(node.name, str(call)) for kernel, call in pairs for node in kernel.nodes]
    return panel(graph, marks=dict.fromkeys(map(str, calls.values()), "new")), moves  # type: ignore[arg-type]
