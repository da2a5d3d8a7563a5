"""``backend``: the nodes that fit a loop, the kernels, the printed code, and whole models."""

from __future__ import annotations

import itertools
import math
import operator
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx

from tests.models.backend import (
    FUNCTIONS,
    Net,
    around,
    aten,
    block,
    call,
    chain,
    compiled_by,
    counts,
    flat,
    gelu_tanh,
    inputs,
    kernels,
    no_kernel_waits_for_itself,
    only_kernel,
    operators,
    random_program,
    rms,
    runs_as_eager,
    scaled,
    two_results,
    watched,
    widest,
    written_after,
    written_between,
)
from tests.suite import equal, holds, is_value, refuses, same_numbers, warns_of

needs_compiler = pytest.mark.compiler
every_function = pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "around"])
SOURCE = 'extern "C" int run() { return 1; }'
SPECIAL = torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0, 1e-6, 88.0, -100.0, 1e30, -2.0])

# --- step 1: which nodes fit one loop -------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "operand", "expected"),
    [
        ((2, 4, 3), (2, 4, 3), "whole"),
        ((4, 1), (4, 1), "whole"),
        ((1, 3), (1, 3), "whole"),
        ((1,), (1,), "whole"),
        ((2, 4, 3), (), "single"),
        ((2, 4, 3), (1, 1, 1), "single"),
        ((1, 3), (1, 1), "single"),
        ((1, 3), (1,), "single"),
        ((2, 4, 3), (2, 4, 1), "row"),
        ((2, 4, 3), (3,), "column"),
        ((2, 4, 3), (1, 3), "column"),
        ((2, 4, 3), (4, 3), None),
        ((2, 4, 3), (2, 1, 3), None),
        ((2, 4, 3), (4, 1), None),
    ],
    ids=str,
)
def test_an_operand_is_read_at_its_place(lesson, shape, operand, expected):
    equal(lesson.place(shape, operand), expected)


@pytest.mark.parametrize(
    "function",
    [
        torch.neg,
        lambda x: x * 2 + 1,
        lambda x: x + x[:1],
        lambda x: x.sum(-1, keepdim=True),
        lambda x: x.amax(1, keepdim=True),
        gelu_tanh,
        lambda x: x.clamp(max=3),
        lambda x: x.clamp(min=-math.inf),
        lambda x: x + True,
    ],
    ids="neg number column last_dimension dimension_1 string None infinity boolean".split(),
)
def test_a_node_that_a_loop_can_run_fits(lesson, function):
    equal(lesson.fits(call(lesson, function, torch.ones(4, 3))), True)


UNFIT = {
    "a matrix product isn't element by element": lambda x: x.mm(x),
    "a view doesn't compute anything": lambda x: x.view(9),
    "sin isn't in the table": lambda x: torch.sin(x),
    "the result is float64": lambda x: x.double() + 1,
    "the result is float16": lambda x: x.half() + 1,
    "the result is an integer": lambda x: x.int() + 1,
    "the result is a boolean": lambda x: x > 1,
    "the result has other strides": lambda x: x.t() + 1,
    "the result is empty": lambda x: x[:0] + 1,
    "the result has no dimension": lambda x: x[0, 0] + 1,
    "an operand has other strides": lambda x: x + x.t(),
    "an operand is float64": lambda x: x + x.double()[0, 0],
    "a number is nan": lambda x: x.clamp(min=math.nan),
    "an operand is read neither by row nor by column": lambda x: x.view(3, 1, 3) + x,
    "the reduced dimension isn't the last one": lambda x: x.sum(0, keepdim=True),
    "the reduced dimension isn't kept": lambda x: x.sum(-1),
    "two dimensions are reduced": lambda x: x.sum((0, 1), keepdim=True),
    "a row has a single element": lambda x: x[:, :1].contiguous().sum(-1, keepdim=True),
    "the reduced tensor has other strides": lambda x: x.t().sum(-1, keepdim=True),
}


@pytest.mark.parametrize("reason", UNFIT)
def test_any_other_node_does_not_fit(lesson, reason):
    node = call(lesson, UNFIT[reason], torch.ones(3, 3))
    equal(lesson.fits(node), False, cause=(is_value(True), f"`{node}` doesn't fit: {reason}"))


def test_a_symbolic_shape_does_not_fit(lesson):
    equal(lesson.fits(call(lesson, torch.relu, torch.ones(4, 3), dynamic=True)), False)


