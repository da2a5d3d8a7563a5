"""Raw parameters, constants and plain values, turned into arguments."""

from __future__ import annotations

import torch
from torch import nn
from torch.fx import Graph

from benchmarks.case import Call, Case, sized, timed
from benchmarks.models import Holding
from tests.suite import same_graph

PLAIN = (1, 2.0, "three", None, torch.float32, (1, 2, [3, 4]), {"a": 5}, slice(0, 6, None), ...)


def arguments(lesson, given: tuple[nn.Module, list]) -> Call:
    """``create_arg`` of each value, on a tracer at the start of a trace."""
    model, values = given
    tracer = type("Plugged", (lesson.CreateArg, torch.fx.Tracer), {})()
    # As at the start of torch's trace: no module holds a tensor as a plain attribute here.
    tracer.root, tracer.graph, tracer.tensor_attrs = model, Graph(), {}

    def call() -> Graph:
        for value in values:
            tracer.create_arg(value)
        return tracer.graph

    return call


def parameters(size: int) -> tuple[nn.Module, list]:
    model = Holding(size)
    return model, model.tensors


def constants(size: int) -> tuple[nn.Module, list]:
    return nn.Module(), [torch.zeros(1) for _ in range(size)]


CASES = [
    *sized("raw parameters", arguments, parameters, same_graph, (300, 1000, 3000), 0.08),
    *sized("constants", arguments, constants, same_graph, (1000, 3000, 10_000)),
    Case(
        "1000 times nine plain values",
        arguments,
        lambda: (nn.Module(), [PLAIN] * 1000),
        same_graph,
    ),
]

test_create_arg = timed
