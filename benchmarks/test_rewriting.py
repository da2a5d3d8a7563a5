"""Finding and replacing patterns, and fusing."""

from __future__ import annotations

import torch
from torch.fx import GraphModule

from benchmarks.case import Call, Case, Family, sizes, timed
from kata.torchvision_compat import torchvision
from tests.models.rewriting import pattern_to_plant, planted
from tests.suite import equal

FOUND = Family("nodes to look through", 1.1)
REPLACED = Family("nodes, a pattern in them replaced", 1.1)
PARITY = 1.0


def find(size: int):
    """A pattern of five calls in a random graph of ``size`` nodes, many of them in matches."""
    graph = planted(0, size)[0].graph

    def prepare(lesson) -> Call:
        return lambda: lesson.match(pattern_to_plant, graph)

    return {"prepare": prepare, "same": same_number}


def relu_of_the_sum(x, y):
    return torch.relu(x + y)


def replace(size: int):
    """The same pattern, replaced by one call."""

    def prepare(lesson) -> Call:
        gm = planted(0, size)[0]
        return lambda: lesson.replace_pattern(gm, pattern_to_plant, relu_of_the_sum)

    return {"prepare": prepare, "same": same_number}


def fuse(name: str) -> Case:
    """One of torchvision's models, fused."""
    model = torchvision.models.get_model(name).eval()

    def prepare(lesson) -> Call:
        return lambda: lesson.fuse(model)

    return Case(f"{name} fused", prepare, same_size, PARITY)


def same_number(ours: list, theirs: list) -> None:
    equal(len(ours), len(theirs), cause="another number of matches")


def same_size(ours: GraphModule, theirs: GraphModule) -> None:
    equal(len(ours.graph.nodes), len(theirs.graph.nodes), cause="another number of nodes")


CASES = [
    *sizes(FOUND, find, {100: PARITY, 1000: PARITY, 10_000: PARITY}),
    *sizes(REPLACED, replace, {100: PARITY, 1000: PARITY}),
    fuse("resnet18"),
    fuse("resnet50"),
]

test_rewriting = timed
