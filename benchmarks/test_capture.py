"""Captures beside ``make_fx``, which also follows symbolic sizes: ours does less."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.case import Call, Case, sized, timed
from tests.models.capture import operators, same_operators
from tests.zoo import resnet18


class Chain(nn.Module):
    """As many operators as it is asked for."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x):
        for _ in range(self.count):
            x = x.sin()
        return x


def capture(lesson, given: tuple[nn.Module, torch.Tensor]) -> Call:
    """One capture of a model in eval mode, without autograd."""
    model, x = given
    return torch.no_grad()(lambda: lesson.capture(model.eval(), (x,)))


def same_graphs(ours, theirs) -> None:
    same_operators(ours.graph, [name.replace("_.", ".") for name in operators(theirs.graph)])


def chain(count: int) -> tuple[nn.Module, torch.Tensor]:
    return Chain(count), torch.rand(4)


CASES = [
    Case(
        "ResNet18",
        capture,
        lambda: (resnet18().model, torch.rand(1, 3, 224, 224)),
        same_graphs,
    ),
    *sized("operators recorded", capture, chain, same_graphs, (300, 1000, 3000)),
]

test_capture = timed
