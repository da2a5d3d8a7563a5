"""Pictures of what a run tells about its nodes."""

from __future__ import annotations

import torch
from torch import fx

from drawing import Node, Panel, Picture
from drawing.listing import module_of
from kata.torchvision_compat import torchvision
from solutions.stretch.interpreter import Profiler, ShapeProp

NAME = len("maxpool")
BAR = 24  # characters, for the module that needs the most


def memory() -> Picture:
    """Show how much memory is in use while each part of ResNet18 runs."""
    module = fx.symbolic_trace(torchvision.models.resnet18().eval())
    image = torch.zeros(1, 3, 224, 224)
    ShapeProp(module).propagate(image)
    Profiler(module).run(image)
    parts: dict[str, list[fx.Node]] = {}
    for node in module.graph.nodes:
        parts.setdefault(module_of(node).split(".")[0] or node.name, []).append(node)
    largest = {name: max(nodes, key=bytes_of) for name, nodes in parts.items()}
    most = max(map(bytes_of, largest.values()))
    return Picture(
        title="The memory that ResNet18 needs, part by part",
        description=(
            "The parts of ResNet18 in a column. Each has a bar for the most memory in use while "
            "one of its nodes runs, and that node with the shape of its value. The bar is longest "
            "at the first batch norm, 6.4 megabytes, and gets shorter from layer to layer."
        ),
        panels=(Panel(tuple(row(name, node, most) for name, node in largest.items())),),
    )


def bytes_of(node: fx.Node) -> int:
    return int(node.meta["bytes"])


def row(name: str, node: fx.Node, most: int) -> Node:
    """A part of the model with its node that needs the most, and a bar as long as its share."""
    size = bytes_of(node)
    shape = "×".join(map(str, node.meta["tensor_meta"].shape))
    # The font is monospaced: no-break spaces let all bars begin in one place.
    bar = "\N{NO-BREAK SPACE}" * (NAME - len(name)) + "█" * max(1, round(BAR * size / most))
    op = "module" if node.op == "call_module" else node.op
    return Node(name, op, note=f"{bar} {size / 1e6:.2g} MB · {node.name} · {shape}")
