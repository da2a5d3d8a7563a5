"""Unlike the core: half precision, more reductions, a GPU, and less memory.

- Loops work on half precision too: they compute in float32 and round each result once.
- Reductions over the last dimensions join a loop, kept or not, and so does LayerNorm over several.
- A view no longer separates nodes that one loop could run.
- On a GPU, the same kernels are printed for Triton.
- A kernel writes over an input that isn't needed any more, instead of into new memory.
- ``plan`` gives each value of a graph a place in one block of memory, the *arena*.
"""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter
from operator import getitem
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ... import backend as core
from ...backend import (
    Kernel,
    ahead_of_time,
    checked,
    guarded,
    is_dense,
    kernels,
    shape_of,
    value,
    with_calls,
)
from .dtypes import ELEMENTS, CppWriter, cpp_function, may_share
from .planning import Plan, lives, plan
from .rules import RULES
from .triton import LONGEST_ROW, TritonWriter, triton_function
from .views import views_moved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...code import GraphModule

__all__ = [
    "RULES",
    "TABLE",
    "CppWriter",
    "Plan",
    "TritonWriter",
    "backend",
    "cpp_function",
    "lives",
    "lower",
    "plan",
    "triton_function",
    "views_moved",
]

Kind = tuple[str, torch.dtype]  # the type of a device, and a dtype
PLAIN: Kind = ("cpu", torch.float32)
PRINTERS = {"cpu": cpp_function, "cuda": triton_function}


def is_float(tensor: Any) -> bool:
    """Return whether a value is dense float32 on a device that has a printer."""
    return is_dense(tensor) and tensor.dtype == torch.float32 and tensor.device.type in PRINTERS


TABLE = {op: guarded(is_float, rule) for op, rule in RULES.items()}


def backend(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Compile a graph for ``torch.compile(model, backend=backend)``.

    >>> compiled_model = torch.compile(torch.nn.Hardswish(), backend=backend)
    >>> compiled_model(torch.full((2,), 4.0, dtype=torch.bfloat16))
    tensor([4., 4.], dtype=torch.bfloat16)
    """
    return ahead_of_time(lower, TABLE)(gm, example_inputs)


def lower(gm: GraphModule) -> GraphModule:
    """Return a module that runs a flat graph with a call of a kernel for each group of nodes.

    The kernels are for the device and the dtype that most nodes have; other nodes stay torch's
    calls. Where kernels can't be compiled, a warning says why: float32 on the CPU runs as Python,
    and any other graph is returned as it is.
    """
    gm = views_moved(gm)
    kind = kind_of(gm.graph)
    with seen_by_the_core(gm.graph, kind):
        found = [each for each in kernels(gm.graph) if kind[0] == "cpu" or fits_a_block(each)]
    calls = {kernel: Call(kernel) for kernel in found}
    lowered = with_calls(gm, calls)
    use_again(lowered.graph)
    try:
        for call in calls.values():
            call.function = PRINTERS[kind[0]](call.kernel, call.reused)
    except (OSError, ImportError) as error:
        if kind == PLAIN:
            return core.lower(gm)
        warnings.warn(f"{kind} stays torch's: {error}", RuntimeWarning, stacklevel=2)
        return gm
    return lowered


# --- the kind of tensors that the kernels are for


def kind_of(graph: Any) -> Kind:
    """Return the device and the dtype that most tensors of a graph have, of those with loops."""
    values = [node.meta.get("val") for node in graph.nodes if node.op == "call_function"]
    kinds = Counter((each.device.type, each.dtype) for each in values if isinstance(each, Tensor))
    known = [kind for kind, _ in kinds.most_common() if kind[0] in PRINTERS and kind[1] in ELEMENTS]
    return known[0] if known else PLAIN


@contextlib.contextmanager
def seen_by_the_core(graph: Any, kind: Kind) -> Iterator[None]:
    """Let tensors of one kind look like float32 on the CPU, and no others, for a ``with`` block.

    So the core chooses kernels of them as it does of its own.
    """
    before = {node: node.meta for node in graph.nodes}
    try:
        for node in graph.nodes:
            node.meta = node.meta | {"val": _as_seen(node.meta.get("val"), kind)}
        yield
    finally:
        for node, meta in before.items():
            node.meta = meta


def _as_seen(value: Any, kind: Kind) -> Any:
    if kind == PLAIN or not isinstance(value, Tensor):
        return value
    is_of_kind = (value.device.type, value.dtype) == kind
    return value.to(*PLAIN) if is_of_kind else value.double()


def fits_a_block(kernel: Kernel) -> bool:
    """Return whether one program of Triton can hold a row of the kernel."""
    return kernel.is_flat or kernel.shape[-1] <= LONGEST_ROW


# --- memory that is used again


class Call:
    """A kernel as a function of its inputs: it checks them, and returns the outputs.

    Args:
        kernel: The kernel.

    Attributes:
        reused: Maps an output to the input whose memory it is written to.
        function: The printed and compiled kernel.
    """

    function: Callable[..., None]

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.reused: dict[Any, Any] = {}
        self.__name__ = "kernel"

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        pairs = zip(self.kernel.inputs, inputs, strict=True)
        ready = {node: checked(node, tensor) for node, tensor in pairs}
        outputs = tuple(
            ready[self.reused[node]]
            if node in self.reused
            else torch.empty(shape_of(node), dtype=value(node).dtype, device=value(node).device)
            for node in self.kernel.outputs
        )
        self.function(*ready.values(), *outputs)
        return outputs


def use_again(graph: Any) -> None:
    """Let each kernel of a lowered graph write over inputs that no later node reads."""
    ends = {life.node: life.end for life in lives(graph)}
    for position, node in enumerate(graph.nodes):
        if isinstance(node.target, Call):
            dead = [ends.get(_maker(each)) == position for each in node.args]
            _share(node.target, dead)


def _maker(node: Any) -> Any:
    """Return the node that allocates a value's memory; ``None`` if that may not be new memory."""
    if node.target is getitem and isinstance(node.args[0].target, Call):
        return node.args[0]
    return node if torch.Tag.core in getattr(node.target, "tags", ()) else None


def _share(call: Call, dead: list[bool]) -> None:
    """Choose an output for each input that isn't needed any more."""
    for given, is_dead in zip(call.kernel.inputs, dead, strict=True):
        outputs = [
            node
            for node in call.kernel.outputs
            if is_dead and node not in call.reused and may_share(call.kernel, node, given)
        ]
        call.reused.update((node, given) for node in outputs[:1])