def test_a_node_without_a_val_does_not_fit(lesson):
    node = call(lesson, torch.relu, torch.ones(3))
    del node.meta["val"]
    equal(lesson.fits(node), False)


# --- step 2: which nodes share a loop -------------------------------------------------------------


def test_a_chain_of_eight_is_one_kernel(lesson):
    kernel = only_kernel(lesson, chain, *inputs(4, 3))
    equal(
        operators(kernel),
        ["mul", "add", "sigmoid", "sub", "tanh", "mul", "silu", "mul", "add"],
    )


def test_norm_gelu_residual_and_softmax_are_one_kernel(lesson):
    equal(counts(lesson, block, *inputs(4, 3)), [14])


def test_a_single_node_is_not_a_kernel(lesson):
    equal(counts(lesson, lambda x: torch.relu(x).mm(x).tanh(), torch.ones(3, 3)), [])


def test_a_matrix_product_separates_kernels(lesson):
    def function(x):
        return (x * 2 + 1).mm(x).relu().neg()

    equal([operators(each) for each in kernels(lesson, function, torch.ones(3, 3))],
          [["mul", "add"], ["relu", "neg"]])  # fmt: skip


def test_a_node_follows_its_user_to_a_later_loop(lesson):
    def function(x, y):
        return x.exp().mm(x) + y.relu().neg()

    equal(
        [operators(each) for each in kernels(lesson, function, *inputs(3, 3))],
        [["relu", "neg", "add"]],
        cause=(
            is_value([["exp", "relu"], ["neg", "add"]]),
            "`neg` moved to `add`, but `relu` was asked before it",
        ),
        hint="move nodes to their users, going from the last node to the first",
    )


def test_kernels_are_in_the_order_of_their_first_nodes(lesson):
    def function(x, y):
        return y.relu() + x.neg().exp().mm(x)

    equal(
        [operators(each) for each in kernels(lesson, function, *inputs(3, 3))],
        [["relu", "add"], ["neg", "exp"]],
        cause=(is_value([["neg", "exp"], ["relu", "add"]]), "`relu` is before `neg` in the graph"),
    )


def test_a_value_that_leaves_does_not_come_back_to_its_kernel(lesson):
    found = kernels(lesson, around, *inputs(3, 3))
    no_kernel_waits_for_itself(found)
    equal([operators(each) for each in found], [["add", "relu"], ["mul", "mul", "add"]])


def test_a_detour_through_another_kernel_is_found(lesson):
    def function(x, y):
        a = torch.relu(x + y)
        b = a.view(9).neg() * 2
        return a * b.view(3, 3)

    no_kernel_waits_for_itself(kernels(lesson, function, *inputs(3, 3)))


@pytest.mark.parametrize("seed", range(20))
def test_no_kernel_of_a_random_program_waits_for_itself(lesson, seed):
    found = kernels(lesson, random_program(seed), *inputs(4, 4))
    no_kernel_waits_for_itself(found)


def test_each_shape_has_its_own_kernel(lesson):
    def function(x, y):
        return x.neg() * 2, y.neg() * 3

    equal(counts(lesson, function, torch.ones(3), torch.ones(4)), [2, 2])


def test_neighbours_share_a_loop(lesson):
    equal(counts(lesson, lambda x, y: (x.neg() * 2, y.neg() * 3), *inputs(3)), [4])


def test_nodes_after_a_reduction_stay_in_its_loop(lesson):
    equal(
        counts(lesson, rms, *inputs(4, 3)),
        [6],
        hint="nodes with one number per row run in the same loop",
    )


def test_a_reduction_decides_for_a_row_that_a_loop_over_rows_uses_too(lesson):
    def function(x, y):
        return y.mm(y.t()).mm(y).neg() + x.sum(-1, keepdim=True)

    equal(
        [
            (each.shape, operators(each))
            for each in kernels(lesson, function, torch.ones(4, 3), torch.ones(4, 1))
        ],
        [((4, 3), ["sum", "add"])],
        cause=(
            is_value([((4, 1), ["neg", "add"])]),
            "the loop of `neg` decided, but its shape is that of `add` itself",
        ),
    )


