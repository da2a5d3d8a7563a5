"""All leaves of a traced model replaced by what they do; torch's side is our code on its tracer."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.fx import GraphModule

from benchmarks.case import Call, Case, sized, timed
from benchmarks.models import classifier, leaf_calls
from tests.suite import equal, same_graph


def inline(lesson, model: nn.Module) -> Call:
    """``inline_all`` of a fresh trace: it edits what it is given."""
    traced = GraphModule(model.eval(), torch.fx.Tracer().trace(model))
    return lambda: lesson.inline_all(traced)


def same_module(ours: GraphModule, theirs: GraphModule) -> None:
    """The same graph, the same code, and the same state."""
    same_graph(ours.graph, theirs.graph)
    equal(ours.code, theirs.code, cause="other code")
    equal(list(ours.state_dict()), list(theirs.state_dict()), cause="other state")


CASES = [
    Case("ResNet152", inline, partial(classifier, "ResNet152"), same_module),
    *sized("leaves inlined", inline, leaf_calls, same_module, (300, 1000)),
]

test_inlining = timed
