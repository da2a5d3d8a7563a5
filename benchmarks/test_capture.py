"""Captures beside ``make_fx``, which also follows symbolic sizes: ours does less."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.case import Call, Case, Family, sizes, timed
from tests.models.capture import operators, same_operators
from tests.zoo import resnet18

OPERATORS = Family("operators recorded", 1.2)


class Chain(nn.Module):
    """As many operators as it is asked for."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x):
        for _ in range(self.count):
            x = x.sin()
        return x


def captures(make, *shape: int):
    """One capture of a model in eval mode, without autograd."""

    def prepare(lesson) -> Call:
        model, x = make().eval(), torch.rand(shape)

        def call():
            with torch.no_grad():
                return lesson.capture(model, (x,))

        return call

    return {"prepare": prepare, "same": same_graphs}


def same_graphs(ours, theirs) -> None:
    same_operators(ours.graph, [name.replace("_.", ".") for name in operators(theirs.graph)])


CASES = [
    Case("ResNet18", quick=True, **captures(lambda: resnet18().model, 1, 3, 224, 224)),
    *sizes(
        OPERATORS,
        lambda count: captures(lambda: Chain(count), 4),
        {300: None, 1000: None, 3000: None},
    ),
]

test_capture = timed