def test_a_row_made_by_two_loops_belongs_to_the_later_one(lesson):
    def function(x, y):
        row = x.sum(-1, keepdim=True)
        other = (y * row).sum(-1, keepdim=True)
        return (row + other) * y

    found = kernels(lesson, function, torch.ones(4, 3), torch.ones(4, 5))
    no_kernel_waits_for_itself(found)
    equal(
        [(each.shape, len(each.nodes)) for each in found],
        [((4, 5), 4)],
        hint="of several loops over rows, the one with the highest level decides",
    )


def test_the_level_counts_how_often_the_loop_changes(lesson):
    graph = flat(lesson, lambda x: x.neg().relu().mm(x).neg(), torch.ones(3, 3)).graph
    levels = [loop.level for loop in lesson.loops_of(graph).values()]
    equal(levels[:5], [0, 1, 1, 2, 3])


def test_an_input_adds_to_the_level_only_if_its_own_loop_is_another(lesson):
    def function(x, y):
        a = x.neg().mm(x).exp()
        return a, a + y

    loops = lesson.loops_of(flat(lesson, function, *inputs(3, 3)).graph)
    levels = {node.name: loop.level for node, loop in loops.items()}
    equal(
        [levels["exp"], levels["add"]],
        [3, 3],
        cause=(is_value([3, 4]), "`y` is outside the loop of `add`, but its level is 0: 0 + 1 < 3"),
    )


def test_nothing_moves_past_a_write(lesson):
    equal(
        counts(lesson, written_between, *inputs(3)),
        [2, 2],
        cause=(is_value([4]), "nodes from both sides of the write `y.add_(1)` are in one kernel"),
        hint="their loops have different epochs",
    )


def test_a_value_from_before_a_write_is_computed_before_it(lesson):
    equal(
        [operators(each) for each in kernels(lesson, written_after, *inputs(3))],
        [["exp", "mul", "add"]],
        cause=(
            is_value([["neg", "exp", "mul", "add"]]),
            "`neg` moved past the write: compare the epochs too",
        ),
    )


def test_the_graphs_of_torch_have_kernels_too(lesson):
    def function(x):
        return (x * 2 + x.exp()).relu()

    module = make_fx(function, tracing_mode="fake")(torch.ones(3))
    equal(
        [len(each.nodes) for each in lesson.kernels(module.graph)],
        [4],
        cause=(
            lambda got: got == [] and counts(lesson, function, torch.ones(3)) == [4],
            "torch's nodes weren't taken for nodes: use `is_node` of the lesson `graph`",
        ),
    )


# --- step 3: print Python -------------------------------------------------------------------------


@every_function
def test_printed_python_computes_what_eager_does(lesson, name):
    runs_as_eager(lesson, lesson.python_function, FUNCTIONS[name], *inputs(6, 5))


@pytest.mark.parametrize("shape", [(20_001,), (3, 6001), (7001, 3), (2, 3, 4)], ids=str)
def test_python_works_through_every_chunk(lesson, shape):
    runs_as_eager(lesson, lesson.python_function, scaled, *inputs(*shape))
    runs_as_eager(lesson, lesson.python_function, widest, *inputs(*shape))


def test_python_reads_rows_columns_and_single_numbers(lesson):
    def function(x, row, column, single):
        return (x + row) * column - single

    operands = (torch.randn(7000, 3), torch.randn(7000, 1), torch.randn(3), torch.randn(1, 1))
    runs_as_eager(lesson, lesson.python_function, function, *operands)


def test_python_reduces_rows_of_more_dimensions(lesson):
    def function(x):
        return x / x.sum(2, keepdim=True)

    runs_as_eager(lesson, lesson.python_function, function, torch.rand(2, 3, 4) + 1)


def test_python_writes_to_outputs_whatever_they_are_called(lesson):
    def function(grad, x):
        return aten.threshold_backward(grad, x, 0.5) * 2

    runs_as_eager(lesson, lesson.python_function, function, *inputs(4, 3))


in_chunks = pytest.mark.parametrize(
    ("function", "shape", "chunks"),
    [(chain, (100_000,), 7), (chain, (200, 100), 2), (widest, (200, 100), 2)],
    ids=["flat", "flat_rows", "rows"],
)


@in_chunks
def test_an_operator_writes_once_for_each_chunk(lesson, function, shape, chunks):
    kernel, watch = watched(lesson, function, *shape)
    count = len(kernel.nodes)
    holds(
        not watch.resized,
        "no output that torch has to resize",
        got=watch.resized,
        hint="cut the buffers to the length of the last chunk",
    )
    equal(
        watch.written,
        chunks * count,
        cause=[
            (is_value(0), "no operator wrote to its `out`"),
            (is_value(count), f"all {count} operators ran once, for all rows"),
        ],
    )


