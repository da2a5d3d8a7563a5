"""Traces by the tracers of this lesson: ours subclass our tracer, torch's side torch's."""

from __future__ import annotations

from functools import partial

from torch import nn

from benchmarks.case import Call, Case, timed
from benchmarks.models import classifier
from benchmarks.test_tracer import same_trace


def trace_by(tracer: str, lesson, model: nn.Module) -> Call:
    """A trace by a tracer of that name."""
    return lambda: getattr(lesson, tracer)().trace(model)


CASES = [
    Case(
        f"{tracer}, ResNet152",
        partial(trace_by, tracer),
        partial(classifier, "ResNet152"),
        same_trace,
    )
    for tracer in ("ModulePathTracer", "LowerReluTracer", "TaggingTracer")
]

test_custom_tracers = timed
