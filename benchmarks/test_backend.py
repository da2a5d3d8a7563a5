"""Compiled functions beside eager (``aot_eager``) and beside TorchInductor, one call each."""

from __future__ import annotations

import torch
from torch.nn import functional

from benchmarks.case import Call, Case, timed
from tests.models.backend import chain, inputs
from tests.suite import same_numbers


def light(x, y):
    return ((x * y + 1) * (x - y) + x * 0.5).relu() * y - x


def normalised(x, y):
    return functional.layer_norm(functional.gelu(x + y) + y, x.shape[-1:])


def compiled(function, rows: int, beside: str):
    """One call of a compiled function, on rows of 1024 elements."""

    def prepare(lesson) -> Call:
        args = inputs(rows, 1024)
        torch._dynamo.reset()
        backend = lesson.backend if hasattr(lesson, "kernels") else beside  # torch has no kernels
        model = torch.compile(function, backend=backend, dynamic=False)
        model(*args)
        return lambda: model(*args)

    return {"prepare": prepare, "same": same_numbers}


SIZES = {"1 M": 1024, "16 M": 16384}  # elements, and their rows
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
        target=WANTED.get((function, size)) if beside == "aot_eager" else None,
        quick=rows == 1024 and beside == "aot_eager",
        **compiled(function, rows, beside),
    )
    for beside in ("aot_eager", "inductor")
    for name, function in FUNCTIONS.items()
    for size, rows in SIZES.items()
]

test_backend = timed