@in_chunks
def test_python_needs_memory_for_only_one_chunk(lesson, function, shape, chunks):
    kernel, watch = watched(lesson, function, *shape)
    holds(
        max(watch.made, default=0) <= lesson.CHUNK and len(watch.made) < len(kernel.nodes),
        f"fewer new tensors than operators, none of more than {lesson.CHUNK} elements",
        got={"tensors": len(watch.made), "elements of the largest": max(watch.made, default=0)},
        hint="write to an output's rows, or to a buffer that every chunk uses again",
    )


# --- step 4: the phases of a row ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (chain, [9]),
        (rms, [4, 2]),
        (widest, [3, 1]),
        (two_results, [4, 1]),
        (lambda x, y: x - x.mean(-1, keepdim=True) - y.mean(-1, keepdim=True), [2, 2]),
    ],
    ids=["chain", "rms", "widest", "two_results", "two_means"],
)
def test_a_node_that_uses_a_row_waits_for_the_next_pass(lesson, function, expected):
    arguments = inputs(4, 3) if function is not rms else (torch.ones(4, 3), torch.ones(3))
    kernel = only_kernel(lesson, function, *arguments)
    equal([len(nodes) for nodes in lesson.phases(kernel)], expected)


def test_a_row_from_outside_is_there_in_the_first_pass(lesson):
    kernel = only_kernel(lesson, lambda x, row: (x + row) * 2, torch.ones(4, 3), torch.ones(4, 1))
    equal([len(nodes) for nodes in lesson.phases(kernel)], [2])


def test_a_phase_has_its_nodes_in_their_order(lesson):
    kernel = only_kernel(lesson, block, *inputs(4, 3))
    groups = lesson.phases(kernel)
    order = [kernel.nodes.index(node) for nodes in groups for node in nodes]
    holds(
        all(groups) and sorted(order) == list(range(len(kernel.nodes))), "each node once", got=order
    )
    for nodes in groups:
        places = [kernel.nodes.index(node) for node in nodes]
        equal(places, sorted(places))


# --- step 5: print C++, and compile it ------------------------------------------------------------


@needs_compiler
@every_function
def test_printed_cpp_computes_what_eager_does(lesson, name):
    runs_as_eager(lesson, lesson.cpp_function, FUNCTIONS[name], *inputs(6, 5))


@needs_compiler
def test_cpp_works_through_every_row(lesson):
    for shape in ((20_001,), (1, 20_001), (7, 2)):
        runs_as_eager(lesson, lesson.cpp_function, scaled, *inputs(*shape))
        runs_as_eager(lesson, lesson.cpp_function, widest, *inputs(*shape))


@needs_compiler
def test_cpp_reads_rows_columns_and_single_numbers(lesson):
    def function(x, row, column, single):
        return (x + row) * column - single

    operands = (torch.randn(5, 3), torch.randn(5, 1), torch.randn(3), torch.randn(1, 1))
    runs_as_eager(lesson, lesson.cpp_function, function, *operands)


@needs_compiler
def test_cpp_handles_numbers_that_are_not_finite(lesson):
    def function(x):
        return torch.softmax(x, -1), x.amax(-1, keepdim=True)

    x = torch.stack([SPECIAL, SPECIAL.flip(0), torch.ones(10), torch.full((10,), -math.inf)])
    kernel = only_kernel(lesson, function, x)
    results = torch.empty(4, 10), torch.empty(4, 1)
    ordered = [next(r for r in results if r.shape == n.meta["val"].shape) for n in kernel.outputs]
    lesson.cpp_function(kernel)(x, *ordered)
    same_numbers(results, function(x))


@needs_compiler
@pytest.mark.parametrize("function", [torch.relu, torch.tanh, torch.sigmoid, torch.exp, torch.erf])
def test_cpp_functions_handle_special_numbers(lesson, function):
    x = torch.cat([SPECIAL, torch.linspace(-110, 110, 990), torch.linspace(-1, 1, 1000)])
    runs_as_eager(lesson, lesson.cpp_function, lambda x: function(x) * 2, x)


