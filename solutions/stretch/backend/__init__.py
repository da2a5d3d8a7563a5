"""Unlike the core: half precision, more reductions, a GPU, and less memory.

- Loops work on half precision too: they compute in float32 and round each result once.
- Reductions over the last dimensions join a loop, kept or not, and so does LayerNorm over several.
- A view no longer separates nodes that one loop could run.
- On a GPU, the same kernels are printed for Triton.
- A kernel writes over an input that isn't needed any more, instead of into new memory.
- ``plan`` gives each value of a graph a place in one block of memory, the *arena*.
"""

from __future__ import annotations

import warnings
from collections import Counter
from operator import getitem
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from given.backend import (
    HEADER,
    ahead_of_time,
    checked,
    guarded,
    is_dense,
    library_of,
    taking_tensors,
    value_of,
)

from ...backend import Kernel, kernels, with_kernels
from .dtypes import ELEMENTS, CWriter, may_share
from .planning import Plan, lives, plan, shows_its_input
from .rules import RULES
from .triton import LONGEST_ROW, TritonWriter, triton_function
from .views import views_moved

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...code import GraphModule

__all__ = [
    "RULES",
    "TABLE",
    "CWriter",
    "Plan",
    "TritonWriter",
    "backend",
    "lives",
    "lower",
    "plan",
    "triton_function",
    "views_moved",
]

Kind = tuple[str, torch.dtype]  # the type of a device, and a dtype
PLAIN: Kind = ("cpu", torch.float32)


def is_float(tensor: Any) -> bool:
    """Return whether a value is dense float32 on a device that has a printer."""
    return is_dense(tensor) and tensor.dtype == torch.float32 and tensor.device.type in PRINTERS


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
    calls. Where kernels can't be compiled, one warning says why, and the graph stays torch's.
    """
    moved = views_moved(gm)
    device, dtype = kind = kind_of(moved.graph)
    partitions = kernels_of_kind(moved, kind)
    fused = (each for each in partitions if each.is_fused)
    calls = {each: Call(each) for each in fused if device == "cpu" or fits_a_block(each)}
    if not calls:
        return gm

    lowered = with_kernels(moved, partitions, calls)
    use_again(lowered.graph)
    try:
        PRINTERS[device](list(calls.values()), dtype)
    except (OSError, ImportError) as error:
        warnings.warn(f"the graph isn't compiled: {error}", RuntimeWarning, stacklevel=2)
        return gm
    return lowered


# --- the kind of tensors that the kernels are for


def kind_of(graph: Any) -> Kind:
    """Return the device and the dtype that most tensors of a graph have, of those with loops."""
    values = [value_of(node) for node in graph.nodes if node.op == "call_function"]
    kinds = Counter((each.device.type, each.dtype) for each in values if isinstance(each, Tensor))
    known = [kind for kind, _ in kinds.most_common() if kind[0] in PRINTERS and kind[1] in ELEMENTS]
    return known[0] if known else PLAIN


def kernels_of_kind(gm: GraphModule, kind: Kind) -> list[Kernel]:
    """Return the partitions that the core would make if tensors of one kind were the plain ones.

    While the core looks at the graph, tensors of that kind are float32 on the CPU, and no others.
    So the graph is one of ours, not the caller's.
    """
    values = {node: value_of(node) for node in gm.graph.nodes if "val" in node.meta}
    for node, value in values.items():
        node.meta["val"] = _as_seen(value, kind)
    found = kernels(gm)
    for node, value in values.items():
        node.meta["val"] = value
    return found


def _as_seen(value: Any, kind: Kind) -> Any:
    if kind == PLAIN or not isinstance(value, Tensor):
        return value
    is_of_kind = (value.device.type, value.dtype) == kind
    return value.to(*PLAIN) if is_of_kind else value.double()


def fits_a_block(kernel: Kernel) -> bool:
    """Return whether one program of Triton can hold a row of the kernel."""
    return kernel.is_flat or kernel.shape[-1] <= LONGEST_ROW


# --- a kernel that is called, and memory that is used again


class Call:
    """A kernel as a function of its inputs: it checks them, and returns the outputs.

    Args:
        kernel: The kernel.

    Attributes:
        reused: Maps an output to the input whose memory it is written to.
        function: The printed and compiled kernel.
        returns_new: The outputs are in memory of their own.
    """

    returns_new = True
    function: Callable[..., None]

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.reused: dict[Any, Any] = {}
        self.__name__ = "kernel"

    def __call__(self, *inputs: Tensor) -> Any:
        pairs = zip(self.kernel.inputs, inputs, strict=True)
        ready = {node: checked(node, tensor) for node, tensor in pairs}
        outputs = [
            ready[self.reused[node]] if node in self.reused else _new_like(value_of(node))
            for node in self.kernel.outputs
        ]
        self.function(*ready.values(), *outputs)
        return outputs[0] if self.kernel.returns_single else outputs


def _new_like(value: Tensor) -> Tensor:
    return torch.empty(tuple(value.shape), dtype=value.dtype, device=value.device)


def use_again(graph: Any) -> None:
    """Let each kernel of a lowered graph write over inputs that no later node reads.

    Such an input is a new tensor of the graph's own, and the kernel doesn't see the same memory
    through another input.
    """
    ends = {life.node: life.end for life in lives(graph)}
    for position, node in enumerate(graph.nodes):
        if isinstance(node.target, Call):
            memories = [memory_of(each) for each in node.args]
            alone = [each for each in node.args if memories.count(each) == 1 and is_new(each)]
            dead = [each in alone and ends.get(_maker(each)) == position for each in node.args]
            _share(node.target, dead)


def memory_of(node: Any) -> Any:
    """Return the node that made the memory that a node's result is in."""
    while shows_its_input(node) and not is_new(node):
        node = node.all_input_nodes[0]
    return node


def is_new(node: Any) -> bool:
    """Return whether a node's result surely is in memory of its own."""
    if isinstance(_maker(node).target, Call):
        return True
    return torch.Tag.core in getattr(node.target, "tags", ()) and not shows_its_input(node)


def _maker(node: Any) -> Any:
    """Return the call of the kernel whose result a node takes out, or else the node."""
    is_item = node.target is getitem and isinstance(node.args[0].target, Call)
    return node.args[0] if is_item else node


def _share(call: Call, dead: list[bool]) -> None:
    """Choose an output for each input that isn't needed any more."""
    for given, is_dead in zip(call.kernel.inputs, dead, strict=True):
        outputs = [
            node
            for node in call.kernel.outputs
            if is_dead and node not in call.reused and may_share(call.kernel, node, given)
        ]
        call.reused.update((node, given) for node in outputs[:1])


# --- the printers


def print_c(calls: list[Call], dtype: torch.dtype) -> None:
    """Compile the kernels of a graph as one library of C."""
    if not calls:
        return
    writers = [CWriter(call.kernel, dtype, call.reused) for call in calls]
    text = "".join(writer.function() for writer in writers)
    library = library_of(HEADER + ELEMENTS[dtype] + text)
    for call in calls:
        run = getattr(library, call.kernel.symbol)
        call.function = taking_tensors(run, call.kernel.shape, call.kernel.columns)


def print_triton(calls: list[Call], dtype: torch.dtype) -> None:
    """Compile the kernels of a graph for a GPU. A program has read its row before it writes."""
    for call in calls:
        call.function = triton_function(call.kernel)


PRINTERS = {"cpu": print_c, "cuda": print_triton}
TABLE = {op: guarded(is_float, rule) for op, rule in RULES.items()}
