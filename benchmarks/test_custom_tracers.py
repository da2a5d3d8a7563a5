"""Traces by the tracers of this lesson: ours subclass our tracer, torch's side torch's."""

from __future__ import annotations

from functools import partial

from torch import nn

from benchmarks.case import Call, Case, timed
from benchmarks.models import classifier
from benchmarks.test_tracer import same_trace


def trace(lesson, model: nn.Module) -> Call:
    return lambda: lesson.ModulePathTracer().trace(model)


CASES = [Case("ModulePathTracer, ResNet152", trace, partial(classifier, "ResNet152"), same_trace)]

test_custom_tracers = timed
