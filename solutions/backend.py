"""A compiler for ``torch.compile``: fuse elementwise operations, print them as C, compile them.

``torch.compile`` passes a graph to a function, the *backend*, and calls what the backend returns
instead of the model. Your backend finds operations that can share a *kernel*: one loop that runs
all of them for one element, then for the next. A kernel is a partition of the graph, as in
``split_module``, and a C function runs in its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from textwrap import indent
from typing import Any, NamedTuple

import torch
from torch import Tensor

from given.backend import (
    HEADER,
    TABLE,
    ahead_of_time,
    arguments,
    checked,
    compiled,
    constant,
    copy_meta,
    is_barrier,
    is_constant,
    is_plain,
    reduces_rows,
    row_shape,
    shape_of,
    taking_tensors,
    value_of,
)

from .code import GraphModule, graph_module_class
from .graph import Graph, Node, is_node
from .split_module import Partition, assign_nodes, collect_crossings, order_partitions, with_calls

aten = torch.ops.aten


def backend(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:  # given
    """Compile a graph for ``torch.compile(model, backend=backend)``.

    In torch: ``torch._inductor.compile_fx.compile_fx``.

    >>> compiled_model = torch.compile(torch.nn.Softmax(dim=-1), backend=backend)
    >>> compiled_model(torch.zeros(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return ahead_of_time(lower, TABLE)(gm, example_inputs)


def lower(gm: GraphModule) -> GraphModule:  # step 5
    """Return a module that runs a flat graph with one call for each of its kernels.

    The ``source`` of all fused kernels is compiled as one library, in which a kernel's function is
    ``getattr(library, kernel.symbol)``. The new graph (``with_kernels``) calls its ``launcher``. If
    nothing is fused, or ``compiled`` returns ``None``, return ``gm``.

    Args:
        gm: The module; it isn't changed. Its nodes know their results: ``meta["val"]``.

    In torch: ``torch._inductor.graph.GraphLowering``.

    >>> from solutions.capture import capture
    >>> flat = capture(lambda x: (x * 2 + 1).relu().mm(x), (torch.ones(4, 4),))
    >>> [node.name for node in lower(flat).graph.nodes]
    ['input_0', 'kernel', 'mm', 'output']
    """
    partitions = kernels(gm)
    fused = [partition for partition in partitions if partition.is_fused]
    library = compiled(source(fused)) if fused else None
    if library is None:
        return gm
    functions = {each: launcher(each, getattr(library, each.symbol)) for each in fused}
    return with_kernels(gm, partitions, functions)


# --- the vocabulary: an operator for one element, by the names of its arguments

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
    """How a row becomes one number, in C: ``s`` is the number so far, ``x`` an element."""

    kind: str  # how to combine the numbers of two parts of a row
    start: str
    step: str
    result: str


REDUCTIONS: dict[Any, Reduction] = {
    aten.sum.dim_IntList: Reduction("+", "0", "{s} += {x}", "{s}"),
    aten.mean.dim: Reduction("+", "0", "{s} += {x}", "{s} / columns"),
    aten.amax.default: Reduction("max_", "-INFINITY", "{s} = max_({s}, {x})", "{s}"),
}


# --- step 1: which nodes a loop over rows and columns can run


def place(shape: tuple[int, ...], operand: tuple[int, ...]) -> str | None:  # step 1
    """Return how a loop over a shape reads an operand of another shape.

    The last dimension of a loop is its columns, and all others together are its rows. In
    ``scores / total``, with the shapes (4, 3) and (4, 1), there is one ``total`` per row.

    Returns:
        ``"whole"`` if the shapes are equal, ``"single"`` for one element, ``"row"`` for one number
        per row (``row_shape``), ``"column"`` for one per column, if all other sizes are 1. ``None``
        for any other operand.

    >>> [place((4, 3), operand) for operand in ((4, 3), (1, 1), (4, 1), (3,), (1, 3), (4,))]
    ['whole', 'single', 'row', 'column', 'column', None]
    """
    if operand == shape:
        return "whole"
    if math.prod(operand) == 1:
        return "single"
    if operand == row_shape(shape):
        return "row"
    return "column" if math.prod(operand) == operand[-1] == shape[-1] else None


def fits(node: Node) -> bool:  # step 1
    """Return whether a loop can run a node.

    Any other node stays a call of torch. The node's result has to be plain (``is_plain``), with at
    least one dimension. Besides:

    - a node of ``REDUCTIONS`` fits if it ``reduces_rows``;
    - a node of ``POINTWISE`` fits if each of its ``arguments`` is a constant (``is_constant``), or
      a node whose result is plain and has a ``place`` in the node's shape.

    The nodes may be torch's: ``is_node`` of the lesson ``graph`` accepts both kinds.

    >>> from solutions.capture import capture
    >>> def function(x):
    ...     return (x + 1).relu(), x @ x, x.sum(-1, keepdim=True), x.t() + 1
    >>> graph = capture(function, (torch.ones(2, 2),)).graph
    >>> [node.name for node in graph.nodes if fits(node)]
    ['add', 'relu', 'sum_1']
    """
    if not is_plain(value_of(node)) or not shape_of(node):
        return False
    if node.target in REDUCTIONS:
        return reduces_rows(node)
    if node.target not in POINTWISE:
        return False
    return all(_is_read(shape_of(node), each) for each in arguments(node).values())


def _is_read(shape: tuple[int, ...], argument: Any) -> bool:
    """Return whether a loop over a shape can read an argument."""
    if not is_node(argument):
        return is_constant(argument)
    return is_plain(value_of(argument)) and place(shape, shape_of(argument)) is not None


# --- step 2: which nodes share a loop


class Loop(NamedTuple):  # given
    """The loop that a node runs in: nodes with equal loops form a kernel.

    Attributes:
        epoch: The number of barriers up to the node.
        level: How often the loop changes on the way to the node.
        shape: What the loop runs over; ``None`` if the node doesn't fit.
    """

    epoch: int
    level: int
    shape: tuple[int, ...] | None


@dataclass(eq=False)
class Kernel(Partition):  # given
    """A partition whose nodes run in one loop, or a single node, which stays as it is.

    Attributes:
        shape: The shape that the loop runs over.
    """

    shape: tuple[int, ...] = ()

    @property
    def is_fused(self) -> bool:
        """Whether there is a loop to print."""
        return len(self.nodes) > 1

    @property
    def symbol(self) -> str:
        """The name of the C function."""
        return f"kernel_{self.nodes[0].name}"

    @property
    def is_flat(self) -> bool:
        """Whether no element needs to know its row or column, so rows may be cut anywhere."""
        whole = all(shape_of(node) == self.shape for node in self.nodes)
        places = {place(self.shape, shape_of(node)) for node in self.inputs}
        return whole and places <= {"whole", "single"}

    @property
    def columns(self) -> int:
        """How many elements a row of the loop has."""
        return CHUNK if self.is_flat else self.shape[-1]


CHUNK = 16384  # elements of a row in a flat kernel


def loop_shape(node: Node, loops: dict[Node, Loop]) -> tuple[int, ...] | None:  # step 2
    """Return the shape that a node's loop runs over, or ``None`` if the node doesn't fit.

    Most nodes run over their own shape. But the loop of ``m = x.mean(-1, keepdim=True)`` runs over
    the shape of ``x``, (4, 3). And ``m + 1``, of shape (4, 1), is best computed in the same loop,
    once per row. So a node whose shape is the ``row_shape`` of an input's loop runs over the shape
    of that loop. Of several such loops, the one with the highest level decides.

    Args:
        node: The node.
        loops: The loops of the nodes before it.
    """
    if not fits(node):
        return None
    if node.target in REDUCTIONS:
        return shape_of(node.args[0])
    own = shape_of(node)
    makers = [loops[each] for each in node.all_input_nodes]
    with_rows = [each for each in makers if each.shape and row_shape(each.shape) == own]
    return max(with_rows, key=lambda loop: loop.level).shape if with_rows else own


def loops_of(graph: Graph) -> dict[Node, Loop]:  # step 2
    """Return the loop of each node.

    A kernel runs from its first node to its last without a break. So no value may leave it and come
    back. Here ``a`` and ``c`` have the same shape, but ``c`` has to wait for ``b``::

        a = relu(x)     level 1    x has level 0, and no loop: its shape is None
        b = a.mm(a)     level 2    no loop
        c = a + b       level 3    a asks for level 1, b for level 3

    An input asks for its own level, or for one more if its loop has another shape; the highest
    counts. Two nodes without a loop have the same shape, ``None``. A barrier (``is_barrier``)
    begins a new epoch: no loop has nodes from both sides of it.

    >>> from solutions.capture import capture
    >>> def function(x, y):
    ...     return torch.relu(x).mm(x) + torch.relu(y)
    >>> graph = capture(function, (torch.ones(2, 2), torch.ones(2, 2))).graph
    >>> {str(node): loop.level for node, loop in loops_of(graph).items() if loop.shape}
    {'relu': 1, 'relu_1': 1, 'add': 3}
    """
    loops: dict[Node, Loop] = {}
    epoch = 0
    for node in graph.nodes:
        shape, inputs = loop_shape(node, loops), [loops[each] for each in node.all_input_nodes]
        level = max((each.level + (each.shape != shape) for each in inputs), default=0)
        epoch += is_barrier(node)
        loops[node] = Loop(epoch, level, shape)
    return loops


def join_users(graph: Graph, loops: dict[Node, Loop]) -> None:  # step 2
    """Move each node that fits to the loop of its users, if that saves storing its result.

    In the example of ``loops_of``, only ``add`` uses ``relu_1``. A node joins its users if they all
    have the same loop, with the shape and epoch of the node's own loop. A whole chain moves.

    Args:
        graph: The graph.
        loops: The loops of all nodes; they are changed.
    """
    for node in reversed(list(graph.nodes)):
        own, users = loops[node], {loops[user] for user in node.users}
        if own.shape and len(users) == 1:
            (loop,) = users
            if (loop.epoch, loop.shape) == (own.epoch, own.shape):
                loops[node] = loop


def kernels(gm: GraphModule) -> list[Kernel]:  # step 2
    """Return the partitions of a graph, in an order in which they can run.

    Nodes in equal loops are one partition, whose ``shape`` is the loop's. Each other call is a
    partition of its own. ``assign_nodes``, ``collect_crossings`` and ``order_partitions`` do the
    work: import them from the lesson ``split_module``.

    In torch: ``torch._inductor.scheduler.Scheduler`` decides which loops are fused.

    >>> from solutions.capture import capture
    >>> def function(x, w):
    ...     return torch.relu((x * 2 + 1).mm(w)).neg()
    >>> for kernel in kernels(capture(function, (torch.ones(4, 3), torch.ones(3, 5)))):
    ...     print(kernel.nodes, list(kernel.inputs), list(kernel.outputs), kernel.is_fused)
    [mul, add] [input_0] [add] True
    [mm] [add, input_1] [mm] False
    [relu, neg] [mm] [neg] True
    """
    loops = loops_of(gm.graph)
    join_users(gm.graph, loops)
    group = {node: loop if loop.shape else node.name for node, loop in loops.items()}
    partitions = assign_nodes(gm.graph, group.__getitem__, Kernel)
    for kernel in partitions:
        kernel.shape = loops[kernel.nodes[0]].shape or ()
    collect_crossings(gm, partitions)
    return order_partitions(partitions)


# --- step 3: the passes over a row


def phases(kernel: Kernel) -> list[list[Node]]:  # step 3
    """Return the nodes in groups: each group runs in one pass over the columns of a row.

    A sum is known only after a pass. So a node with a value per column waits for the next pass if
    it uses a value per row (``is_per_row``) of this kernel. A node with a value per row doesn't: it
    is computed after the pass. Each node runs as early as it can. The nodes of a group are in the
    order of the kernel.

    >>> from solutions.capture import capture
    >>> def softmax(x):
    ...     powers = (x - x.amax(-1, True)).exp()
    ...     return powers / powers.sum(-1, True)
    >>> (kernel,) = kernels(capture(softmax, (torch.ones(2, 3),)))
    >>> phases(kernel)
    [[amax], [sub, exp, sum_1], [div]]
    """
    phase: dict[Node, int] = {}
    for node in kernel.nodes:
        is_per_column = not is_per_row(kernel, node)
        inside = [each for each in node.all_input_nodes if each in phase]
        waits = [phase[each] + (is_per_column and is_per_row(kernel, each)) for each in inside]
        phase[node] = max(waits, default=0)
    groups: list[list[Node]] = [[] for _ in range(max(phase.values()) + 1)]
    for node, number in phase.items():
        groups[number].append(node)
    return groups


def is_per_row(kernel: Kernel, node: Node) -> bool:  # given
    """Return whether a node of a kernel has one value per row."""
    return shape_of(node) != kernel.shape


# --- step 4: print C

FUNCTION = """
void {symbol}(int threads, long long rows, long long columns, long long size,
    {parameters}) {{
    #pragma omp parallel num_threads(threads)
    {{{buffers}
        #pragma omp for
        for (long long i = 0; i < rows; ++i) {{
            const long long left = size - i * columns;
            const long long end = left < columns ? left : columns;{passes}
        }}{frees}
    }}
}}
"""
PASS = """{before}
#pragma omp simd{clauses}
for (long long j = 0; j < end; ++j) {{{inside}
}}{after}"""
INDEX = {"whole": "i * columns + j", "single": "0", "row": "i", "column": "j"}


class CWriter:
    """Writes the C function of one kernel; the page shows a softmax's.

    ``i`` is the row and ``j`` the column; ``p_…`` are inputs, ``o_…`` outputs, ``v_…`` values,
    ``s_…`` reductions that aren't complete, and ``b_…`` buffers of one row. A value per column is
    computed inside the loop over the columns, and a value per row after it.

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

    def function(self) -> str:  # given
        """Return a function with a loop over the rows, which the threads share."""
        kept = [node.name for node in self.kernel.nodes if self.is_kept(node)]
        buffers = (f"float* const b_{name} = malloc(sizeof(float) * columns);" for name in kept)
        return FUNCTION.format(
            symbol=self.kernel.symbol,
            parameters=",\n    ".join(self.parameters()),
            buffers=lines(buffers, 8),
            passes=indent("".join(map(self.one_pass, self.phases)), " " * 12),
            frees=lines((f"free(b_{name});" for name in kept), 8),
        )

    def parameters(self) -> list[str]:  # given
        """Return the parameters that are tensors: the inputs, then the outputs."""
        inputs = [f"const float* restrict p_{node.name}" for node in self.kernel.inputs]
        return inputs + [f"float* restrict o_{node.name}" for node in self.kernel.outputs]

    def one_pass(self, nodes: list[Node]) -> str:  # given
        """Return one pass over the columns: the lines before the loop, in it, and after it."""
        sums = [node for node in nodes if node.target in REDUCTIONS]
        rows = [node for node in nodes if is_per_row(self.kernel, node)]
        clauses = (f" reduction({REDUCTIONS[node.target].kind}:s_{node.name})" for node in sums)
        return PASS.format(
            before=lines(map(self.start, sums)),
            clauses="".join(clauses),
            inside=lines((line for node in nodes for line in self.in_loop(node)), 4),
            after=lines(line for node in rows for line in self.after_loop(node)),
        )

    def start(self, node: Node) -> str:  # given
        """Return the line of a reduction before the loop. A long sum needs more digits."""
        reduction = REDUCTIONS[node.target]
        is_long = reduction.kind == "+" and self.kernel.shape[-1] > CHUNK
        return f"{'double' if is_long else 'float'} s_{node.name} = {reduction.start};"

    def store(self, node: Node, where: str) -> list[str]:  # given
        """Return the line that stores the variable of an output; none for any other node."""
        line = f"o_{node.name}[{INDEX[where]}] = v_{node.name};"
        return [line] if node in self.kernel.outputs else []

    def is_kept(self, node: Node) -> bool:  # step 4
        """Return whether a node has a value per column that a later pass needs.

        Its variable is gone at the next column, so it is kept in a buffer.
        """
        later = any(self.phase.get(user, 0) > self.phase[node] for user in node.users)
        return later and not is_per_row(self.kernel, node)

    def in_loop(self, node: Node) -> list[str]:  # step 4
        """Return the lines of a node inside the loop over the columns.

        A value per column is computed, put into its buffer if it ``is_kept``, and stored
        (``store``) at the place ``"whole"``. A reduction takes its ``step``. In a softmax, ``exp``
        has the first two of these lines, and ``sum_1`` the third::

            const float v_exp = exp_(v_sub);
            b_exp[j] = v_exp;
            s_sum_1 += v_exp;
        """
        if node.target in REDUCTIONS:
            step = REDUCTIONS[node.target].step
            return [step.format(s=f"s_{node.name}", x=self.operand(node, node.args[0])) + ";"]
        if is_per_row(self.kernel, node):
            return []
        found = [f"const float v_{node.name} = {self.expression(node)};"]
        if self.is_kept(node):
            found.append(f"b_{node.name}[j] = v_{node.name};")
        return found + self.store(node, "whole")

    def after_loop(self, node: Node) -> list[str]:  # step 4
        """Return the lines of a node with a value per row, after the loop over the columns.

        The value of a reduction is its ``result``: ``const float v_mean = s_mean / columns;``.
        It is stored at the place ``"row"``.
        """
        if node.target in REDUCTIONS:
            text = REDUCTIONS[node.target].result.format(s=f"s_{node.name}")
        else:
            text = self.expression(node)
        return [f"const float v_{node.name} = {text};", *self.store(node, "row")]

    def expression(self, node: Node) -> str:  # given
        """Return the C expression of a node, from ``POINTWISE`` and its operands."""
        given = arguments(node).items()
        names = {name: self.operand(node, argument) for name, argument in given}
        return POINTWISE[node.target].format_map(names)

    def operand(self, node: Node, argument: Any) -> str:  # step 4
        """Return the C expression of an argument of a node.

        In ``softmax(x * 2, -1)``, there are all five kinds:

        - ``2.0f``: a ``constant``;
        - ``p_x[i * columns + j]``: an input, at the ``INDEX`` of its ``place`` in the loop;
        - ``v_sub``: a value of the same pass;
        - ``v_amax``: a value per row, also from an earlier pass;
        - ``b_mul[j]``: a value per column from an earlier pass.
        """
        if not is_node(argument):
            return constant(argument)
        if argument not in self.phase:
            where = place(self.kernel.shape, shape_of(argument))
            return f"p_{argument.name}[{INDEX[str(where)]}]"
        is_early = self.phase[argument] < self.phase[node]
        is_buffered = is_early and not is_per_row(self.kernel, argument)
        return f"b_{argument.name}[j]" if is_buffered else f"v_{argument.name}"


def lines(texts: Iterable[str], depth: int = 0) -> str:  # given
    """Return each text on a new line, indented."""
    return "".join("\n" + " " * depth + text for text in texts)


def source(fused: list[Kernel]) -> str:  # given
    """Return the C of all kernels of a graph, which is compiled at once."""
    return HEADER + "".join(CWriter(kernel).function() for kernel in fused)


# --- step 5: a graph that calls the kernels


def launcher(kernel: Kernel, run: Any) -> Callable[..., Any]:  # step 5
    """Return a function that runs a kernel on its inputs, and returns new outputs.

    C gets only addresses, and would read past the end of a tensor without notice. So pass on what
    ``checked`` returns for each input. The loop writes ``float32`` on the CPU: say so when you
    allocate the outputs, each with the shape of its node.

    Args:
        kernel: The kernel.
        run: Its C function, for ``taking_tensors``; a row has ``kernel.columns`` elements.

    Returns:
        A function whose ``__name__`` is ``"kernel"``, as its calls will be named. It returns a list
        or tuple of outputs, or a single output as it is (``kernel.returns_single``).
    """
    function = taking_tensors(run, kernel.shape, kernel.columns)

    def call(*inputs: Tensor) -> Any:
        ready = [checked(node, each) for node, each in zip(kernel.inputs, inputs, strict=True)]
        outputs = [_new(node) for node in kernel.outputs]
        function(*ready, *outputs)
        return outputs[0] if kernel.returns_single else outputs

    call.__name__ = "kernel"
    return call


def _new(node: Node) -> Tensor:
    return torch.empty(shape_of(node), dtype=torch.float32, device="cpu")


def with_kernels(
    gm: GraphModule, partitions: list[Kernel], functions: Mapping[Kernel, Callable[..., Any]]
) -> GraphModule:  # given
    """Return a module like ``gm`` whose graph calls the functions of some partitions.

    The nodes that have the results get copies of the old ones' ``meta``. Any other partition is
    copied.
    """
    calls: dict[Node, Kernel] = {}

    def call(graph: Graph, kernel: Kernel, inputs: tuple[Node, ...]) -> Node | None:
        if kernel not in functions:
            return None
        calls[node := graph.call_function(functions[kernel], inputs)] = kernel
        return node

    graph = with_calls(gm.graph, partitions, call)
    copy_meta(calls)
    return graph_module_class(gm)(gm, graph)
