"""Models cut into few and into many partitions."""

from __future__ import annotations

from functools import cache

import torch
from torch.fx import GraphModule

from benchmarks.case import Call, Case, sized, timed
from benchmarks.models import classifier, leaf_calls
from tests.models.split_module import same_submodules

TARGET = 0.75


@cache
def traced(name: str) -> GraphModule:
    """One of torchvision's models, traced by torch: both sides cut the same graph."""
    return torch.fx.symbolic_trace(classifier(name))


@cache
def chain(size: int) -> GraphModule:
    """``size`` calls of leaf modules, traced."""
    return torch.fx.symbolic_trace(leaf_calls(size))


def split(lesson, given: tuple[GraphModule, int]) -> Call:
    """A cut into so many equal stretches; into one partition a call for zero."""
    model, partitions = given
    calls = [node for node in model.graph.nodes if node.op.startswith("call_")]
    count = partitions or len(calls)
    numbers = {node: at * count // len(calls) for at, node in enumerate(calls)}
    return lambda: lesson.split_module(model, model, numbers.__getitem__)


def same_split(ours: GraphModule, theirs: GraphModule) -> None:
    """The same submodules; where several could run next, in either order."""
    same_submodules(ours, theirs, meta=("nn_module_stack",))


CASES = [
    Case("ResNet18, one a call", split, lambda: (traced("ResNet18"), 0), same_split),
    Case("ConvNeXt-L in 32", split, lambda: (traced("ConvNeXt-L"), 32), same_split, TARGET),
    *sized(
        "partitions of 10 000 nodes",
        split,
        lambda count: (chain(10_000), count),
        same_split,
        (8, 1000),
        TARGET,
    ),
    *sized("nodes in 8 partitions", split, lambda size: (chain(size), 8), same_split, (300, 3000)),
]

test_split_module = timed
