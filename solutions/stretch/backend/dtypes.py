"""Loops over half precision, and loops that write over a value that isn't needed any more."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch

from ... import backend as core

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NOTHING: Mapping[Any, Any] = MappingProxyType({})

# Functions that read an element into a float, and write a float. They work on the bits, because
# compilers don't vectorise the types of half precision. They round to the nearest, then to even.
ELEMENTS = {
    torch.float32: "",
    torch.bfloat16: """\
union bits_ { unsigned whole; float x; };
static inline float wide_(unsigned short half) { return bits_{unsigned(half) << 16}.x; }
static inline unsigned short narrow_(float x) {
    bits_ bits; bits.x = x;
    unsigned rounded = (bits.whole + 0x7fff + (bits.whole >> 16 & 1)) >> 16;
    return x != x ? 0x7fc0 : rounded;
}
""",
    torch.float16: """\
union bits_ { unsigned whole; float x; };
static inline float wide_(unsigned short half) {
    bits_ bits = { unsigned(half & 0x7fff) << 13 };
    bits.x *= 0x1p112f;  // the exponent of a float begins elsewhere
    bits.whole |= (half & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;  // inf and nan
    bits.whole |= unsigned(half & 0x8000) << 16;
    return bits.x;
}
static inline unsigned short narrow_(float x) {
    bits_ bits, small; bits.x = x;
    unsigned sign = bits.whole & 0x80000000, size = bits.whole ^ sign;
    small.x = bits_{size}.x + 0.5f;  // below 2^-14: the addition rounds
    unsigned normal = (size + 0xc8000fff + (size >> 13 & 1)) >> 13;
    unsigned large = size > 0x7f800000 ? 0x7e00 : 0x7c00;  // nan, or inf from 2^16 on
    unsigned bounded = size < 0x38800000 ? small.whole - 0x3f000000 : normal;
    return (size >= 0x47800000 ? large : bounded) | sign >> 16;
}
""",
}
STORE = re.compile(r"^(o_.* = )(.*);$")


class CppWriter(core.CppWriter):
    """The core's writer, for tensors of any dtype of ``ELEMENTS``.

    Args:
        kernel: The kernel.
        reused: Maps an output to the input whose memory it is written to.
    """

    def __init__(self, kernel: core.Kernel, reused: Mapping[Any, Any] = NOTHING) -> None:
        super().__init__(kernel)
        self.reused = reused
        self.functions = ELEMENTS[core.value(kernel.nodes[0]).dtype]

    def source(self) -> str:
        return self.functions + super().source()

    def pointers(self) -> list[str]:
        """Return the parameters; ``__restrict`` says that a tensor shares no memory."""
        shared = {*self.reused, *self.reused.values()}
        element = "unsigned short" if self.functions else "float"

        def pointer(kind: str, name: str, node: Any) -> str:
            return f"{kind}{element}* {'' if node in shared else '__restrict '}{name}_{node.name}"

        inputs = [pointer("const ", "p", node) for node in self.kernel.inputs]
        return inputs + [pointer("", "o", node) for node in self.kernel.outputs]

    def operand(self, node: Any, argument: Any) -> str:
        text = super().operand(node, argument)
        return f"wide_({text})" if self.functions and text.startswith("p_") else text

    def in_loop(self, node: Any) -> list[str]:
        return self._narrowed(super().in_loop(node))

    def after_loop(self, node: Any) -> list[str]:
        return self._narrowed(super().after_loop(node))

    def _narrowed(self, lines: list[str]) -> list[str]:
        """Return the lines, with each output rounded to its dtype."""
        return [STORE.sub(r"\1narrow_(\2);", line) for line in lines] if self.functions else lines


def cpp_function(kernel: core.Kernel, reused: Mapping[Any, Any] = NOTHING) -> Callable[..., None]:
    """Return the function that ``CppWriter`` prints; it takes inputs and outputs as tensors."""
    return core.with_tensors(kernel, core.compiled(CppWriter(kernel, reused).source()))


def may_share(kernel: core.Kernel, output: Any, given: Any) -> bool:
    """Return whether an output may be written where an input of the kernel is read.

    The loop writes an element of the output after it has read that element of the input for the
    last time. So the input is read element by element, and not after the output is written.
    """
    writer = core.CppWriter(kernel)
    order = {node: (writer.phase[node], number) for number, node in enumerate(kernel.nodes)}
    readers = [node for node in kernel.nodes if given in node.all_input_nodes]
    return (
        core.shape_of(output) == core.shape_of(given) == kernel.shape
        and core.value(output).dtype == core.value(given).dtype
        and max(order[node] for node in readers) <= order[output]
    )
