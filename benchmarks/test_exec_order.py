"""Execution orders, the trace included: each watcher on the tracer of its configuration."""

from __future__ import annotations

from functools import partial

from torch import nn

from benchmarks.case import Call, Case, sized, timed
from benchmarks.models import classifier, leaf_calls
from tests.models.exec_order import readable, same_record


def watch(lesson, model: nn.Module) -> Call:
    """Everything that ``exec_info`` holds after one trace."""
    watcher, tracer = lesson.ExecOrderTracer(), lesson.TracingConfig().tracer

    def call():
        with watcher.patch_tracer(tracer, model):
            tracer.trace(model)
        return model, watcher.exec_info

    return call


def same(ours, theirs) -> None:
    """The same record by names: two models of a kind are two models."""
    same_record(*(readable(info, model) for model, info in (ours, theirs)))


CASES = [
    *(
        Case(name, watch, partial(classifier, name), same, 0.65)
        for name in ("ResNet152", "ConvNeXt-L")
    ),
    *sized("leaf calls watched", watch, leaf_calls, same, (1000, 10_000)),
]

test_exec_order = timed
