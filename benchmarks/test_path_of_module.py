"""Paths of all modules, the index included; during a trace, and where torch has no table."""

from __future__ import annotations

from functools import cache, partial

import torch
from torch import nn

from benchmarks.case import Call, Case, sized, timed
from benchmarks.models import classifier, leaf_calls
from tests.suite import equal


def all_paths(lesson, model: nn.Module, *, during_trace: bool = True) -> Call:
    """Each module's path once, as a trace asks for them; the call begins with table or index."""
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


outside = partial(all_paths, during_trace=False)
# No path changes a model: one of each size will do.
leaves = cache(leaf_calls)

CASES = [
    Case("ResNet18, paths of all", all_paths, partial(classifier, "ResNet18"), equal),
    *sized("leaves, paths of all", all_paths, leaves, equal, (300, 1000, 3000, 10_000)),
    *sized("leaves, paths of all outside a trace", outside, leaves, equal, (300, 1000, 3000)),
]

test_path_of_module = timed
