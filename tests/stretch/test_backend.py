"""``backend``: memory, half precision, reductions, Triton, and more functions and programs."""

from __future__ import annotations

import importlib.util
import itertools
import os
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_leaves

from given.backend import taking_tensors
from tests.models.backend import (
    FUNCTIONS,
    Net,
    aten,
    block,
    can_run_in_this_order,
    compiled_alone,
    compiled_by,
    flat,
    fused,
    inputs,
    random_program,
    trains_as_eager,
)
from tests.suite import equal, holds, rest_slow, same_numbers
from tests.suite.engine import map_arg

# --- the plan for the memory ----------------------------------------------------------------------


def long_chain(x, y):
    for _ in range(10):
        x = x.sin().cos() + y
    return x


PLANNED = {
    "chain": (long_chain, inputs(100, 100)),
    "branches": (lambda x, y: torch.cat([x.sin(), y.cos() * x.exp(), x[:50].sin()]), inputs(99, 7)),
    "views": (lambda x, y: x.sin().t().view(-1).cos()[:50] + y.sin().view(-1)[:50], inputs(1, 70)),
    "tuples": (lambda x, y: x.sin().split(10)[0].cos() + y.sin().split(10)[1], inputs(20, 5)),
    "layer": (
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(),
        inputs(2, 8, 16, count=1),
    ),
}


@pytest.mark.parametrize("name", PLANNED)
def test_the_arena_is_as_small_as_it_can_be_and_no_two_values_meet(lesson, name):
    function, args = PLANNED[name]
    with torch.no_grad():
        plan = lesson.plan(flat(lesson, function, *args).graph)
    equal(plan.size, plan.least)
    for (first, a), (second, b) in itertools.combinations(plan.places.items(), 2):
        holds(
            not first.meets(second) or a + first.size <= b or b + second.size <= a,
            f"places apart for {first.node} and {second.node}",
            got=(a, b),
        )


def test_a_view_keeps_its_source_alive(lesson):
    module = flat(lesson, lambda x: x.sin().view(-1) + x.cos().exp().view(-1), torch.ones(4, 4))
    (sin,) = [each for each in lesson.lives(module.graph) if each.node.name == "sin"]
    equal(list(module.graph.nodes)[sin.end].name, "add")


def test_a_returned_value_has_no_place(lesson):
    module = flat(lesson, lambda x: (x.sin().view(-1), x.cos().exp()), torch.ones(4, 4))
    equal([each.node.name for each in lesson.lives(module.graph)], ["cos"])


# --- numbers, on more functions -------------------------------------------------------------------

ACTIVATIONS = (
    "relu gelu silu sigmoid tanh hardswish hardtanh hardsigmoid relu6 elu selu celu leaky_relu "
    "softplus mish softsign logsigmoid tanhshrink"
).split()
MORE = {
    "softmax": lambda x: F.softmax(x * 2, -1),
    "log_softmax": lambda x: F.log_softmax(x * 2, -1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]) + 1,
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]) + 1,
    "var": lambda x: (x - x.mean(-1, True)) / (x.var(-1, keepdim=True) + 1).sqrt(),
    "squares": lambda x: (x**2 + x**3).sum(-1, keepdim=True) * 2,
    "powers": lambda x: (x.abs() + 1) ** 0.5 + 2**x,
    "minmax": lambda x: torch.maximum(x, x.flip(0)) - torch.minimum(x, x * 2),
    "where": lambda x: torch.where(x > 0, x * 2, x - 1),
    "masked": lambda x: (x * 2).masked_fill(x < 0, -torch.inf).softmax(-1),
    "bool": lambda x: (x > 0) & (x * 2 < 1),
    "cat": lambda x: torch.cat([x + 1, x * 2], -1).relu() * 2,
    "transposed": lambda x: (x.t() + 1).t() * 2,
    "expanded": lambda x: (x[:1].expand(3, -1) + 1) * 2,
    "one": lambda x: (x.mean() + 1) * 2,
    "empty": lambda x: (x[:0] + 1) * 2,
    "double": lambda x: (x.double() + 1) * 2,
    "mixed": lambda x: (x.int() + x) * x.bool(),
    "complex": lambda x: (x * 1j + 1).real * 2,
    "matmul": lambda x: (x @ x.t()).relu() * 2 @ x + x,
    "inplace": lambda x: (x + 1).mul_(2).relu_() + x,
    "rows_and_columns": lambda x: (x + x[:1]) * x[:, :1] - x[0, 0],
    "divided": lambda x: x / (x.abs() + 1) / 3 - 2 / (x * x + 1),
    "cross_entropy": lambda x: F.cross_entropy(x * 2, torch.tensor([0, 1, 2, 3])),
    **{name: getattr(F, name) for name in ACTIVATIONS},
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", rest_slow(MORE, quick=20))
def test_numbers_and_gradients_equal_eager_s(lesson, name):
    torch._dynamo.reset()
    function = MORE[name]
    ours, theirs = (inputs(4, 6, count=1)[0].requires_grad_() for _ in range(2))
    result, expected = compiled_by(lesson.backend, function)(ours), function(theirs)
    same_numbers(result, expected)
    if expected.requires_grad and expected.numel():
        result.abs().sum().backward()
        expected.abs().sum().backward()
        same_numbers(ours.grad, theirs.grad)
    torch._dynamo.reset()


