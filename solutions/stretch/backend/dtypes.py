"""Loops over half precision, and loops that write over a value that isn't needed any more."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch

from given.backend import shape_of

from ... import backend as core

if TYPE_CHECKING:
    from collections.abc import Mapping

NOTHING: Mapping[Any, Any] = MappingProxyType({})

# Functions that read an element into a float, and write a float. They work on the bits, because
# compilers don't vectorise the types of half precision. They round to the nearest, then to even.
ELEMENTS = {
    torch.float32: "",
    torch.bfloat16: """\
union bits_ { unsigned whole; float x; };
static inline float wide_(unsigned short half) {
    union bits_ bits = { (unsigned)half << 16 };
    return bits.x;
}
static inline unsigned short narrow_(float x) {
    union bits_ bits; bits.x = x;
    unsigned rounded = (bits.whole + 0x7fff + (bits.whole >> 16 & 1)) >> 16;
    return x != x ? 0x7fc0 : rounded;
}
""",
    torch.float16: """\
union bits_ { unsigned whole; float x; };
static inline float wide_(unsigned short half) {
    union bits_ bits = { (unsigned)(half & 0x7fff) << 13 };
    bits.x *= 0x1p112f;  // the exponent of a float begins elsewhere
    bits.whole |= (half & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;  // inf and nan
    bits.whole |= (unsigned)(half & 0x8000) << 16;
    return bits.x;
}
static inline unsigned short narrow_(float x) {
    union bits_ bits, small; bits.x = x;
    unsigned sign = bits.whole & 0x80000000, size = bits.whole ^ sign;
    small.whole = size;
    small.x += 0.5f;  // below 2^-14: the addition rounds
    unsigned normal = (size + 0xc8000fff + (size >> 13 & 1)) >> 13;
    unsigned large = size > 0x7f800000 ? 0x7e00 : 0x7c00;  // nan, or inf from 2^16 on
    unsigned bounded = size < 0x38800000 ? small.whole - 0x3f000000 : normal;
    return (size >= 0x47800000 ? large : bounded) | sign >> 16;
}
""",
}


class CWriter(core.CWriter):
    """The core's writer, for tensors of any dtype of ``ELEMENTS``.

    Args:
        kernel: The kernel.
        dtype: The dtype of its inputs and outputs.
        reused: Maps an output to the input whose memory it is written to.
    """

    def __init__(
        self,
        kernel: core.Kernel,
        dtype: torch.dtype = torch.float32,
        reused: Mapping[Any, Any] = NOTHING,
    ) -> None:
        super().__init__(kernel)
        self.is_wide, self.reused = dtype == torch.float32, reused

    def parameters(self) -> list[str]:
        """Return the parameters; ``restrict`` says that a tensor shares no memory."""
        element = "float" if self.is_wide else "unsigned short"
        shared = {*self.reused, *self.reused.values()}

        def pointer(kind: str, name: str, node: Any) -> str:
            return f"{kind}{element}* {'' if node in shared else 'restrict '}{name}_{node.name}"

        inputs = [pointer("const ", "p", node) for node in self.kernel.inputs]
        return inputs + [pointer("", "o", node) for node in self.kernel.outputs]

    def operand(self, node: Any, argument: Any) -> str:
        text = super().operand(node, argument)
        is_input = argument in self.kernel.inputs
        return f"wide_({text})" if is_input and not self.is_wide else text

    def store(self, node: Any, where: str) -> list[str]:
        if self.is_wide or node not in self.kernel.outputs:
            return super().store(node, where)
        return [f"o_{node.name}[{core.INDEX[where]}] = narrow_(v_{node.name});"]


def may_share(kernel: core.Kernel, output: Any, given: Any) -> bool:
    """Return whether an output may be written where an input of the kernel is read.

    The loop writes an element of the output after it has read that element of the input for the
    last time. So the input is read element by element, and not after the output is written.
    """
    writer = core.CWriter(kernel)
    order = {node: (writer.phase[node], number) for number, node in enumerate(kernel.nodes)}
    readers = [node for node in kernel.nodes if given in node.all_input_nodes]
    is_whole = shape_of(output) == shape_of(given) == kernel.shape
    return is_whole and max(order[node] for node in readers) <= order[output]
