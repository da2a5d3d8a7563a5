"""Pictures of graphs before and after a transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, fx, nn
from torch.fx import GraphModule

from drawing import Link, Picture
from drawing.listing import panel
from kata.torchvision_compat import torchvision
from solutions.stretch.inversion import invert
from solutions.stretch.split_module import split_module
from solutions.stretch.tracer import symbolic_trace

CALLS = ("call_function", "call_method", "call_module")
PARTITIONS = 4


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