@pytest.mark.compiler
def test_what_is_compiled_for_symbolic_sizes_computes_what_eager_does(lesson):
    torch._dynamo.reset()
    compiled = compiled_by(lesson.backend, block, dynamic=True)
    for shape in ((6, 8), (5, 4)):
        same_numbers(compiled(*inputs(*shape)), block(*inputs(*shape)))
    torch._dynamo.reset()


@pytest.mark.compiler
def test_a_compiled_transformer_block_trains(lesson):
    torch._dynamo.reset()
    trains_as_eager(partial(compiled_by, lesson.backend), Net())
    torch._dynamo.reset()


@pytest.mark.compiler
@pytest.mark.parametrize("tens", rest_slow(range(10, 20), quick=3))
def test_random_programs_compute_what_eager_does(lesson, tens):
    """Ten programs at a time are one graph, because the compiler starts once for a graph."""
    programs, args = [random_program(10 * tens + each) for each in range(10)], inputs(5, 5)

    def together(x, y):
        return tuple(program(x, y) for program in programs)

    module = flat(lesson, together, *args)
    can_run_in_this_order(lesson.kernels(module))
    for ours, eagers in zip(lesson.lower(module)(*args), together(*args), strict=True):
        same_numbers(ours, eagers)


@pytest.mark.compiler
@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_threads_compute_what_one_does(lesson, name):
    args = inputs(300, 300)
    lowered, before = lesson.lower(flat(lesson, FUNCTIONS[name], *args)), torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(lowered(*args))
    finally:
        torch.set_num_threads(before)
    same_numbers(*results)


# --- half precision -------------------------------------------------------------------------------


def calls(module):
    return [node for node in module.graph.nodes if node.name.startswith("kernel")]


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_half_precision_is_computed_in_float32_and_rounded_once(lesson, name, dtype):
    args = [each.to(dtype) for each in inputs(6, 6)]
    module = flat(lesson, FUNCTIONS[name], *args)
    found = fused(lesson, flat(lesson, FUNCTIONS[name], *inputs(6, 6)))
    lowered = lesson.lower(module)
    if not any(node.target in lesson.RULES for node in module.graph.nodes):
        equal(len(calls(lowered)), len(found))
    expected = FUNCTIONS[name](*(each.float() for each in args))
    for ours, theirs in zip(tree_leaves(lowered(*args)), tree_leaves(expected), strict=True):
        equal(ours.dtype, dtype)
        torch.testing.assert_close(ours.float(), theirs, rtol=2e-2, atol=6e-2)


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_each_half_is_read_and_rounded_as_torch_does(lesson, dtype):
    every = torch.arange(-32768, 32768, dtype=torch.int32).to(torch.int16).view(dtype)
    for factor in (1.0, 1.00390625, 0.3):  # between two halves, and below the normal ones
        lowered = lesson.lower(flat(lesson, lambda x: (x * factor).neg().neg(), every))
        result, expected = lowered(every), (every.float() * factor).to(dtype)
        is_wrong = (result != expected) & ~(result.isnan() & expected.isnan())
        holds(
            not is_wrong.any(),
            f"{factor} times each half, rounded to the nearest",
            got=list(zip(every[is_wrong][:3].tolist(), result[is_wrong][:3].tolist(), strict=True)),
        )


