"""All leaves of a traced model replaced by what they do; torch's side is our code on its tracer."""

from __future__ import annotations

import torch
from torch.fx import GraphModule

from benchmarks import models
from benchmarks.case import Call, Case, Family, sizes, timed
from benchmarks.equality import same_module

LEAVES = Family("leaves inlined", 1.1)


def inline(make):
    """``inline_all`` of a fresh trace: it edits what it is given."""

    def prepare(lesson) -> Call:
        model = make().eval()
        traced = GraphModule(model, torch.fx.Tracer().trace(model))
        return lambda: lesson.inline_all(traced)

    return {"prepare": prepare, "same": same_module}


CASES = [
    *(
        Case(name, quick=name == "ResNet18", **inline(lambda name=name: models.classifier(name)))
        for name in ("ResNet18", "ResNet152")
    ),
    *sizes(
        LEAVES,
        lambda size: inline(lambda: models.leaf_calls(size)) | {"quick": False},
        {300: None, 1000: None},
    ),
]

test_inlining = timed
