"""Compiled functions beside eager (``aot_eager``) and beside TorchInductor, one call each."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import torch
from torch.nn import functional

from benchmarks.case import Call, Case, timed
from tests.models.backend import chain, inputs
from tests.suite import same_numbers


def light(x, y):
    return ((x * y + 1) * (x - y) + x * 0.5).relu() * y - x


def normalised(x, y):
    return functional.layer_norm(functional.gelu(x + y) + y, x.shape[-1:])


def compiled(function, lesson, args) -> Call:
    """One call of a compiled function."""
    torch._dynamo.reset()
    model = torch.compile(function, backend=lesson.backend, dynamic=False)
    model(*args)
    return lambda: model(*args)


SIZES = {"1 M": 1024, "16 M": 16384}  # elements, and their rows of 1024
# The most of eager's time that a case may take; beside TorchInductor there is no target.
WANTED = {
    (chain, "1 M"): 1 / 3.5,
    (chain, "16 M"): 1 / 7,
    (normalised, "1 M"): 1 / 2,
    (normalised, "16 M"): 1 / 3,
}
FUNCTIONS = {"eight operations": chain, "eight light ones": light, "GELU, LayerNorm": normalised}

CASES = [
    Case(
        f"{name}, {size} elements, beside {beside.removeprefix('aot_')}",
        partial(compiled, function),
        partial(inputs, rows, 1024),
        same_numbers,
        WANTED.get((function, size)) if beside == "aot_eager" else None,
        torch=SimpleNamespace(backend=beside),
    )
    for beside in ("aot_eager", "inductor")
    for name, function in FUNCTIONS.items()
    for size, rows in SIZES.items()
]

test_backend = timed