@pytest.mark.compiler
def test_a_graph_of_two_dtypes_computes_what_eager_does(lesson):
    def function(x):
        wide = x.float()
        return (wide * 2 + 1).sigmoid() * 3 + (x * 2 + 1).float()

    x = inputs(4, 6, count=1)[0].bfloat16()
    module = flat(lesson, function, x)
    before = [node.meta.get("val") for node in module.graph.nodes]
    same_numbers(lesson.lower(module)(x), function(x))
    after = [node.meta.get("val") for node in module.graph.nodes]
    equal([ours is theirs for ours, theirs in zip(before, after, strict=True)], [True] * len(after))


# --- reductions and views -------------------------------------------------------------------------

IN_ONE_LOOP = {
    "sum": lambda x: (x * 2).sum(-1) + 1,
    "mean": lambda x: (x * 2).mean([2]),
    "amax": lambda x: (x * 2).amax(-1).neg(),
    "the last two": lambda x: (x * 2).sum((-1, 1)) + 1,
    "the last two, kept": lambda x: (x * 2).mean((1, 2), keepdim=True) + 1,
    "layer norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "layer norm with weights": lambda x: F.layer_norm(x, x.shape[1:], x[0], x[1]),
    "a view": lambda x: (x * 2).exp().view(6, 10).relu() + 1,
    "a view without a schema": lambda x: aten._unsafe_view((x * 2).exp(), [6, 10]).relu() + 1,
    "two views": lambda x: (x * 2).view(60).exp().view(6, 10).relu() + 1,
    "a dimension more": lambda x: (x * 2).exp().unsqueeze(1).relu(),
    "a dimension less": lambda x: (x[:1] * 2).exp().squeeze(0).relu(),
    "a norm and a residual": lambda x: F.gelu(F.layer_norm(x * 2, x.shape[1:])) + x,
    "a factor of one element": lambda x: (x * 2 * x[:1, :1, :1]).view(6, 10).relu(),
}


def operators(module):
    """Return what a lowered graph calls: kernels, and operators that aren't views."""
    views = {"view", "_unsafe_view", "squeeze", "unsqueeze", "getitem", "select", "slice"}
    names = [each.target.__name__ for each in module.graph.nodes if each.op == "call_function"]
    return [name for name in names if name.split(".")[0] not in views]


@pytest.mark.compiler
@pytest.mark.parametrize("name", IN_ONE_LOOP)
def test_reductions_over_the_last_dimensions_and_views_stay_in_one_loop(lesson, name):
    given = flat(lesson, IN_ONE_LOOP[name], x := inputs(3, 4, 5, count=1)[0])
    before = str(given.graph)
    module = lesson.lower(given)
    equal(operators(module), ["kernel"])
    same_numbers(module(x), IN_ONE_LOOP[name](x))
    equal(str(given.graph), before)


