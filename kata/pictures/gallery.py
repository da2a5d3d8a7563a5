"""Every picture of the site, by name."""

from __future__ import annotations

from collections.abc import Callable

from kata.drawing import Picture
from kata.pictures.record import panel
from kata.torchvision_compat import torchvision
from solutions.tracer import Tracer


def resnet18() -> Picture:
    graph = Tracer().trace(torchvision.models.resnet18())
    return Picture(
        title="ResNet18 as a graph",
        description=(
            "The 71 nodes of ResNet18, from the placeholder x at the top to the output at the "
            "bottom. Each top-level module has a column, and each column begins where the one "
            "before it ends. In every residual block a lane leads past the block to its addition."
        ),
        panels=(panel(graph),),
    )


GALLERY: dict[str, Callable[[], Picture]] = {
    "resnet18": resnet18,
}
