"""The engine: the cores of eight lessons, with their own proxies, graph and tracer."""

from __future__ import annotations

from torch import nn

from benchmarks.case import Case, timed
from benchmarks.models import classifier
from benchmarks.test_tracer import trace

TARGET = 0.55


def without_wrapped_functions(name: str) -> nn.Module:
    """A classifier whose stochastic depth is gone: recording it as one call is stretch."""
    model = classifier(name)
    for path, module in [*model.named_modules()]:
        if type(module).__name__ == "StochasticDepth":
            model.set_submodule(path, nn.Identity())
    return model


CASES = [
    Case(
        f"trace of {name}",
        target=TARGET,
        quick=name == "ResNet18",
        **trace(lambda name=name: without_wrapped_functions(name)),
    )
    for name in ("ResNet18", "ResNet152", "ViT-B/16", "ConvNeXt-L")
]

test_finale = timed
