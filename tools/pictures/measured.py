"""Pictures of what a run tells about its nodes."""

from __future__ import annotations

import torch
from torch import fx

from drawing import Node, Panel, Picture
from drawing.listing import target_of
from kata.torchvision_compat import torchvision
from solutions.stretch.interpreter import Profiler, ShapeProp

NAME = len("layer4_0_downsample_0")
BAR = 24  # characters, for the node that needs the most


def memory() -> Picture:
    """Show how much memory is in use while each node of ResNet18 runs."""
    module = fx.symbolic_trace(torchvision.models.resnet18().eval())
    image = torch.zeros(1, 3, 224, 224)
    ShapeProp(module).propagate(image)
    Profiler(module).run(image)
    most = max(node.meta["bytes"] for node in module.graph.nodes)
    return Picture(
        title="The memory that ResNet18 needs, node by node",
        description=(
            "The 71 nodes of ResNet18 in a column, each with the shape of its value and a bar for "
            "the memory in use while it runs. The bars are longest at the first batch norm, 6.4 "
            "megabytes, and get shorter from layer to layer."
        ),
        panels=(Panel(tuple(row(node, most) for node in module.graph.nodes)),),
    )


def row(node: fx.Node, most: int) -> Node:
    """A node with its shape, and a bar as long as its share of the most memory."""
    size = node.meta["bytes"]
    shape = "×".join(map(str, node.meta["tensor_meta"].shape))
    # The font is monospaced: no-break spaces let all bars begin in one place.
    bar = "\N{NO-BREAK SPACE}" * (NAME - len(node.name)) + "█" * max(1, round(BAR * size / most))
    return Node(node.name, node.op, target_of(node), note=f"{bar} {size / 1e6:.1f} MB · {shape}")