OVER_OTHERS = {
    "the first": lambda x: (x * 2).sum(0) + 1,
    "the middle one": lambda x: (x * 2).sum(1) + 1,
    "the first two": lambda x: (x * 2).sum((0, 1)) + 1,
    "all": lambda x: (x * 2).sum() + 1,
    "all by number": lambda x: (x * 2).sum((0, 1, 2)) + 1,
    "a single number's": lambda x: (x * 2).sum().sum(0) + 1,
    "none": lambda x: (x * 2).sum([]) + 1,
    "in another dtype": lambda x: (x * 2).sum(-1, dtype=torch.float64) + 1,
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", OVER_OTHERS)
def test_a_reduction_over_other_dimensions_stays_torchs(lesson, name):
    module = flat(lesson, OVER_OTHERS[name], x := inputs(3, 4, 5, count=1)[0])
    equal(fused(lesson, module), [])
    same_numbers(lesson.lower(module)(x), OVER_OTHERS[name](x))


NEEDED_IN_BOTH = {
    "two users": lambda x: (y := (x * 2).exp(), y.view(60) + 1),
    "two shapes": lambda x: (y := (x * 2).exp()).view(60).relu() + y.view(3, 20).sum(),
    "rows": lambda x: (x.softmax(-1) * x[0, 0]).view(60).relu() * 2,
    "returned": lambda x: (x * 2).exp().view(60),
    "transposed": lambda x: (x.transpose(0, 1).unsqueeze(0) * 2).exp(),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", NEEDED_IN_BOTH)
def test_a_value_that_is_needed_in_its_shape_is_computed_once(lesson, name):
    function = NEEDED_IN_BOTH[name]
    given = flat(lesson, function, x := inputs(3, 4, 5, count=1)[0])
    moved = lesson.views_moved(given)
    before, after = (
        [node.target for node in each.graph.nodes if node.target in lesson.POINTWISE]
        for each in (given, moved)
    )
    equal(after, before)
    for ours, eagers in zip(
        tree_leaves(lesson.lower(given)(x)), tree_leaves(function(x)), strict=True
    ):
        same_numbers(ours, eagers)


@pytest.mark.compiler
def test_a_write_whose_result_is_not_used_stays(lesson):
    def function(x):
        x.add_(1)
        return (x * 2).exp().view(60) + 1

    module = flat(lesson, function, *inputs(3, 4, 5, count=1))
    ours, theirs = (inputs(3, 4, 5, count=1)[0] for _ in range(2))
    same_numbers(lesson.lower(module)(ours), function(theirs))
    same_numbers(ours, theirs)


# --- memory that is used again --------------------------------------------------------------------


def addresses(module, *args):
    """Return where the tensors of a graph are, while all of them are kept."""
    values, given = {}, iter(args)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "call_function":
            arguments, options = map_arg((node.args, dict(node.kwargs)), values.__getitem__)
            values[node] = node.target(*arguments, **options)
    tensors = {node.name: each for node, each in values.items() if isinstance(each, torch.Tensor)}
    return {name: tensor.data_ptr() for name, tensor in tensors.items()}


def lowered_with_addresses(lesson, function, *args):
    lowered = lesson.lower(flat(lesson, function, *args))
    results, expected = (tree_leaves(each(*args)) for each in (lowered, function))
    for ours, eagers in zip(results, expected, strict=True):
        if eagers.dtype == torch.bfloat16:  # eager rounds after each operator
            torch.testing.assert_close(ours, eagers, rtol=5e-2, atol=1e-1)
        else:
            same_numbers(ours, eagers)
    return addresses(lowered, *args)


@pytest.mark.compiler
@pytest.mark.parametrize(
    "function",
    [lambda x, y: (x.mm(y) * 2 + 1).tanh(), lambda x, y: torch.softmax(x.mm(y), -1)],
    ids=["one pass", "the last of three passes"],
)
def test_a_kernel_writes_over_an_input_that_no_later_node_reads(lesson, function):
    found = lowered_with_addresses(lesson, function, *inputs(300, 300))
    equal(found["kernel"], found["mm"], hint="no later node reads the product")


NEEDED = {
    "an input of the graph": lambda x, y: (x * 2 + 1).tanh(),
    "read later": lambda x, y: ((p := x.mm(y)) * 2 + 1).tanh().mm(p),
    "returned": lambda x, y: ((p := x.mm(y)), (p * 2 + 1).tanh()),
    "seen by a view": lambda x, y: ((p := x.mm(y)) * 2 + 1).tanh().mm(p.t()),
    "a view": lambda x, y: (x.mm(y).view(-1) * 2 + 1).tanh().sum() + x.mm(y).sum(),
    "read after the output is written": lambda x, y: (
        (p := x.mm(y)).add(1).mul(2),
        p - (p * p).sum(-1, keepdim=True),
    ),
    "a row": lambda x, y: x.mm(y[:, :1]) * x + 1,
    "of another shape": lambda x, y: x.mm(y)[None] * torch.stack([x, y]) + 1,
    "seen by the same kernel": lambda x, y: torch.relu(p := x.mm(y)) + p[0],
    "seen as a row": lambda x, y: torch.relu(p := x.mm(y)) * p[:, :1],
    "seen as a single number": lambda x, y: torch.tanh(p := x.mm(y)) - p[2:3, 2:3],
    "seen turned": lambda x, y: torch.relu(p := x.mm(y)) + p.t().contiguous() - p[:1],
    "half of it, in two views": lambda x, y: (h := x.mm(y).split(2)[0]).exp() * h[0] + h[:, :1],
    "seen by a view without a schema": lambda x, y: (
        (aten._unsafe_view(p := x.mm(y), [25]) * 2 + 1),
        (p * 3).exp(),
    ),
    "read by such a view later": lambda x, y: (
        view := aten._unsafe_view(p := x.mm(y), [25]),
        (view + (p * 3).tanh().mm(x)[0, 0]) * 2,
    )[1],
    "in two kernels": lambda x, y: ((p := x.mm(y)).exp() * 2).mm(x) + (p[0] * 2).exp(),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_value_that_is_needed_keeps_its_memory(lesson, name, dtype):
    args = [each.to(dtype) for each in inputs(5, 5)]
    before = [each.clone() for each in args]
    lowered_with_addresses(lesson, NEEDED[name], *args)
    same_numbers(list(args), before)


# --- Triton ---------------------------------------------------------------------------------------

TRITON_DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"


def triton_can_run():
    """Return whether Triton can run: on a GPU, or in its interpreter (TRITON_INTERPRET=1)."""
    return importlib.util.find_spec("triton") and (
        TRITON_DEVICE == "cpu" or torch.cuda.is_available()
    )


needs_triton = pytest.mark.skipif(
    not triton_can_run(), reason="needs Triton, and a GPU or TRITON_INTERPRET=1"
)
NUMBERS = torch.tensor([-torch.inf, -90, -1, -0.3, -0.0, 0.0, 1e-3, 0.7, 5, 90, torch.inf])


@needs_triton
@pytest.mark.parametrize("name", FUNCTIONS)
def test_triton_computes_what_eager_does(lesson, name):
    runs_as_eager_in_triton(lesson, FUNCTIONS[name], *inputs(6, 6))


@needs_triton
@pytest.mark.filterwarnings(
    "ignore:.* encountered in:RuntimeWarning"
)  # NumPy's, of the interpreter
@pytest.mark.parametrize("name", [*ACTIVATIONS, "softmax", "layer_norm", "rms_norm", "clamp"])
def test_triton_handles_special_numbers(lesson, name):
    compute = {**MORE, "clamp": lambda x: x.clamp(-1, None).clamp(None, 2)}[name]

    def function(x):
        return compute(x * 1)

    runs_as_eager_in_triton(lesson, function, NUMBERS.clamp(-90, 90).repeat(300, 1))
    if name not in ("softmax", "layer_norm", "rms_norm"):
        runs_as_eager_in_triton(lesson, function, torch.cat([NUMBERS, torch.tensor([torch.nan])]))


def runs_as_eager_in_triton(lesson, function, *args):
    """Each kernel of a function, printed for Triton, computes what the printed C does."""
    for kernel in fused(lesson, flat(lesson, function, *args)):
        given = [torch.rand(each.meta["val"].shape) for each in kernel.inputs]
        if len(given) == len(args) == 1:
            given = list(args)
        library = compiled_alone(lesson.source([kernel]))
        in_c = taking_tensors(getattr(library, kernel.symbol), kernel.shape, kernel.columns)
        in_triton = lesson.triton_function(kernel)
        expected = outputs_of(in_c, kernel, given, "cpu")
        same_numbers(outputs_of(in_triton, kernel, given, TRITON_DEVICE), expected)


def outputs_of(function, kernel, given, device):
    """What a kernel's function, called on a device, writes into its outputs."""
    inputs = [each.to(device) for each in given]
    outputs = [torch.full(each.meta["val"].shape, 7.0, device=device) for each in kernel.outputs]
    function(*inputs, *outputs)
    return [each.cpu() for each in outputs]


def test_triton_prints_a_row_as_a_vector(lesson):
    module = flat(lesson, lambda x: x / x.sum(-1, keepdim=True) * 2, *inputs(6, 5, count=1))
    (kernel,) = fused(lesson, module)
    source = lesson.TritonWriter(kernel).function()
    for words in ("tl.program_id(0)", "tl.sum(tl.where(inside, v_", "mask=inside)"):
        holds(words in source, f"{words} in the source", got=source)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_graph_on_a_gpu_calls_triton(lesson, name, dtype):
    torch._dynamo.reset()
    args = [each.to("cuda", dtype) for each in inputs(6, 6)]
    module = flat(lesson, FUNCTIONS[name], *args)
    lowered = lesson.lower(module)
    holds(calls(lowered) or dtype != torch.float32, "a kernel", got=lowered.graph)
    expected = FUNCTIONS[name](*(each.float() for each in args))
    for ours, theirs in zip(tree_leaves(lowered(*args)), tree_leaves(expected), strict=True):
        tolerance = 1e-4 if dtype == torch.float32 else 6e-2
        torch.testing.assert_close(ours.float(), theirs, rtol=tolerance, atol=tolerance)
