"""Lowered graphs beside eager, one call each: ``aot_eager`` stands for torch."""

from __future__ import annotations

import torch
from torch.nn import functional

from benchmarks.case import Call, Case
from tests.models.backend import chain, inputs
from tests.suite import same_numbers


def light(x, y):
    return ((x * y + 1) * (x - y) + x * 0.5).relu() * y - x


def normalised(x, y):
    return functional.layer_norm(functional.gelu(x + y) + y, x.shape[-1:])


def compiled(function, rows: int):
    """One call of a compiled function, on rows of 1024 elements."""

    def prepare(lesson) -> Call:
        args = inputs(rows, 1024)
        torch._dynamo.reset()
        model = torch.compile(function, backend=lesson.backend, dynamic=False)
        model(*args)
        return lambda: model(*args)

    return {"prepare": prepare, "same": same_numbers}


CASES = [
    Case(f"{name}, {rows * 1024 >> 20} M elements", quick=rows == 1024, **compiled(function, rows))
    for name, function in (("eight operations", chain), ("light", light), ("GELU", normalised))
    for rows in (1024, 16384)
]


def test_backend(case, side, time):
    time(case, side)