@needs_compiler
@pytest.mark.parametrize("gelu", [F.gelu, gelu_tanh])
def test_gelu_handles_large_numbers(lesson, gelu):
    x = torch.tensor([-math.inf, -1e30, -100.0, -6.0, -1.0, 0.0, 1.0, 100.0, 1e30])
    runs_as_eager(lesson, lesson.cpp_function, lambda x: gelu(x) * 2, x)


@needs_compiler
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x / 2 + 0.75).clamp(max=math.inf) * 10**10 + True,
        lambda x: torch.add(x, 100_000, alpha=100_000) * 2,
        lambda x: x.clamp(-math.inf, 1) * 2,
    ],
    ids=["integers", "large_integers", "minus_infinity"],
)
def test_numbers_in_the_graph_are_floats(lesson, function):
    runs_as_eager(lesson, lesson.cpp_function, function, torch.tensor([-2.0, 0.5, 3.0]))


@needs_compiler
def test_cpp_stores_an_output_that_a_later_pass_reads(lesson):
    def function(x, y):
        a = x * y
        return a, a / (a * a).sum(-1, keepdim=True)

    runs_as_eager(lesson, lesson.cpp_function, function, *inputs(4, 3))


@needs_compiler
def test_cpp_keeps_a_value_for_a_pass_after_the_next(lesson):
    def function(x, y):
        a = torch.exp(x - x.amax(-1, keepdim=True))
        return a / a.sum(-1, keepdim=True) + x * y

    runs_as_eager(lesson, lesson.cpp_function, function, *inputs(4, 3))


@pytest.fixture
def file(lesson):
    """The globals of the learner's file."""
    return lesson.shape_of.__globals__  # a given function


@pytest.fixture
def built(file, tmp_path, monkeypatch):
    """The libraries that are built from now on."""
    build, libraries = file["build"], []

    def noted(compiler, text, library):
        libraries.append(library)
        build(compiler, text, library)

    monkeypatch.setitem(file, "build", noted)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return libraries


@needs_compiler
def test_a_source_is_compiled_once(lesson, file, built, monkeypatch):
    numbers = itertools.count()
    monkeypatch.setitem(file, "hash", lambda text: next(numbers))  # as in another process
    for _ in range(2):
        lesson.compiled(SOURCE)
    equal(
        len(built),
        1,
        cause=(lambda got: next(numbers) > 0, "`hash` of a text differs from process to process"),
    )


@needs_compiler
def test_all_that_affects_a_library_affects_its_name(lesson, file, built, tmp_path, monkeypatch):
    compiler = tmp_path / "other"
    compiler.write_text(f'#!/bin/sh\nexec {lesson.find_compiler()} "$@"\n')
    compiler.chmod(0o755)
    lesson.compiled("int other;" + SOURCE)
    made = {}
    for changed, change in (
        ("the source", lambda: None),
        ("PREAMBLE", lambda: monkeypatch.setitem(file, "PREAMBLE", file["PREAMBLE"] + "\n")),
        ("FLAGS", lambda: monkeypatch.setitem(file, "FLAGS", [*file["FLAGS"], "-DOTHER"])),
        ("the compiler", lambda: monkeypatch.setenv("CXX", str(compiler))),
    ):
        before = set(built)
        change()
        lesson.compiled(SOURCE)
        made[changed] = set(built) != before
    equal(made, dict.fromkeys(made, True))


@needs_compiler
def test_an_error_of_the_compiler_has_its_message(lesson):
    with refuses(OSError, "nonsense"):
        lesson.compiled("nonsense")


