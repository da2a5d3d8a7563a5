"""Pictures of graphs before and after a transform."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, fx, nn
from torch.fx import GraphModule

from drawing import Link, Picture
from drawing.listing import panel
from kata.torchvision_compat import torchvision
from solutions.stretch.graph import Graph
from solutions.stretch.inlining import inline_all
from solutions.stretch.inversion import invert
from solutions.stretch.rewriting import fuse
from solutions.stretch.split_module import split_module
from solutions.stretch.tracer import symbolic_trace
from tools.pictures.models import Residual

CALLS = ("call_function", "call_method", "call_module")
PARTITIONS = 4


def edited() -> Picture:
    """Replace a node by another one, step by step, and say who uses each."""
    graph: Any = Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(torch.relu, (x,))
    graph.output(graph.call_function(operator.add, (relu, x)))
    with graph.inserting_after(relu):
        tanh = graph.call_function(torch.tanh, (x,))
    panels = [panel(graph, "tanh is inserted", marks={"tanh": "new"}, note=users_of)]
    relu.replace_all_uses_with(tanh)
    panels.append(panel(graph, "its users change over", note=users_of))
    graph.erase_node(relu)
    panels.append(panel(graph, "relu is erased", note=users_of))
    return Picture(
        title="A node is replaced by another one",
        description=(
            "The same graph three times. First relu and the new tanh take x, add takes relu and x, "
            "and nobody uses tanh. Then add takes tanh and x, and nobody uses relu. At the end "
            "relu is gone, and no longer among the users of x."
        ),
        panels=tuple(panels),
    )


def users_of(node: fx.Node) -> str:
    """The users of a node; nothing for the output, which has none."""
    names = ", ".join(user.name for user in node.users)
    return (names or "nobody") if node.op != "output" else ""


def inlined() -> Picture:
    """Show a block before and after its modules are replaced by what they do."""
    gm = symbolic_trace(Residual().eval())
    before = panel(gm.graph, "before")
    old = {node.name for node in before.nodes}
    after = panel(inline_all(gm).graph, "after inline_all")
    marked = {node.name: "new" for node in after.nodes if node.name not in old}
    return Picture(
        title="A residual block before and after inlining",
        description=(
            f"On the left {len(before.nodes)} nodes, three of them calls of the modules conv, bn "
            f"and relu. On the right {len(after.nodes)} nodes and no such call: parameters and "
            "buffers are read by get_attr nodes, and functions take them. Each new node is framed "
            "and marked."
        ),
        panels=(before, panel(gm.graph, "after inline_all", marks=marked)),
    )


def inverted() -> Picture:
    """Show a chain, and the chain that undoes it."""

    def f(x: Tensor) -> Tensor:
        return torch.exp(torch.tan(x) * 3 + 2)

    forwards = panel(symbolic_trace(f).graph, "forwards", note=arguments_of)
    backwards = panel(invert(f).graph, "backwards", note=arguments_of)
    return Picture(
        title="A chain of operations, forwards and backwards",
        description=(
            "On the left the chain x, tan, mul, add, exp, output. On the right the chain that "
            "undoes it: it takes the output, and begins with the inverse of the last operation. "
            "The lines between an operation and its inverse all cross."
        ),
        panels=(forwards, backwards),
        links=tuple(
            Link(0, one.name, other.name)
            for one, other in zip(forwards.nodes, reversed(backwards.nodes), strict=True)
        ),
    )


def arguments_of(node: fx.Node) -> str:
    return f"({', '.join(map(str, node.args))})" if node.op == "call_function" else ""


def fused() -> Picture:
    """Show a residual block before and after its batch norm is fused."""
    model = Residual().eval()
    before = panel(symbolic_trace(model).graph, "before")
    return Picture(
        title="A residual block before and after fusing",
        description=(
            f"On the left {len(before.nodes)} nodes, among them a convolution and the batch norm "
            "that uses its value. On the right the batch norm is gone, and the convolution has "
            "another weight and a bias."
        ),
        panels=(before, panel(fuse(model).graph, "after fuse", marks={"conv": "new"})),
    )


def partitions() -> Picture:
    """Show ResNet18 with its calls dealt into four parts of equal size."""
    gm = symbolic_trace(torchvision.models.resnet18())
    calls = [node for node in gm.graph.nodes if node.op in CALLS]
    number_of = {node: place * PARTITIONS // len(calls) for place, node in enumerate(calls)}
    groups, _ = split_into_groups(gm, number_of.__getitem__)
    return Picture(
        title="ResNet18 in four partitions",
        description=(
            "The 71 nodes of ResNet18, with its calls in four partitions, submod_0 to submod_3. "
            "Edges with a stroke through them lead from one partition into the next. A cut in the "
            "middle of a residual block crosses two of them: the one in the block, and the one "
            "that goes around it."
        ),
        panels=(panel(gm.graph, groups=groups),),
    )


def split_into_groups(
    gm: GraphModule, callback: Callable[[fx.Node], int]
) -> tuple[dict[str, str], GraphModule]:
    """Split a model; return the submodule that each call went to, and the split model."""
    asked: dict[str, str] = {}

    def remember(node: fx.Node) -> int:
        number = callback(node)
        asked[node.name] = f"submod_{number}"
        return number

    return asked, split_module(gm, cast(nn.Module, gm), remember)
