"""Generating and compiling code, for models and for graphs that are longer and longer."""

from __future__ import annotations

import functools

import torch
from torch import fx, nn

from benchmarks.case import Call, Case, Family, sizes, timed
from kata.torchvision_compat import torchvision
from tests.suite import equal

NODES = Family("nodes as code", 1.1)
PARITY = 1.0


def compiling(root: nn.Module | dict, graph: fx.Graph):
    """A graph module that generates its code again."""

    def prepare(lesson) -> Call:
        return lesson.GraphModule(root, graph).recompile

    def same(ours, theirs) -> None:
        equal(ours.src.strip(), theirs.src.strip())

    return {"prepare": prepare, "same": same}


def chain(count: int):
    """So many calls of functions, each of the one before."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    for _ in range(count):
        x = graph.call_function(torch.add, (x, 1), {"alpha": 2})
    graph.output(x)
    return compiling({}, graph)


@functools.cache
def traced(name: str) -> tuple[nn.Module, fx.Graph]:
    """One of torchvision's models, and its graph."""
    model = getattr(torchvision.models, name)().eval()
    return model, fx.Tracer().trace(model)


def model(name: str):
    """Whatever a model of torchvision's is, traced once."""

    def prepare(lesson) -> Call:
        return lesson.GraphModule(*traced(name)).recompile

    return Case(name=name, prepare=prepare, same=compiling({}, fx.Graph())["same"], target=PARITY)


CASES = [*sizes(NODES, chain, {300: PARITY, 1000: PARITY, 3000: PARITY}), model("resnet152")]

test_code = timed
