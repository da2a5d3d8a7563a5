"""Models cut into few and into many partitions."""

from __future__ import annotations

from functools import cache

import torch
from torch.fx import GraphModule

from benchmarks import models
from benchmarks.case import Call, Case, Family, sizes, timed
from benchmarks.equality import same_split

TARGET = 0.75
PARTITIONS = Family("partitions of 10 000 nodes")
NODES = Family("nodes in 8 partitions", 1.1)


@cache
def traced(name: str) -> GraphModule:
    """One of torchvision's models, traced by torch: both sides cut the same graph."""
    return torch.fx.symbolic_trace(models.classifier(name))


@cache
def chain(size: int) -> GraphModule:
    """``size`` calls of leaf modules, traced."""
    return torch.fx.symbolic_trace(models.leaf_calls(size))


def split(make, partitions: int = 0):
    """A cut into equal stretches; into one partition a call by default."""

    def prepare(lesson) -> Call:
        model: GraphModule = make()
        calls = [node for node in model.graph.nodes if node.op.startswith("call_")]
        count = partitions or len(calls)
        numbers = {node: at * count // len(calls) for at, node in enumerate(calls)}
        return lambda: lesson.split_module(model, model, numbers.__getitem__)

    return {"prepare": prepare, "same": same_split}


CASES = [
    Case("ResNet18, one a call", quick=True, **split(lambda: traced("ResNet18"))),
    Case("ResNet152, one a call", target=TARGET, **split(lambda: traced("ResNet152"))),
    Case("ConvNeXt-L in 4", target=TARGET, **split(lambda: traced("ConvNeXt-L"), 4)),
    Case("ConvNeXt-L in 32", target=TARGET, **split(lambda: traced("ConvNeXt-L"), 32)),
    *sizes(
        PARTITIONS,
        lambda count: split(lambda: chain(10_000), count) | {"quick": False},
        {8: TARGET, 100: None, 1000: TARGET},
    ),
    *sizes(
        NODES,
        lambda size: split(lambda: chain(size), 8) | {"quick": False},
        {300: None, 1000: None, 3000: None},
    ),
]

test_split_module = timed
