"""A compiler for ``torch.compile``: fuse elementwise operations, print them, compile them.

``torch.compile`` passes a graph to a function, the *backend*, and calls the function that the
backend returns instead of the model. Your backend looks for nodes that compute element by element.
Eager runs them one after the other, and each of them reads and writes whole tensors. A *kernel* is
one loop that runs all of them for one element, then for the next, so memory is read and written
once. You print such loops as Python and as C++, and build a graph that calls them.
"""

from __future__ import annotations

import ctypes
import heapq
import math
import multiprocessing
import operator
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .code import GraphModule
from .graph import Graph, Node

aten = torch.ops.aten


def backend(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:  # given
    """Compile a graph for ``torch.compile(model, backend=backend)``.

    In torch: ``torch._inductor.compile_fx.compile_fx``.

    >>> compiled_model = torch.compile(torch.nn.Softmax(dim=-1), backend=backend)
    >>> compiled_model(torch.zeros(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return ahead_of_time(lower, TABLE)(gm, example_inputs)


def ahead_of_time(lowering: Any, table: dict[Any, Any]) -> Callable[..., Any]:  # given
    """Return a backend that captures the forward and the backward graph, and compiles both.

    So a compiled model can be trained.

    Args:
        lowering: Takes a flat graph as a module, and returns the module that runs in its place.
        table: Functions that compute an operator from smaller ones.

    In torch: ``torch._dynamo.backends.common.aot_autograd``.
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func  # type: ignore[attr-defined]

    return aot_autograd(
        fw_compiler=lambda flat, inputs: make_boxed_func(lowering(flat)), decompositions=table
    )


def lower(gm: GraphModule) -> GraphModule:
    """Return a module that runs a flat graph with one kernel call for each group of nodes.

    Make a function for each kernel of the graph, and a ``launcher`` for each function. Then
    ``with_calls`` builds the new graph. Don't change the module that was passed.

    Args:
        gm: The module. Its graph has operators of ``aten``, and each node knows its result, as
            ``meta["val"]``.

    Returns:
        The new module. It runs for tensors of the shapes that it was lowered for.

    In torch: ``torch._inductor.graph.GraphLowering``.

    >>> from lessons.capture import capture
    >>> flat = capture(lambda x: (x * 2 + 1).relu(), (torch.ones(4),))
    >>> [node.name for node in lower(flat).graph.nodes]
    ['input_0', 'kernel', 'relu', 'output']
    """
    raise NotImplementedError(
        "backend: return a module that runs a flat graph with one kernel call for each group of nodes"
    )


POINTWISE: dict[Any, str] = {
    aten.add.Tensor: "{self} + {alpha} * {other}",
    aten.sub.Tensor: "{self} - {alpha} * {other}",
    aten.rsub.Scalar: "{other} - {alpha} * {self}",
    aten.mul.Tensor: "{self} * {other}",
    aten.div.Tensor: "{self} / {other}",
    aten.neg.default: "-{self}",
    aten.abs.default: "abs_({self})",
    aten.reciprocal.default: "1 / {self}",
    aten.sqrt.default: "sqrt_({self})",
    aten.rsqrt.default: "1 / sqrt_({self})",
    aten.exp.default: "exp_({self})",
    aten.erf.default: "erf_({self})",
    aten.tanh.default: "tanh_({self})",
    aten.sigmoid.default: "1 / (1 + exp_(-{self}))",
    aten.maximum.default: "max_({self}, {other})",
    aten.minimum.default: "-max_(-{self}, -{other})",
    aten.clamp.default: "clamp_({self}, {min}, {max})",
    aten.hardtanh.default: "clamp_({self}, {min_val}, {max_val})",
    aten.relu.default: "relu_({self})",
    aten.silu.default: "{self} / (1 + exp_(-{self}))",
    aten.hardswish.default: "{self} * clamp_({self} + 3, 0, 6) / 6",
    aten.gelu.default: "gelu_{approximate}({self})",
    aten.threshold_backward.default: "pass_({self}, {threshold}, {grad_output})",
    aten.sigmoid_backward.default: "{grad_output} * (1 - {output}) * {output}",
    aten.tanh_backward.default: "{grad_output} * (1 - {output} * {output})",
}


class Reduction(NamedTuple):
    """How a row becomes one number, in C++: ``s`` is the number so far, ``x`` an element."""

    kind: str  # how to combine the numbers of two parts of a row
    start: str
    step: str
    result: str


REDUCTIONS: dict[Any, Reduction] = {
    aten.sum.dim_IntList: Reduction("+", "0", "{s} += {x}", "{s}"),
    aten.mean.dim: Reduction("+", "0", "{s} += {x}", "{s} / columns"),
    aten.amax.default: Reduction("max_", "-inf_", "{s} = max_({s}, {x})", "{s}"),
}

# The functions above. Without -ffast-math, which would be wrong for inf and nan, compilers don't
# vectorise those of the standard library.
PREAMBLE = """\
static const float inf_ = __builtin_inff();
static inline float max_(float a, float b) { return a != a || a > b ? a : b; }  // nan stays nan
#pragma omp declare reduction(max_ : float : omp_out = max_(omp_out, omp_in)) \\
    initializer(omp_priv = -__builtin_inff())
static const float none_ = __builtin_nanf("");  // no bound of clamp: no number is above it or below
static inline float abs_(float x) { return __builtin_fabsf(x); }
static inline float sqrt_(float x) { return __builtin_sqrtf(x); }
static inline float relu_(float x) { return x < 0 ? 0 : x; }
static inline float pass_(float x, float threshold, float y) { return x <= threshold ? 0 : y; }
static inline float clamp_(float a, float low, float high) {
    a = a < low ? low : a;
    return a > high ? high : a;
}
static inline float exp_(float x) {  // 2^n * p(r), where |r| <= log(2) / 2
    float c = x > -87.3f ? (x < 89 ? x : 89) : -87.3f;
    float n = __builtin_floorf(c * 1.44269504f + 0.5f);
    float r = c - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.f + r * (1.f + r * (0.5f + r * (1.6666665e-1f + r * (4.1665795e-2f
        + r * (8.3334519e-3f + r * (1.3981999e-3f + r * 1.9875691e-4f))))));
    union { int bits; float number; } half = { (int(n) + 126) << 23 };  // 2^n may be too large
    return x != x ? x : p * half.number * 2;
}
static inline float erf_(float x) {  // a fit: its relative error is below 4e-7
    float c = clamp_(x, -4, 4), z = c * c;
    float p = 1.12837911f + z * (0.207121924f + z * (0.0515244342f + z * (0.00399044156f
        + z * (1.47284198e-4f + z * (-1.94232302e-6f + z * 1.91112797e-8f)))));
    float q = 1 + z * (0.516888261f + z * (0.117969364f + z * (0.0149577893f
        + z * 0.00102108403f)));
    return x <= -4 ? -1 : x >= 4 ? 1 : c * p / q;  // to the bit, or gelu grows where it is 0
}
static inline float tanh_(float x) {
    float z = x * x;
    float small = x + x * z * (-3.33332819422e-1f + z * (1.33314422036e-1f
        + z * (-5.37397155531e-2f + z * (2.06390887954e-2f + z * -5.70498872745e-3f))));
    return abs_(x) < 0.625f ? small : 1 - 2 / (exp_(2 * x) + 1);
}
static inline float gelu_none(float x) { return 0.5f * x * (1 + erf_(x * 0.70710678f)); }
static inline float gelu_tanh(float x) {
    return 0.5f * x * (1 + tanh_(0.79788456f * (x + 0.044715f * x * x * x)));
}
"""


def is_plain(tensor: Any) -> bool:  # given
    """Return whether a loop can read a value: dense float32 on the CPU."""
    return is_dense(tensor) and (tensor.dtype, tensor.device.type) == (torch.float32, "cpu")


def is_dense(value: Any) -> bool:  # given
    """Return whether a value is a contiguous tensor of a known shape, without a size of 0."""
    return (
        isinstance(value, Tensor)
        and all(type(size) is int and size > 0 for size in value.shape)
        and value.layout is torch.strided
        and value.is_contiguous()
    )


def layer_norm(x: Tensor, shape: Any, weight: Any, bias: Any, eps: float) -> Any:  # given
    """Normalise each row. Over more than the last dimension, the operator stays as it is."""
    if len(shape) != 1:
        return NotImplemented
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    scale = torch.rsqrt((centred * centred).mean(-1, keepdim=True) + eps)
    result = centred * scale
    result = result if weight is None else result * weight
    return (result if bias is None else result + bias), mean, scale


def softmax(x: Tensor, dim: int, half_to_float: bool) -> Any:  # given
    """Return the softmax of each row. Along another dimension, the operator stays as it is."""
    if dim not in (-1, x.dim() - 1):
        return NotImplemented
    powers = torch.exp(x - torch.amax(x, [-1], True))
    return powers / powers.sum(-1, keepdim=True)


def softmax_backward(grad: Tensor, output: Tensor, dim: int, dtype: Any) -> Any:  # given
    """Return the gradient of the softmax of each row."""
    if dim not in (-1, grad.dim() - 1):
        return NotImplemented
    return output * (grad - (grad * output).sum(-1, keepdim=True))


def power(x: Tensor, exponent: Any) -> Any:  # given
    """Return a square or a cube. Any other power stays as it is."""
    if exponent not in (2, 3):
        return NotImplemented
    return x * x if exponent == 2 else x * x * x


RULES: dict[Any, Callable[..., Any]] = {
    aten.native_layer_norm.default: layer_norm,
    aten._softmax.default: softmax,
    aten._softmax_backward_data.default: softmax_backward,
    aten.pow.Tensor_Scalar: power,
}


def guarded(is_right: Any, rule: Callable[..., Any]) -> Callable[..., Any]:  # given
    """Return a rule for the tensors that ``is_right`` accepts; others keep their operator."""

    def decided(x: Any, *args: Any, **kwargs: Any) -> Any:
        return rule(x, *args, **kwargs) if is_right(x) else NotImplemented

    return decided


TABLE = {op: guarded(is_plain, rule) for op, rule in RULES.items()}


@dataclass(eq=False)
class Kernel:  # given
    """Nodes that run in one loop, over ``rows`` rows of ``columns`` elements each.

    Attributes:
        shape: The shape of the nodes' results. A node with one number per row has the size 1
            instead of the last one.
        nodes: The nodes, in the graph's order.
    """

    shape: tuple[int, ...]
    nodes: list[Node] = field(default_factory=list)

    @property
    def inputs(self) -> list[Node]:
        """The values that are made outside and used inside, each once, in the order of use."""
        used = [each for node in self.nodes for each in node.all_input_nodes]
        inside = set(self.nodes)
        return [each for each in dict.fromkeys(used) if each not in inside]

    @property
    def outputs(self) -> list[Node]:
        """The values that are used outside."""
        inside = set(self.nodes)
        return [node for node in self.nodes if not inside.issuperset(node.users)]

    @property
    def is_flat(self) -> bool:
        """Whether no element needs to know its row or column, so rows may be cut anywhere."""
        whole = all(shape_of(node) == self.shape for node in self.nodes)
        places = {place(self.shape, shape_of(node)) for node in self.inputs}
        return whole and places <= {"whole", "single"}


def value(node: Node) -> Tensor:  # given
    """Return a tensor without data, with the shape, dtype and device of a node's result."""
    return node.meta["val"]


def shape_of(node: Node) -> tuple[int, ...]:  # given
    """Return the shape of a node's result."""
    return tuple(value(node).shape)


def arguments(node: Node) -> dict[str, Any]:  # given
    """Return the arguments of an operator's node by their names, with the defaults.

    >>> x = Graph().placeholder("x")
    >>> arguments(x.graph.call_function(aten.add.Tensor, (x, 2)))
    {'self': x, 'other': 2, 'alpha': 1}
    """
    schema = node.target._schema.arguments  # type: ignore[union-attr]
    given = dict(zip([each.name for each in schema], node.args, strict=False)) | node.kwargs
    return {each.name: given.get(each.name, each.default_value) for each in schema}


def row_shape(shape: tuple[int, ...]) -> tuple[int, ...]:  # given
    """Return the shape of one number per row: ``(4, 3)`` becomes ``(4, 1)``."""
    return (*shape[:-1], 1)


def place(shape: tuple[int, ...], operand: tuple[int, ...]) -> str | None:
    """Return how a loop over a shape reads an operand of another shape.

    Returns:
        ``"whole"`` if they are equal, ``"single"`` if the operand has one element, ``"row"`` if it
        has the ``row_shape``, ``"column"`` if it has the last size and all others are 1. ``None``
        if a loop over rows and columns can't read it.

    >>> [place((4, 3), operand) for operand in ((4, 3), (1, 1), (4, 1), (3,), (1, 3), (4,))]
    ['whole', 'single', 'row', 'column', 'column', None]
    """
    raise NotImplementedError(
        "backend: return how a loop over a shape reads an operand of another shape"
    )


def fits(node: Node) -> bool:
    """Return whether a loop can run a node.

    It can if the node calls an operator of ``POINTWISE`` or ``REDUCTIONS``, its result is plain and
    has at least one dimension, and the loop can read the arguments. An operator of ``POINTWISE``
    takes plain tensors that have a ``place`` in the result's shape, integers, booleans, floats
    except ``nan``, strings and ``None``. One of ``REDUCTIONS`` takes a plain tensor with at least
    two elements per row, a list that has only the last dimension, and ``True`` to keep that
    dimension. A node without a ``val`` doesn't fit. The nodes may be torch's: ``is_node`` of the
    lesson ``graph`` accepts both kinds.

    >>> from lessons.capture import capture
    >>> def function(x):
    ...     return (x + 1).relu(), x @ x, x.sum(-1, keepdim=True), x.t() + 1
    >>> graph = capture(function, (torch.ones(2, 2),)).graph
    >>> [node.name for node in graph.nodes if fits(node)]
    ['add', 'relu', 'sum_1']
    """
    raise NotImplementedError("backend: return whether a loop can run a node")


class Loop(NamedTuple):  # given
    """The loop that a node runs in: nodes with equal loops form a kernel.

    Attributes:
        epoch: The number of barriers before it, so it differs on the two sides of a barrier.
        level: How often, on the way from an input of the graph to the node, the loop changes.
        shape: The shape that the loop runs over; ``None`` for a node that doesn't fit.
    """

    epoch: int
    level: int
    shape: tuple[int, ...] | None


def is_barrier(node: Node) -> bool:  # given
    """Return whether no other node may move past a node: it writes, or it is random."""
    if not node.op.startswith("call_") or node.target is operator.getitem:
        return False
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return True  # it may do anything
    return target._schema.is_mutable or torch.Tag.nondeterministic_seeded in target.tags


def loop_shape(node: Node, loops: dict[Node, Loop]) -> tuple[int, ...] | None:
    """Return the shape that a node's loop runs over, or ``None`` if it doesn't fit.

    A reduction runs over the shape of its input. A node that follows the reduction, with one
    number per row, stays in the same loop: if an input's loop has a shape other than the node's,
    and that shape's ``row_shape`` is the node's shape, the node runs over the loop's shape too. If
    there are several such inputs, the one with the highest level decides. Any other node runs over
    its own shape.

    Args:
        node: The node.
        loops: The loops of the nodes before it.
    """
    raise NotImplementedError(
        "backend: return the shape that a node's loop runs over, or ``None`` if it doesn't fit"
    )


def loops_of(graph: Graph) -> dict[Node, Loop]:
    """Return the loop of each node.

    A kernel runs without a break: it can't wait in the middle until other nodes have used its
    results. So no value may leave a kernel and come back. Levels make sure of that. Take the level
    of each input, plus one if its loop and the node's have different shapes; the node's level is
    the highest of these. So a value that leaves a kernel is used at a higher level. An input of the
    graph has level 0.

    Then go from the last node to the first: if all users of a node that fits are in one loop, and
    that loop has the shape and the epoch of the node's own loop, move the node there.

    >>> from lessons.capture import capture
    >>> def function(x, y):
    ...     return torch.relu(x).mm(x) + torch.relu(y)
    >>> graph = capture(function, (torch.ones(2, 2), torch.ones(2, 2))).graph
    >>> {str(node): loop.level for node, loop in loops_of(graph).items() if loop.shape}
    {'relu': 1, 'relu_1': 3, 'add': 3}
    """
    raise NotImplementedError("backend: return the loop of each node")


def kernels(graph: Graph) -> list[Kernel]:
    """Return the groups of at least two nodes that run in one loop.

    Args:
        graph: The graph; it isn't changed.

    Returns:
        The kernels, in the order of their first nodes.

    In torch: ``torch.fx.passes.infra.partitioner.CapabilityBasedPartitioner`` groups nodes without
    a cycle; ``torch._inductor.scheduler.Scheduler`` decides which loops are fused.

    >>> from lessons.capture import capture
    >>> def function(x, w):
    ...     return torch.relu((x * 2 + 1).mm(w)).neg()
    >>> graph = capture(function, (torch.ones(4, 3), torch.ones(3, 5))).graph
    >>> [(kernel.nodes, kernel.inputs, kernel.outputs) for kernel in kernels(graph)]
    [([mul, add], [input_0], [add]), ([relu, neg], [mm], [neg])]
    """
    raise NotImplementedError(
        "backend: return the groups of at least two nodes that run in one loop"
    )


CHUNK = 16384  # elements computed together: few enough to stay in the processor's cache


def out_variant(target: Any) -> tuple[str, str]:  # given
    """Return the variant of an operator that writes its result, and the name of that argument.

    >>> out_variant(aten.mul.Tensor)
    ('aten.mul.out', 'out')
    """
    packet = target.overloadpacket
    wanted = [(each.name, str(each.type)) for each in target._schema.arguments]
    for variant in (getattr(packet, name) for name in packet.overloads()):
        *others, last = variant._schema.arguments
        if last.is_out and [(each.name, str(each.type)) for each in others] == wanted:
            return str(variant), last.name
    raise KeyError(target)


def python_source(kernel: Kernel) -> str:
    """Return a function ``run`` that computes a kernel chunk by chunk.

    ``run`` takes the inputs and then the outputs, which it writes. It views them as rows:
    ``whole`` as ``view(-1, columns)``, ``row`` as ``view(-1, 1)``, and others as ``view(-1)``. So
    each reduction is over ``[-1]``. In a flat kernel, a row is a single element. A chunk has as
    many rows as fit into ``CHUNK`` elements, but at least one. For each chunk, each operator runs
    once, as its ``out_variant``. It writes to an output's rows, or else to a buffer of the size of
    a chunk, which the next chunk uses again.

    >>> from lessons.capture import capture
    >>> graph = capture(lambda x: (x * 2 + 1), (torch.ones(100000),)).graph
    >>> print(python_source(kernels(graph)[0]))
    def run(p_input_0, o_add):
        p_input_0 = p_input_0.view(-1, 1)
        b_mul = torch.empty(16384, 1)
        o_add = o_add.view(-1, 1)
        for start in range(0, 100000, 16384):
            end = min(start + 16384, 100000)
            v_input_0 = p_input_0[start:end]
            v_mul = aten.mul.out(v_input_0, 2, out=b_mul[:end - start])
            v_add = aten.add.out(v_mul, 1, out=o_add[start:end])
    """
    raise NotImplementedError(
        "backend: return a function ``run`` that computes a kernel chunk by chunk"
    )


def python_function(kernel: Kernel) -> Callable[..., None]:  # given
    """Return the function that ``python_source`` prints."""
    namespace: dict[str, Any] = {"torch": torch, "aten": aten, "inf": math.inf, "nan": math.nan}
    exec(python_source(kernel), namespace)
    return namespace["run"]


def phases(kernel: Kernel) -> list[list[Node]]:
    """Return the nodes in groups: each group runs in one pass over the columns of a row.

    A reduction has its result only after a pass over all columns of a row. So a node with a value
    per column needs another pass if it uses a value per row of this kernel. A node with one value
    per row is computed at the end of a pass, so it doesn't need another one.

    >>> from lessons.capture import capture
    >>> def softmax(x):
    ...     powers = (x - x.amax(-1, True)).exp()
    ...     return powers / powers.sum(-1, True)
    >>> (kernel,) = kernels(capture(softmax, (torch.ones(2, 3),)).graph)
    >>> phases(kernel)
    [[amax], [sub, exp, sum_1], [div]]
    """
    raise NotImplementedError(
        "backend: return the nodes in groups: each group runs in one pass over the columns of a row"
    )


def is_per_row(kernel: Kernel, node: Node) -> bool:  # given
    """Return whether a node of a kernel has one value per row."""
    return shape_of(node) != kernel.shape


INDEX = {"whole": "i * columns + j", "single": "0", "row": "i", "column": "j"}


class CppWriter:
    """Writes the C++ of one kernel.

    A value per column is a variable ``v_…`` inside the loop over the columns, and a value per row
    is one outside the loop. ``p_…`` are the inputs, ``o_…`` the outputs, and ``s_…`` the states of
    the reductions. ``b_…`` are buffers of one row, for the values that a later pass needs.

    Args:
        kernel: The kernel.

    Attributes:
        phases: Its phases.
        phase: The number of each node's phase.
    """

    def __init__(self, kernel: Kernel) -> None:  # given
        self.kernel = kernel
        self.phases = phases(kernel)
        self.phase = {node: n for n, nodes in enumerate(self.phases) for node in nodes}

    def source(self) -> str:  # given
        """Return a function ``run``: a loop over the rows, which the threads share.

        A flat kernel is cut into rows of ``columns`` elements; the last may be shorter.
        """
        names = [node.name for node in self.kernel.nodes if self.is_kept(node)]
        lines = [f"float* __restrict b_{name} = new float[columns];" for name in names]
        lines += ["#pragma omp for", "for (long long i = 0; i < rows; ++i) {"]
        lines += [
            "    const long long end = columns < size - i * columns ? columns : size - i * columns;"
        ]
        lines += [f"    {line}" for number in range(len(self.phases)) for line in self.loop(number)]
        lines += ["}", *(f"delete[] b_{name};" for name in names)]
        sizes = "int threads, long long rows, long long columns, long long size"
        body = "".join(f"        {line}\n" for line in lines)
        head = f'extern "C" void run({sizes}, {", ".join(self.pointers())}) {{'
        return f"{head}\n    #pragma omp parallel num_threads(threads)\n    {{\n{body}    }}\n}}\n"

    def pointers(self) -> list[str]:  # given
        """Return the parameters that are tensors: the inputs, then the outputs."""
        inputs = [f"const float* __restrict p_{node.name}" for node in self.kernel.inputs]
        return inputs + [f"float* __restrict o_{node.name}" for node in self.kernel.outputs]

    def is_kept(self, node: Node) -> bool:
        """Return whether a later phase needs the value of this node for each column."""
        raise NotImplementedError(
            "backend: return whether a later phase needs the value of this node for each column"
        )

    def loop(self, number: int) -> list[str]:  # given
        """Return the lines of one phase: before the loop over the columns, in it, and after it."""
        nodes = self.phases[number]
        sums = [node for node in nodes if node.target in REDUCTIONS]
        rows = [node for node in nodes if is_per_row(self.kernel, node)]
        clauses = [f" reduction({REDUCTIONS[node.target].kind}:s_{node.name})" for node in sums]
        return [
            *map(self.start, sums),
            f"#pragma omp simd{''.join(clauses)}",
            "for (long long j = 0; j < end; ++j) {",
            *(f"    {line}" for node in nodes for line in self.in_loop(node)),
            "}",
            *(line for node in rows for line in self.after_loop(node)),
        ]

    def start(self, node: Node) -> str:  # given
        """Return the line of a reduction before the loop. A long sum needs more digits."""
        reduction = REDUCTIONS[node.target]
        is_long = reduction.kind == "+" and self.kernel.shape[-1] > CHUNK
        return f"{'double' if is_long else 'float'} s_{node.name} = {reduction.start};"

    def in_loop(self, node: Node) -> list[str]:
        """Return the lines of a node inside the loop over the columns.

        A reduction takes a step. Any other node with one value per row has no lines here. A node
        with a value per column computes its variable, and stores it in its buffer if the node is
        kept, and in its output if the node is an output.
        """
        raise NotImplementedError(
            "backend: return the lines of a node inside the loop over the columns"
        )

    def after_loop(self, node: Node) -> list[str]:
        """Return the lines of a node with one value per row, which come after the loop."""
        raise NotImplementedError(
            "backend: return the lines of a node with one value per row, which come after the loop"
        )

    def expression(self, node: Node) -> str:
        """Return an expression for a node of ``POINTWISE``."""
        raise NotImplementedError("backend: return an expression for a node of ``POINTWISE``")

    def operand(self, node: Node, argument: Any) -> str:
        """Return an expression for an argument of a node.

        A node of the same kernel is a variable, unless it has a value per column and belongs to an
        earlier phase: then read it from its buffer. Read an input at its ``place``. Numbers and
        booleans become floats, infinity becomes ``inf_``, minus infinity ``(-inf_)``, and ``None``
        becomes ``none_``. A string stays as it is.
        """
        raise NotImplementedError("backend: return an expression for an argument of a node")


FLAGS = ["-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math"]


def find_compiler() -> str:  # given
    """Return the C++ compiler: the environment's ``CXX``, or the first one that is installed.

    Raises:
        OSError: There is none.
    """
    names = [os.environ.get("CXX", ""), "c++", "g++", "clang++"]
    for path in map(shutil.which, filter(None, names)):
        if path:
            return path
    raise OSError("there is no C++ compiler: install one, or name it in the variable CXX")


def compiled(source: str) -> Callable[..., None]:
    """Compile C++, and return its function ``run``.

    Name the library after everything that affects it: the compiler, ``FLAGS``, ``PREAMBLE`` and the
    source. So the same source is compiled only once, and the next process finds the library. If it
    isn't in ``library_folder`` yet, ``build`` it. Open it with ``ctypes.CDLL``.

    Raises:
        OSError: There is no compiler, or it failed.
    """
    raise NotImplementedError("backend: compile C++, and return its function ``run``")


def library_folder() -> Path:  # given
    """Return the folder with the compiled kernels of this user on this machine."""
    folder = Path(tempfile.gettempdir(), f"fx-kata-kernels-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user: set TMPDIR to a folder of yours")
    return folder


def build(compiler: str, text: str, library: Path) -> None:  # given
    """Compile C++ to a library, with threads if the compiler supports OpenMP."""
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        source, result = Path(folder, "kernel.cpp"), Path(folder, "kernel.so")
        source.write_text(text, encoding="utf-8")
        for threads in ("-fopenmp", "-fopenmp-simd"):
            command = [
                compiler,
                *FLAGS,
                threads,
                "-shared",
                "-fPIC",
                str(source),
                "-o",
                str(result),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                result.replace(library)  # at once: another process may look for it
                return
    raise OSError(f"{compiler} failed: {done.stderr.strip()[:500]}")


def cpp_function(kernel: Kernel) -> Callable[..., None]:  # given
    """Return the function that ``CppWriter`` prints; it takes inputs and outputs as tensors."""
    return with_tensors(kernel, compiled(CppWriter(kernel).source()))


def with_tensors(kernel: Kernel, run: Callable[..., None]) -> Callable[..., None]:  # given
    """Return a function that passes the sizes of a kernel and the addresses of its tensors."""
    count = math.prod(kernel.shape)
    columns = CHUNK if kernel.is_flat else kernel.shape[-1]
    sizes = [ctypes.c_longlong(each) for each in (-(-count // columns), columns, count)]
    # Threads of OpenMP don't survive a fork: a child that waits for them waits forever.
    is_alone = count <= CHUNK or multiprocessing.parent_process() is not None

    def call(*tensors: Tensor) -> None:
        pointers = [ctypes.c_void_p(each.data_ptr()) for each in tensors]
        threads = 1 if is_alone else torch.get_num_threads()
        run(ctypes.c_int(threads), *sizes, *pointers)

    return call


def functions(found: Iterable[Kernel]) -> list[Callable[..., None]]:
    """Return a function for each kernel: all compiled from C++, or else all in Python.

    If there is no compiler, or it fails, give a single warning (``RuntimeWarning``) with the
    message of the error.
    """
    raise NotImplementedError(
        "backend: return a function for each kernel: all compiled from C++, or else all in Python"
    )


def launcher(kernel: Kernel, function: Callable[..., None]) -> Callable[..., tuple[Tensor, ...]]:
    """Return a function that runs a kernel on its inputs and returns its outputs.

    The function allocates the outputs, empty, and calls ``function(*inputs, *outputs)``. The loop
    itself can't check its inputs, so first pass them through ``checked``, which refuses those that
    the kernel wasn't made for.
    """
    raise NotImplementedError(
        "backend: return a function that runs a kernel on its inputs and returns its outputs"
    )


def checked(node: Node, tensor: Tensor) -> Tensor:  # given
    """Return a contiguous tensor, if it has the properties that the graph records for the node.

    Raises:
        ValueError: It has another shape, dtype or device, or it needs a gradient.
    """
    expected = value(node)
    is_alike = tensor.dtype == expected.dtype and tensor.device == expected.device
    if not is_alike or tensor.shape != expected.shape:
        before, now = (
            f"{tuple(each.shape)} of {each.dtype} on {each.device}" for each in (expected, tensor)
        )
        raise ValueError(
            f"{node.name} was {before} when the graph was lowered, and is {now}: lower it for "
            "these inputs, or use torch.compile(model, backend=backend), which does"
        )
    if tensor.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            f"{node.name} needs a gradient, and a kernel has none: use torch.no_grad(), or "
            "torch.compile(model, backend=backend), which lowers a backward graph too"
        )
    return tensor.resolve_neg().contiguous()


def with_calls(gm: GraphModule, launchers: Mapping[Kernel, Callable[..., Any]]) -> GraphModule:
    """Return a module like ``gm`` in which each kernel is a call of its launcher.

    Copy the nodes outside the kernels. A kernel becomes a call of its launcher, which returns a
    tuple, and one ``operator.getitem`` per output, with the name and the ``meta`` of the node that
    computed it before. ``in_order`` yields the order.

    The result has the classes of ``gm``: ``type(gm.graph)()``, and ``graph_module_class(gm)`` of
    the lesson ``code``.
    """
    raise NotImplementedError(
        "backend: return a module like ``gm`` in which each kernel is a call of its launcher"
    )


def in_order(graph: Graph, found: list[Kernel]) -> Iterator[Any]:  # given
    """Yield kernels and other nodes in the graph's order, but each after those that it needs.

    Raises:
        graphlib.CycleError: A kernel depends on its own results.
    """
    home: dict[Node, Any] = {node: kernel for kernel in found for node in kernel.nodes}
    position: dict[Any, int] = {}
    sorter: TopologicalSorter[Any] = TopologicalSorter()
    for number, node in enumerate(graph.nodes):
        unit = home.get(node, node)
        position.setdefault(unit, number)
        needed = (home.get(each, each) for each in node.all_input_nodes)
        sorter.add(unit, *(each for each in needed if each is not unit))
    sorter.prepare()
    ready: list[tuple[int, Any]] = []
    while sorter.is_active():
        for unit in sorter.get_ready():
            heapq.heappush(ready, (position[unit], unit))
        _, unit = heapq.heappop(ready)
        yield unit
        sorter.done(unit)
