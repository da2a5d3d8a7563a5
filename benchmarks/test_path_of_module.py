"""Paths of all modules, the index included; during a trace, and where torch has no table."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import nn

from benchmarks import models
from benchmarks.case import Call, Case, Family, sizes, timed
from tests.suite import equal

LEAVES = Family("leaves, paths of all", 1.1)
BLOCKS = Family("leaves in blocks of ten, paths of all", 1.1)
SCAN = Family("leaves, paths of all outside a trace", 1.1)


def all_paths(make: Callable[[], nn.Module], *, during_trace: bool = True):
    """Each module's path once, as a trace asks for them; the call begins with table or index."""

    def prepare(lesson) -> Call:
        model = make()
        modules = list(model.modules())
        tracer = type("Plugged", (lesson.PathOfModule, torch.fx.Tracer), {})()
        is_torchs = issubclass(lesson.PathOfModule, torch.fx.Tracer)

        def call() -> list[str]:
            tracer.root = model
            if is_torchs and during_trace:
                # What torch's trace does before it runs the model.
                tracer.submodule_paths = {module: path for path, module in model.named_modules()}
            return [tracer.path_of_module(module) for module in modules]

        return call

    return {"prepare": prepare, "same": equal}


# No path changes a model: one of each size will do.
leaves, blocks = cache(models.leaf_calls), cache(models.blocks_of_ten)

CASES = [
    *(
        Case(
            f"{name}, paths of all",
            quick=name == "ResNet18",
            **all_paths(lambda name=name: models.classifier(name)),
        )
        for name in ("ResNet18", "ResNet152", "ConvNeXt-L")
    ),
    *sizes(
        LEAVES,
        lambda size: all_paths(lambda: leaves(size)),
        {300: None, 1000: None, 3000: None, 10_000: None},
    ),
    *sizes(
        BLOCKS,
        lambda size: all_paths(lambda: blocks(size)),
        {1000: None, 10_000: None},
    ),
    *sizes(
        SCAN,
        lambda size: all_paths(lambda: leaves(size), during_trace=False),
        {300: None, 1000: None, 3000: None},
    ),
]

test_path_of_module = timed
