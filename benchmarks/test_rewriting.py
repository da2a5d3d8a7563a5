"""Finding and replacing patterns, and fusing."""

from __future__ import annotations

from random import Random

import torch
from torch import nn
from torch.fx import GraphModule

from benchmarks.case import Call, Case, sized, timed
from kata.torchvision_compat import torchvision
from tests.models.rewriting import pattern_to_plant, planted
from tests.suite import equal

PARITY = 1.0


def random_graph(size: int) -> GraphModule:
    """``size`` nodes, many of them in matches of a pattern of five calls."""
    return planted(Random(0), size)[0]


def find(lesson, gm: GraphModule) -> Call:
    return lambda: lesson.match(pattern_to_plant, gm.graph)


def relu_of_the_sum(x, y):
    return torch.relu(x + y)


def replace(lesson, gm: GraphModule) -> Call:
    """The pattern, replaced by one call."""
    return lambda: lesson.replace_pattern(gm, pattern_to_plant, relu_of_the_sum)


def fuse(lesson, model: nn.Module) -> Call:
    return lambda: lesson.fuse(model)


def same_number(ours: list, theirs: list) -> None:
    equal(len(ours), len(theirs), cause="another number of matches")


def same_size(ours: GraphModule, theirs: GraphModule) -> None:
    equal(len(ours.graph.nodes), len(theirs.graph.nodes), cause="another number of nodes")


resnet50 = torchvision.models.resnet50().eval()

CASES = [
    *sized("nodes to look through", find, random_graph, same_number, (100, 10_000), PARITY),
    *sized(
        "nodes, a pattern in them replaced", replace, random_graph, same_number, (100, 1000), PARITY
    ),
    Case("resnet50 fused", fuse, lambda: resnet50, same_size, PARITY),
]

test_rewriting = timed
