"""The same kernels for a GPU: printed in Triton's Python, where one program runs one row.

A row is a vector here, so a reduction is one call, and there are no phases. In torch:
``torch._inductor.codegen.triton.TritonKernel``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import os
from typing import TYPE_CHECKING, Any

import torch

from given.backend import library_folder, shape_of

from ... import backend as core

if TYPE_CHECKING:
    from collections.abc import Callable

aten = torch.ops.aten
BLOCK = 1024  # elements of a flat kernel that one program works on
LONGEST_ROW = 65536  # elements: a longer one doesn't fit the registers

REDUCTIONS = {
    aten.sum.dim_IntList: "tl.sum(tl.where(inside, {x}, 0.0), 0)",
    aten.mean.dim: "tl.sum(tl.where(inside, {x}, 0.0), 0) / columns",
    aten.amax.default: "tl.reduce(tl.where(inside, {x}, INFINITY * -1), 0, max_)",
}

# The functions of the core's table. ``tl.maximum`` and its like lose nan, so they aren't used.
PREAMBLE = """\
import triton
import triton.language as tl

INFINITY = tl.constexpr(float("inf"))

@triton.jit
def abs_(x): return tl.abs(x)
@triton.jit
def sqrt_(x): return tl.sqrt(x)
@triton.jit
def exp_(x): return tl.exp(x)
@triton.jit
def erf_(x): return tl.erf(x)
@triton.jit
def max_(a, b): return tl.where((a != a) | (a > b), a, b)
@triton.jit
def relu_(x): return tl.where(x < 0, 0.0, x)
@triton.jit
def pass_(x, threshold, y): return tl.where(x <= threshold, 0.0, y)
@triton.jit
def clamp_(x, low, high):
    x = tl.where(x < low, low, x)
    return tl.where(x > high, high, x)
@triton.jit
def tanh_(x):
    z = x * x
    small = x + x * z * (-3.33333332e-1 + z * (1.33314422e-1
        + z * (-5.37397156e-2 + z * (2.06390888e-2 + z * -5.70498873e-3))))
    return tl.where(tl.abs(x) < 0.625, small, 1 - 2 / (tl.exp(2 * x) + 1))
@triton.jit
def gelu_none(x): return 0.5 * x * (1 + tl.erf(x * 0.70710678))
@triton.jit
def gelu_tanh(x): return 0.5 * x * (1 + tanh_(0.79788456 * (x + 0.044715 * x * x * x)))
"""


class TritonWriter(core.CWriter):
    """Writes a kernel as a function of Triton, ``run``.

    In the function, ``i`` is the program's number and ``j`` the columns; ``p_…`` are the inputs,
    ``o_…`` the outputs, and ``v_…`` the values.
    """

    def function(self) -> str:
        kernel = self.kernel
        pointers = [f"p_{node.name}" for node in kernel.inputs]
        pointers += [f"o_{node.name}" for node in kernel.outputs]
        lines = [
            "i = tl.program_id(0).to(tl.int64)",
            "j = tl.arange(0, BLOCK)",
            "inside = (j < columns) & (i * columns + j < size)",
            *map(self.load, kernel.inputs),
            *(line for node in kernel.nodes for line in self.compute(node)),
        ]
        head = f"@triton.jit\ndef run({', '.join(pointers)}, columns, size, BLOCK: tl.constexpr):\n"
        return head + "".join(f"    {line}\n" for line in lines)

    def load(self, node: Any) -> str:
        """Return the line that reads an input."""
        where = str(core.place(self.kernel.shape, shape_of(node)))
        mask = ", mask=inside" if "j" in core.INDEX[where] else ""
        return f"v_{node.name} = tl.load(p_{node.name} + {core.INDEX[where]}{mask}).to(tl.float32)"

    def compute(self, node: Any) -> list[str]:
        """Return the lines of a node: its value, and where that goes if it is an output."""
        name, is_sum = node.name, node.target in REDUCTIONS
        operand = self.operand(node, node.args[0]) if is_sum else ""
        text = REDUCTIONS[node.target].format(x=operand) if is_sum else self.expression(node)
        store = (
            "i, {}" if core.is_per_row(self.kernel, node) else "i * columns + j, {}, mask=inside"
        )
        is_output = node in self.kernel.outputs
        return [f"v_{name} = {text}"] + [
            f"tl.store(o_{name} + {store.format(f'v_{name}')})"
        ] * is_output

    def operand(self, node: Any, argument: Any) -> str:
        """Return the variable of a value, or a number."""
        if argument in self.phase or argument in self.kernel.inputs:
            return f"v_{argument.name}"
        text = super().operand(node, argument).removesuffix("f")
        # Triton compares the globals of a kernel at each call, and nan isn't equal to itself.
        return 'float("nan")' if text == "NAN" else text


def triton_function(kernel: core.Kernel) -> Callable[..., None]:
    """Return the function that ``TritonWriter`` prints; it takes inputs and outputs as tensors.

    Triton reads the source again from its file, which is named after its content.

    Raises:
        ImportError: Triton isn't installed. On Linux, it comes with torch for CUDA.
    """
    import triton  # type: ignore[import-not-found]

    run, count = loaded(PREAMBLE + TritonWriter(kernel).function()), math.prod(kernel.shape)
    columns = BLOCK if kernel.is_flat else kernel.shape[-1]

    def call(*tensors: torch.Tensor) -> None:
        programs = (triton.cdiv(count, columns),)
        run[programs](*tensors, columns, count, BLOCK=triton.next_power_of_2(columns))

    return call


def loaded(source: str) -> Any:
    """Write a source to a file, import that, and return its ``run``."""
    name = f"kernel_{hashlib.sha256(source.encode()).hexdigest()[:20]}"
    file = library_folder() / f"{name}.py"
    if not file.exists():
        new = file.with_suffix(f".{os.getpid()}")
        new.write_text(source, encoding="utf-8")
        new.replace(file)  # at once: another process may look for it
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.run
