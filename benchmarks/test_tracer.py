"""Traces of whole models, and of models that have very many of one thing."""

from __future__ import annotations

from functools import partial

from torch import nn
from torch.fx import Graph

from benchmarks.case import Call, Case, sized, timed
from benchmarks.models import CLASSIFIERS, Holding, classifier, leaf_calls
from tests.suite import same_graph

read_as_attributes = partial(Holding, as_attributes=True)


def trace(lesson, model: nn.Module) -> Call:
    return lambda: lesson.Tracer().trace(model)


def same_trace(ours: Graph, theirs: Graph) -> None:
    """The same nodes, recorded in the same modules."""
    same_graph(ours, theirs, meta=("nn_module_stack",))


CASES = [
    *(Case(name, trace, partial(classifier, name), same_trace, 0.75) for name in CLASSIFIERS),
    *sized("leaf calls", trace, leaf_calls, same_trace, (100, 1000, 10_000), 0.75),
    *sized(
        "parameters read as attributes",
        trace,
        read_as_attributes,
        same_trace,
        (300, 1000, 3000),
        0.05,
    ),
]

test_tracer = timed