def test_without_a_compiler_an_error_says_so(lesson, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with refuses(OSError, "CXX"):
        lesson.compiled("int x;")


# --- step 6: a graph that calls the kernels -------------------------------------------------------


def test_a_launcher_makes_new_outputs_for_each_call(lesson):
    kernel = only_kernel(lesson, chain, *inputs(3))
    launch = lesson.launcher(kernel, lesson.python_function(kernel))
    (first,), (second,) = launch(*inputs(3)), launch(*inputs(3)[::-1])
    equal(
        type(first),
        torch.Tensor,
        cause=(is_value(FakeTensor), "a tensor made like `value(node)` has no data either"),
    )
    same_numbers(
        first.clone(),
        chain(*inputs(3)),
        cause=(
            first.data_ptr() == second.data_ptr(),
            "both calls write to the same tensors: make the outputs for each call",
        ),
    )


def test_without_a_compiler_there_is_one_warning_and_python_runs(lesson, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    module = flat(lesson, around, *inputs(3, 3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lowered = lesson.lower(module)
    messages = [str(each.message) for each in caught if each.category is RuntimeWarning]
    equal(
        ["C++ compiler" in each for each in messages],
        [True],
        cause=[
            (lambda got: len(got) > 1, "it warns more than once: warn once for the graph"),
            (is_value([False]), "the warning lacks the message of the error"),
        ],
    )
    same_numbers(lowered(*inputs(3, 3)), around(*inputs(3, 3)))


def test_with_a_compiler_that_fails_its_message_is_in_the_warning(lesson, tmp_path, monkeypatch):
    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\necho out of order >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("CXX", str(compiler))
    module = flat(lesson, chain, *inputs(3))
    with warns_of("out of order"):
        lowered = lesson.lower(module)
    same_numbers(lowered(*inputs(3)), chain(*inputs(3)))


@needs_compiler
def test_if_one_kernel_does_not_compile_all_run_as_python(lesson, tmp_path, monkeypatch):
    compiler = tmp_path / "picky"
    refuse = 'for each; do case $each in *.cpp) grep -q o_tanh "$each" && exit 1;; esac; done'
    compiler.write_text(f'#!/bin/sh\n{refuse}\nexec {lesson.find_compiler()} "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("CXX", str(compiler))
    found = kernels(lesson, lambda x: (x * 2 + 1).mm(x).neg().tanh(), torch.ones(3, 3))
    made = []
    monkeypatch.setitem(lesson.shape_of.__globals__, "python_function", made.append)
    with warns_of("picky"):
        lesson.functions(found)
    equal(
        made,
        found,
        cause=(is_value(found[1:]), "only the kernel that failed became Python"),
        hint="after a failure, make all functions in Python",
    )


@needs_compiler
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_lowered_module_computes_what_eager_does(lesson, name):
    module = flat(lesson, FUNCTIONS[name], *inputs(6, 6))
    same_numbers(lesson.lower(module)(*inputs(6, 6)), FUNCTIONS[name](*inputs(6, 6)))


@needs_compiler
def test_a_kernel_is_one_call_and_an_item_per_output(lesson):
    lowered = lesson.lower(flat(lesson, around, *inputs(3, 3)))
    calls = [n for n in lowered.graph.nodes if n.op == "call_function"]
    equal([each.name for each in calls], ["kernel", "relu", "mm", "kernel_1", "add_1"])
    equal([each.target for each in calls if each.name in ("relu", "add_1")], [operator.getitem] * 2)


@needs_compiler
def test_an_output_keeps_its_meta(lesson):
    module = flat(lesson, around, *inputs(3, 3))
    for node in module.graph.nodes:
        node.meta["seen"] = node.name
    metas = {node.name: node.meta for node in module.graph.nodes}
    for node in lesson.lower(module).graph.nodes:
        if node.name in ("relu", "add_1", "mm"):
            kept = [key for key, each in metas[node.name].items() if node.meta.get(key) is each]
            equal(kept, [*metas[node.name]])


@needs_compiler
@pytest.mark.parametrize("made_by", ["torch", "lesson"])
def test_the_result_has_the_classes_of_the_given_module(lesson, made_by):
    torchs = make_fx(chain, tracing_mode="fake")(*inputs(3))
    module = torchs if made_by == "torch" else flat(lesson, chain, *inputs(3))
    lowered = lesson.lower(module)
    equal(type(lowered.graph), type(module.graph))
    equal(type(lowered).__mro__[1], type(module).__mro__[1])
    same_numbers(lowered(*inputs(3)), chain(*inputs(3)))


@needs_compiler
def test_a_kernel_may_use_its_own_output(lesson):
    def function(x):
        a = x.neg()
        return a, a * 2 + 1

    module = flat(lesson, function, torch.ones(3))
    same_numbers(lesson.lower(module)(torch.ones(3)), function(torch.ones(3)))


@needs_compiler
def test_the_given_module_is_not_changed(lesson):
    module = flat(lesson, around, *inputs(3, 3))
    before = [(node.name, node.args) for node in module.graph.nodes]
    lesson.lower(module)
    equal([(node.name, node.args) for node in module.graph.nodes], before)


@needs_compiler
def test_random_numbers_are_drawn_in_the_order_of_eager(lesson):
    def function(x):
        a = x + 1
        first, second = torch.rand_like(x), torch.rand_like(x)
        return (a * second).neg() + first

    module = flat(lesson, function, torch.ones(3))
    lowered = lesson.lower(module)
    torch.manual_seed(1)
    expected = function(torch.ones(3))
    torch.manual_seed(1)
    same_numbers(lowered(torch.ones(3)), expected)


@needs_compiler
def test_inputs_may_have_strides(lesson):
    lowered = lesson.lower(flat(lesson, chain, *inputs(3, 4)))
    x, y = inputs(4, 3)
    same_numbers(
        lowered(x.t(), y.t()),
        chain(x.t(), y.t()),
        hint="pass on what `checked` returns: a contiguous tensor",
    )


@needs_compiler
@pytest.mark.parametrize(
    "wrong", [torch.ones(4), torch.ones(3, dtype=torch.float64)], ids=["shape", "dtype"]
)
def test_a_kernel_refuses_other_shapes_and_dtypes(lesson, wrong):
    lowered = lesson.lower(flat(lesson, chain, *inputs(3)))
    with refuses(ValueError, "lower it"):
        lowered(wrong, wrong)


@needs_compiler
def test_a_kernel_refuses_to_drop_a_gradient(lesson):
    lowered = lesson.lower(flat(lesson, chain, *inputs(3)))
    x = torch.ones(3, requires_grad=True)
    with refuses(ValueError, "gradient"):
        lowered(x, x)


@pytest.mark.parametrize("function", [written_between, written_after])
def test_a_write_keeps_its_place(lesson, function):
    module = flat(lesson, function, *inputs(3))
    same_numbers(lesson.lower(module)(*inputs(3)), function(*inputs(3)))


# --- the whole: torch.compile ---------------------------------------------------------------------


@pytest.fixture
def compiled_with(lesson):
    """Compile with the lesson's backend, from a clean start."""
    torch._dynamo.reset()
    yield lambda model: compiled_by(lesson.backend, model)
    torch._dynamo.reset()


@needs_compiler
def test_a_compiled_function_computes_what_eager_does(compiled_with):
    x, y = inputs(6, 8)
    same_numbers(compiled_with(block)(x, y), block(x, y))


@needs_compiler
def test_a_compiled_model_trains(compiled_with):
    model, x = Net(), torch.randn(6, 8)
    compiled_with(model)(x).pow(2).sum().backward()
    ours = [each.grad.clone() for each in model.parameters()]
    model.zero_grad()
    model(x).pow(2).sum().backward()
    same_numbers(ours, [each.grad for each in model.parameters()])


@needs_compiler
def test_other_shapes_work(compiled_with):
    function = compiled_with(block)
    for shape in ((6, 8), (3, 8), (5, 4)):
        x, y = inputs(*shape)
        same_numbers(function(x, y), block(x, y))


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64], ids=str)
def test_another_dtype_computes_what_eager_does(compiled_with, dtype):
    x = (torch.randn(4, 6) * 5).to(dtype)

    def function(x):
        return (x * 2 + 1).abs() + x.sum(-1, keepdim=True)

    result, expected = compiled_with(function)(x), function(x)
    rounded_once = function(x.float()).to(dtype)
    is_better = dtype == torch.bfloat16 and torch.equal(result, rounded_once)
    same_numbers(result, rounded_once if is_better else expected)


@needs_compiler
def test_dropout_with_the_same_seed_drops_what_eager_drops(compiled_with):
    def function(x):
        return F.dropout(x + 1, 0.5) * 2 + x

    compiled = compiled_with(function)
    compiled(torch.ones(100))
    torch.manual_seed(3)
    kept = (compiled(torch.ones(100)) > 1).sum().item()
    torch.manual_seed(3)
    equal((function(torch.ones(100)) > 1).sum().item(), kept)


@needs_compiler
def test_a_written_input_is_written(compiled_with):
    def function(x):
        x.add_(1).relu_()
        return x * 2

    x, y = torch.tensor([-3.0, 2.0]), torch.tensor([-3.0, 2.0])
    same_numbers((compiled_with(function)(x), x), (function(y), y))


@needs_compiler
def test_a_batch_norm_keeps_its_statistics(compiled_with):
    ours, theirs = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
    x = torch.randn(8, 4)
    same_numbers(compiled_with(ours)(x), theirs(x))
    same_numbers(ours.running_mean, theirs.running_mean)
