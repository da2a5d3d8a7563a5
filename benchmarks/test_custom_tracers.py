"""Traces by the tracers of the fifth lesson: ours subclass our tracer, torch's side torch's."""

from __future__ import annotations

from benchmarks import models
from benchmarks.case import Call, Case, timed
from benchmarks.equality import same_trace


def trace_by(tracer: str, model: str):
    """A trace of one of torchvision's models by a tracer of that name."""

    def prepare(lesson) -> Call:
        return lambda: getattr(lesson, tracer)().trace(models.classifier(model))

    return {"prepare": prepare, "same": same_trace}


CASES = [
    Case(f"{tracer}, {model}", quick=model == "ResNet18", **trace_by(tracer, model))
    for tracer in ("ModulePathTracer", "LowerReluTracer", "TaggingTracer")
    for model in ("ResNet18", "ResNet152")
]

test_custom_tracers = timed
