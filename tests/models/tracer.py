"""What the tests of ``tracer`` trace, and how they compare it with torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
from torch import nn
from torch.fx import Graph

from tests.suite import noting, same_graph
from tests.suite.expect import Cause
from tests.zoo import Model

META = ("nn_module_stack",)
ORIGINAL_CALL, ORIGINAL_GETATTR = nn.Module.__call__, nn.Module.__getattr__


def same_trace(
    lesson, build: Callable[[], object], cause: Cause = "", hint: str = "", **options: object
) -> None:
    """Fail unless the lesson's graph of a fresh model is torch's, metadata included."""
    with noting(cause=cause, hint=hint) if cause else contextlib.nullcontext():
        actual = tracer_with(lesson, **options).trace(build())
    expected = torch.fx.Tracer(**options).trace(build())
    same_graph(actual, expected, meta=META, cause=cause, hint=hint)


def tracer_with(lesson, *args: object, **options: object) -> torch.fx.Tracer:
    """A tracer with options of torch's constructor; a stub says first that it is one."""
    lesson.Tracer().is_leaf_module(nn.ReLU(), "relu")
    return lesson.Tracer(*args, **options)


def call_targets(graph: Graph) -> list[object]:
    return [node.target for node in graph.nodes if node.op.startswith("call")]


def is_leaf(lesson, home: str) -> bool:
    """Return whether a module is a leaf whose class was written in the Python module ``home``."""
    module = type("Module", (nn.Module,), {"__module__": home})()
    return bool(lesson.Tracer().is_leaf_module(module, "module"))


def in_progress(tracer: torch.fx.Tracer) -> list[object]:
    return [(tracer.scope.module_path, tracer.scope.module_type), list(tracer.module_stack)]


def restored() -> bool:
    return nn.Module.__call__ is ORIGINAL_CALL and nn.Module.__getattr__ is ORIGINAL_GETATTR


def waiting(meanwhile: Callable[[], object]) -> Model:
    """A model that lets another thread run in the middle of its trace."""

    def forward(model, x):
        x = model.relu(x)
        meanwhile()
        return model.relu(x * model.weight)

    return Model(forward, relu=nn.ReLU(), weight=nn.Parameter(torch.ones(2)))
