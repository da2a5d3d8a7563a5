"""Raw parameters, buffers and constants, and plain values, turned into arguments."""

from __future__ import annotations

import torch
from torch.fx import Graph

from benchmarks import models
from benchmarks.case import Call, Case, Family, sizes, timed
from tests.suite import same_graph

PARAMETERS = Family("raw parameters", 1.1)
BUFFERS = Family("raw buffers", 1.1)
CONSTANTS = Family("constants", 1.1)
PLAIN = (1, 2.0, "three", None, torch.float32, (1, 2, [3, 4]), {"a": 5}, slice(0, 6, None), ...)


def arguments(make):
    """``create_arg`` of each tensor that a model holds, on a tracer at the start of a trace."""

    def prepare(lesson) -> Call:
        model = make()
        tracer = type("Plugged", (lesson.CreateArg, torch.fx.Tracer), {})()
        tracer.root, tracer.graph = model, Graph()
        # As at the start of torch's trace: no module holds a tensor as a plain attribute here.
        tracer.tensor_attrs = {}

        def call() -> Graph:
            for tensor in model.tensors:
                tracer.create_arg(tensor)
            return tracer.graph

        return call

    return {"prepare": prepare, "same": same_graph}


def plain_values(lesson) -> Call:
    tracer = type("Plugged", (lesson.CreateArg, torch.fx.Tracer), {})()
    tracer.root, tracer.graph, tracer.tensor_attrs = torch.nn.Module(), Graph(), {}

    def call() -> Graph:
        for _ in range(1000):
            tracer.create_arg(PLAIN)
        return tracer.graph

    return call


CASES = [
    *sizes(
        PARAMETERS,
        lambda size: arguments(lambda: models.raw_parameters(size)) | {"slow": size >= 3000},
        {300: None, 1000: None, 3000: 0.08},
    ),
    *sizes(
        BUFFERS,
        lambda size: arguments(lambda: models.raw_buffers(size)) | {"slow": size >= 3000},
        {300: None, 1000: None, 3000: 0.08},
    ),
    *sizes(
        CONSTANTS,
        lambda size: arguments(lambda: models.raw_constants(size)),
        {1000: None, 3000: None, 10_000: None},
    ),
    Case("1000 times nine plain values", plain_values, same_graph),
]

test_create_arg = timed
