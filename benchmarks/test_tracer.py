"""Traces of whole models, and of models that have very many of one thing."""

from __future__ import annotations

from torch import nn

from benchmarks import models
from benchmarks.case import Call, Case, Family, sizes, timed
from benchmarks.equality import same_trace

TARGET = 0.75
LEAVES = Family("leaf calls", 1.1)
BLOCKS = Family("leaf calls in blocks of ten", 1.1)
SHARED = Family("calls of one leaf", 1.1)
DEPTH = Family("modules in each other")
ATTRIBUTES = Family("parameters read as attributes", 1.1)
RAW_PARAMETERS = Family("raw parameters in a trace", 1.1)
RAW_BUFFERS = Family("raw buffers in a trace", 1.1)
RAW_CONSTANTS = Family("constants in a trace", 1.1)


def trace(make):
    """A trace of a new model, for a trace may write constants onto it."""

    def prepare(lesson) -> Call:
        model: nn.Module = make()
        return lambda: lesson.Tracer().trace(model)

    return {"prepare": prepare, "same": same_trace}


CASES = [
    *(
        Case(
            name,
            target=None if name in ("ResNet50", "DenseNet201") else TARGET,
            quick=name in ("ResNet18", "ViT-B/16"),
            **trace(lambda name=name: models.classifier(name)),
        )
        for name in models.CLASSIFIERS
    ),
    *sizes(
        LEAVES,
        lambda size: trace(lambda: models.leaf_calls(size)),
        {100: None, 1000: None, 10_000: TARGET},
    ),
    *sizes(
        BLOCKS,
        lambda size: trace(lambda: models.blocks_of_ten(size)),
        {1000: None, 10_000: None},
    ),
    *sizes(
        SHARED,
        lambda size: trace(lambda: models.shared_leaf(size)),
        {1000: None, 10_000: None},
    ),
    *sizes(DEPTH, lambda depth: trace(lambda: models.nested(depth)), {25: None, 100: None}),
    *sizes(
        ATTRIBUTES,
        lambda size: trace(lambda: models.attribute_parameters(size)) | {"slow": size >= 3000},
        {300: None, 1000: None, 3000: 0.05},
    ),
    *sizes(
        RAW_PARAMETERS,
        lambda size: trace(lambda: models.raw_parameters(size)) | {"slow": size >= 3000},
        {300: None, 1000: None, 3000: 0.08},
    ),
    *sizes(
        RAW_BUFFERS,
        lambda size: trace(lambda: models.raw_buffers(size)) | {"slow": size >= 3000},
        {300: None, 1000: None, 3000: 0.08},
    ),
    *sizes(
        RAW_CONSTANTS,
        lambda size: trace(lambda: models.raw_constants(size)),
        {300: None, 3000: None},
    ),
]

test_tracer = timed
