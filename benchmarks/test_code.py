"""Generating and compiling code, for a model and for graphs that are longer and longer."""

from __future__ import annotations

from functools import cache

import torch
from torch import fx, nn

from benchmarks.case import Call, Case, sized, timed
from benchmarks.models import classifier
from tests.suite import equal

PARITY = 1.0


def compiling(lesson, traced: tuple[nn.Module | dict, fx.Graph]) -> Call:
    """A graph module that generates its code again."""
    return lesson.GraphModule(*traced).recompile


def same_code(ours, theirs) -> None:
    equal(ours.src.strip(), theirs.src.strip())


@cache
def chain(count: int) -> tuple[dict, fx.Graph]:
    """So many calls of functions, each of the one before."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    for _ in range(count):
        x = graph.call_function(torch.add, (x, 1), {"alpha": 2})
    graph.output(x)
    return {}, graph


@cache
def traced() -> tuple[nn.Module, fx.Graph]:
    model = classifier("ResNet152")
    return model, fx.Tracer().trace(model)


CASES = [
    *sized("nodes as code", compiling, chain, same_code, (300, 1000, 3000), PARITY),
    Case("resnet152", compiling, traced, same_code, PARITY),
]

test_code = timed
