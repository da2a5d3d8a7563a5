"""``backend``: the nodes that fit a loop, the kernels, the printed C, and whole models."""

from __future__ import annotations

import functools
import math
import warnings

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import given.backend
from tests.models.backend import (
    CASES,
    around,
    block,
    call,
    can_run_in_this_order,
    chain,
    compiled_by,
    computes_what_eager_does,
    counts,
    flat,
    gelu_tanh,
    inputs,
    kept_for_long,
    kernels,
    means,
    only_kernel,
    operators,
    random_program,
    softmax,
    stored_and_read,
    trains_as_eager,
    two_results,
    writer_of,
    written_after,
    written_between,
)
from tests.suite import equal, is_value, noting, refuses, same_numbers

needs_compiler = pytest.mark.compiler

# --- step 1: which nodes fit one loop -------------------------------------------------------------


PLACES = {
    "whole": "both have the same shape",
    "single": "the operand has one element, in however many dimensions",
    "row": "the operand has the shape `row_shape` of the loop's",
    "column": "the operand has one number per column, and all its other sizes are 1",
    None: "the operand has neither one number per row nor one per column",
}


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
        ((4, 3), (4,), None),
        ((2, 3), (3, 2), None),
        ((2, 4, 3), (2, 1, 3), None),
        ((2, 4, 3), (4, 1), None),
        ((4, 3, 3), (3, 1), None),
        ((2, 4, 3), (2, 1, 1), None),
    ],
    ids=str,
)
def test_an_operand_is_read_at_its_place(lesson, shape, operand, expected):
    equal(lesson.place(shape, operand), expected, cause=(PLACES.__contains__, PLACES[expected]))


FIT = {
    "a number is a constant": lambda x: x * 2 + 1,
    "an operand has one number per column": lambda x: x + x[:1],
    "it is in `REDUCTIONS`, and `reduces_rows`": lambda x: x.sum(-1, keepdim=True),
    "a string is a constant": gelu_tanh,
    "`None` is a constant": lambda x: x.clamp(max=3),
    "an operand has one element, and no dimension": lambda x: x * torch.tensor(2.0),
}


@pytest.mark.parametrize("reason", FIT)
def test_a_node_that_a_loop_can_run_fits(lesson, reason):
    node = call(lesson, FIT[reason], torch.ones(4, 3))
    equal(lesson.fits(node), True, cause=(is_value(False), f"`{node}` fits: {reason}"))


UNFIT = {
    "a matrix product isn't element by element": lambda x: x.mm(x),
    "the result is float64": lambda x: x.sum(-1, keepdim=True, dtype=torch.float64),
    "the result has no dimension": lambda x: x[0, 0] + 1,
    "an operand has other strides": lambda x: x + x.t(),
    "a keyword argument is nan": lambda x: torch.add(x, x, alpha=math.nan),
    "an operand is read neither by row nor by column": lambda x: x.view(3, 1, 3) + x,
    "the reduced dimension isn't kept": lambda x: x.sum(-1),
}


@pytest.mark.parametrize("reason", UNFIT)
def test_any_other_node_does_not_fit(lesson, reason):
    node = call(lesson, UNFIT[reason], torch.ones(3, 3))
    equal(lesson.fits(node), False, cause=(is_value(True), f"`{node}` doesn't fit: {reason}"))


def test_a_node_of_an_unknown_shape_does_not_fit(lesson):
    equal(lesson.fits(call(lesson, torch.relu, torch.ones(4, 3), dynamic=True)), False)
    node = call(lesson, torch.relu, torch.ones(3))
    del node.meta["val"]
    equal(lesson.fits(node), False)


def test_a_node_of_torch_fits_too(lesson):
    graph = make_fx(lambda x: x * 2, tracing_mode="fake")(torch.ones(3)).graph
    is_mine = lesson.fits(call(lesson, lambda x: x * 2, torch.ones(3)))
    equal(
        [lesson.fits(node) for node in graph.nodes],
        [False, True, False],
        cause=(
            lambda got: is_mine and not any(got),
            "torch's nodes weren't taken for nodes: use `is_node` of the lesson `graph`",
        ),
    )


# --- step 2: which nodes share a loop -------------------------------------------------------------


def test_a_node_that_does_not_fit_has_no_loop(lesson):
    node = call(lesson, lambda x: x.mm(x), torch.ones(3, 3))
    loops = dict.fromkeys(node.all_input_nodes, lesson.Loop(0, 0, None))
    words = "no loop can run `mm`: ask whether it `fits`"
    equal(lesson.loop_shape(node, loops), None, cause=(is_value((3, 3)), words))


def test_a_reduction_runs_over_the_shape_of_its_input(lesson):
    node = call(lesson, lambda x: x.sum(-1, keepdim=True), torch.ones(4, 3))
    loops = dict.fromkeys(node.all_input_nodes, lesson.Loop(0, 0, None))
    words = "that is the shape of the result, but the loop reads each element of the input"
    equal(lesson.loop_shape(node, loops), (4, 3), cause=(is_value((4, 1)), words))


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([(0, None)], (4, 1)),
        ([(0, (4, 3))], (4, 3)),
        ([(0, (5, 3))], (4, 1)),
        ([(0, (2, 2, 3))], (4, 1)),
        ([(1, (4, 3)), (2, (4, 5))], (4, 5)),
        ([(2, (4, 3)), (1, (4, 5))], (4, 3)),
        ([(1, (4, 3)), (2, (5, 3))], (4, 3)),
    ],
    ids=str,
)
def test_a_node_with_one_number_per_row_runs_in_the_loop_of_an_input(lesson, shapes, expected):
    node = call(lesson, lambda x, y: x + y, torch.ones(4, 1), torch.ones(4, 1))
    loops = {each: lesson.Loop(0, 0, None) for each in node.all_input_nodes}
    for each, (level, shape) in zip(node.all_input_nodes, shapes, strict=False):
        loops[each] = lesson.Loop(0, level, shape)
    earlier = {shape for _, shape in shapes} - {expected}
    equal(
        lesson.loop_shape(node, loops),
        expected,
        cause=[
            (is_value((5, 3)), "the loop of that input has 5 rows, and the node has 4"),
            (
                is_value((2, 2, 3)),
                "4 numbers as well, but the `row_shape` of that loop is (2, 2, 1)",
            ),
            (is_value((4, 1)), "an input's loop has these rows, and can run the node once per row"),
            (
                earlier.__contains__,
                "both loops have these rows: the higher level decides",
            ),
        ],
    )


def test_the_level_counts_how_often_the_loop_changes(lesson):
    def function(x):
        return torch.cat([x.neg().relu()]).mm(x).neg()

    loops = lesson.loops_of(flat(lesson, function, torch.ones(3, 3)).graph)
    equal(
        [loop.level for loop in loops.values()][:6],
        [0, 1, 1, 2, 2, 3],
        cause=[
            (is_value([0, 1, 1, 0, 0, 1]), "`relu`, in the list of `cat`, is an input too"),
            (is_value([0, 1, 1, 2, 3, 4]), "`cat` and `mm` have no loop: it doesn't change"),
        ],
        hint="it changes from `x` to `neg`, from `relu` to `cat`, and from `mm` to `neg`",
    )


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


def test_a_barrier_begins_an_epoch(lesson):
    function = lambda x, y: (a := x.neg(), y.add_(1), a.exp(), y.mul_(2), a.abs())
    graph = flat(lesson, function, *inputs(3)).graph
    loops = {node.name: loop for node, loop in lesson.loops_of(graph).items()}
    first, second, third = (loops[name].epoch for name in ("neg", "exp", "abs_1"))
    words = "each write to `y` is a barrier for all nodes after it: count them"
    equal((first, second > first, third > second), (0, True, True), hint=words)
    equal(loops["exp"].level, 1, hint="a level is for another shape, and an epoch for a barrier")


def test_a_node_joins_the_loop_of_its_users(lesson):
    def function(x, y):
        a = y.relu()
        return x.exp().mm(x) + a.neg() * a

    graph = flat(lesson, function, *inputs(3, 3)).graph
    loops = lesson.loops_of(graph)
    lesson.join_users(graph, loops)
    levels = {node.name: loop.level for node, loop in loops.items()}
    equal(
        [levels[name] for name in ("exp", "relu", "neg", "mul", "add")],
        [1, 3, 3, 3, 3],
        cause=[
            (
                is_value([1, 1, 1, 3, 3]),
                "`neg` was asked before `mul`: go from the last node to the first",
            ),
            (is_value([1, 1, 3, 3, 3]), "both users of `relu` are in the loop of `add`"),
            (is_value([1, 1, 1, 1, 3]), "the dict `loops` itself has to be changed"),
            (is_value([2, 4, 4, 4, 4]), "`exp` took the loop of `mm`, of another shape: `None`"),
        ],
    )


STAYS = {
    "its users have several loops": (
        lambda x, y: ((a := x.exp()).mm(x).relu() + a, a.neg()),
        inputs(3, 3),
        "exp",
    ),
    "its users have several levels": (
        lambda x, y: (b := (a := x.relu()) + (n := y.exp()).mm(n), a * b.mm(b)),
        inputs(3, 3),
        "relu",
    ),
    "the graph returns it": (lambda x, y: (a := x.exp(), y.neg().mm(y) + a), inputs(3, 3), "exp"),
    "it runs over (4, 1), and its user over (4, 3)": (
        lambda row, x: row.neg() + x,
        (torch.ones(4, 1), torch.ones(4, 3)),
        "neg",
    ),
}


@pytest.mark.parametrize("reason", STAYS)
def test_a_node_with_other_users_stays_in_its_loop(lesson, reason):
    function, args, name = STAYS[reason]
    graph = flat(lesson, function, *args).graph
    before = lesson.loops_of(graph)
    loops = dict(before)
    lesson.join_users(graph, loops)
    (node,) = (node for node in graph.nodes if node.name == name)
    moved = lambda got: got in before.values()
    equal(loops[node], before[node], cause=(moved, f"`{name}` moved, but {reason}"))


def test_a_value_that_leaves_does_not_come_back_to_its_kernel(lesson):
    def function(x):
        a = x.neg().relu()
        return a.mm(a) + a * 2

    module = flat(lesson, function, torch.ones(3, 3))
    loops = lesson.loops_of(module.graph)
    lesson.join_users(module.graph, loops)
    at = {node.name: loop for node, loop in loops.items()}
    words = "`relu` and `mul` have different loops: group by the whole loop, with its level"
    cause = (lambda error: "cycle" in str(error) and at["neg"] == at["relu"] != at["mul"], words)
    with noting(cause=cause, on=(RuntimeError,)):
        found = lesson.kernels(module)
    equal([operators(each) for each in found], [["neg", "relu"], ["mm"], ["mul", "add"]])


@pytest.mark.parametrize(
    ("size", "joins", "cause"),
    [
        (3, True, "`sum` didn't join `sub`, whose loop runs over (4, 3), too"),
        (1, False, "`sum` runs over (4, 3), though its result has the shape of its user's loop"),
    ],
    ids=["the same loop", "another loop"],
)
def test_a_reduction_joins_only_a_user_with_a_loop_like_its_own(lesson, size, joins, cause):
    def function(x, w):
        return x.relu().mm(w).neg() - x.sum(-1, keepdim=True)

    module = flat(lesson, function, torch.ones(4, 3), torch.ones(3, size))
    found = [operators(each) for each in lesson.kernels(module)]
    groups = {
        True: [["relu"], ["mm"], ["neg", "sum", "sub"]],
        False: [["relu", "sum"], ["mm"], ["neg", "sub"]],
    }
    equal(
        found,
        groups[joins],
        cause=(is_value(groups[not joins]), cause),
        hint="what counts is the shape of the two loops",
    )


def test_the_shape_of_a_kernel_is_that_of_its_loop(lesson):
    def spread(x):
        return (x - x.mean(-1, keepdim=True)).abs().mean(-1, keepdim=True)

    kernel = only_kernel(lesson, spread, torch.ones(4, 3))
    words = "its first and last nodes have one number per row, but its loop has columns"
    cause = (is_value((4, 1)), words)
    equal(kernel.shape, (4, 3), cause=cause, hint="set the `shape` of each kernel: its loop's")


def test_a_single_node_is_a_partition_that_is_not_fused(lesson):
    module = flat(lesson, lambda x: torch.relu(x).mm(x).mm(x).tanh(), torch.ones(3, 3))
    found = [(operators(each), each.is_fused, each.shape) for each in lesson.kernels(module)]
    single = [("relu", (3, 3)), ("mm", ()), ("mm", ()), ("tanh", (3, 3))]
    cause = (
        lambda got: got[1][0] == ["mm", "mm"],
        "both `mm` are in one partition: a node without a loop is one of its own",
    )
    equal(found, [([name], False, shape) for name, shape in single], cause=cause)


def test_a_kernel_knows_what_enters_and_what_leaves(lesson):
    def function(x, y):
        a = torch.relu(x + y)
        return a.mm(y), a.neg()

    (kernel,) = kernels(lesson, function, *inputs(3, 3))
    equal(
        [node.name for node in kernel.outputs],
        ["relu", "neg"],
        cause=(is_value([]), "`collect_crossings` of the lesson `split_module` notes them"),
    )
    equal(len(kernel.inputs), 2)


def test_each_partition_comes_after_those_that_it_needs(lesson):
    def function(x, y):
        return y.relu() + x.neg().exp().mm(x)

    found = lesson.kernels(flat(lesson, function, *inputs(3, 3)))
    equal(
        [operators(each) for each in found],
        [["neg", "exp"], ["mm"], ["relu", "add"]],
        cause=[
            (
                is_value([["relu", "add"], ["neg", "exp"], ["mm"]]),
                "`add` needs `mm`: `order_partitions` knows, once `collect_crossings` has run",
            ),
            (
                is_value([["relu", "neg", "exp"], ["mm"], ["add"]]),
                "`relu` isn't in the loop of its only user: `join_users` moves it there",
            ),
        ],
    )


@pytest.mark.parametrize("seed", range(10))
def test_the_partitions_of_a_random_program_can_run_in_their_order(lesson, seed):
    can_run_in_this_order(lesson.kernels(flat(lesson, random_program(seed), *inputs(4, 4))))


def neighbours(x, y):
    return x.neg() * 2, y.neg() * 3


@pytest.mark.parametrize(
    ("function", "args", "count"),
    [
        (block, inputs(4, 3), 14),
        (two_results, inputs(4, 3), 5),
        (neighbours, inputs(3), 4),
    ],
    ids=["a norm and a softmax", "after a reduction", "neighbours"],
)
def test_one_loop_runs_all_that_it_can(lesson, function, args, count):
    words = "all five nodes run over (4, 3), so the level is the same"
    equal(counts(lesson, function, *args), [count], cause=(is_value([3, 2]), words))


@pytest.mark.parametrize(
    ("function", "args", "cause"),
    [
        (
            neighbours,
            (torch.ones(3), torch.ones(4)),
            "a loop over 3 elements and one over 4 are one kernel",
        ),
        (
            lambda x, y: x.exp().sum(-1, keepdim=True) * y + y,
            (torch.ones(4, 5), torch.ones(4, 3)),
            "both loops have 4 rows, but one has 5 columns and the other has 3",
        ),
        (
            written_between,
            inputs(3),
            "nodes from both sides of the write `y.add_(1)` are in one kernel",
        ),
    ],
    ids=["another shape", "other columns", "a write"],
)
def test_two_kernels_stay_apart(lesson, function, args, cause):
    equal(counts(lesson, function, *args), [2, 2], cause=(is_value([4]), cause))


def test_a_value_from_before_a_write_is_computed_before_it(lesson):
    equal(
        [operators(each) for each in kernels(lesson, written_after, *inputs(3))],
        [["exp", "mul", "add"]],
        cause=(
            is_value([["neg", "exp", "mul", "add"]]),
            "`neg` moved past the write: compare the epochs too",
        ),
    )


# --- step 3: the passes over a row ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (two_results, [["mul", "sum_1", "mul_1", "add"], ["div"]]),
        (kept_for_long, [["amax", "mul"], ["sub", "exp", "sum_1"], ["div", "add"]]),
        (
            lambda x, y: x - x.mean(-1, keepdim=True) - y.neg().mean(-1, keepdim=True),
            [["mean", "neg", "mean_1"], ["sub", "sub_1"]],
        ),
        (lambda x, y: x.neg() + y.amin(-1, keepdim=True), [["neg", "add"]]),
        (lambda x, y: (x - y.amin(-1, keepdim=True)).exp(), [["sub", "exp"]]),
    ],
    ids=["two_results", "kept_for_long", "two_means", "row_from_outside", "nothing_besides"],
)
def test_a_node_that_uses_a_row_waits_for_the_next_pass(lesson, function, expected):
    kernel = only_kernel(lesson, function, *inputs(4, 3))
    found = [[node.name for node in nodes] for nodes in lesson.phases(kernel)]
    cause = [
        (len(found) < len(expected), "a node uses a row before the pass has computed it"),
        (is_value([["neg"], ["add"]]), "`amin` isn't in the kernel: its rows are there before"),
        (lambda got: got[1] == ["mul_1", "add"], "`mul_1` has a value per row: it doesn't wait"),
        (lambda got: "mul" in got[2], "`mul` uses no row, so it can run in the first pass"),
        (lambda got: got[2] == ["sub_1"], "`sub_1` can run in the pass of `sub`"),
        (lambda got: [] in got, "there is a pass without nodes"),
        (
            lambda got: [{*nodes} for nodes in got] == [{*nodes} for nodes in expected],
            "the passes are right, but the kernel has their nodes in another order",
        ),
    ]
    equal(found, expected, cause=cause)


# --- step 4: print C ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mul", ["p_x[i * columns + j]", "2.0f"]),
        ("amax", ["v_mul"]),
        ("sub", ["b_mul[j]", "v_amax"]),
        ("exp", ["v_sub"]),
        ("div", ["b_exp[j]", "v_sum_1"]),
    ],
    ids=["input and constant", "variable", "buffer and row", "same pass", "last pass"],
)
def test_an_operand_is_an_input_a_constant_a_variable_or_in_a_buffer(lesson, name, expected):
    writer, nodes = writer_of(lesson, softmax, torch.ones(4, 3))
    (x,) = writer.kernel.inputs
    operands = [a for a in nodes[name].args if not isinstance(a, list | bool)]
    found = [writer.operand(nodes[name], each) for each in operands]
    row = {"b_amax[j]", "b_sum_1[j]"}
    equal(
        [text.replace(f"p_{x.name}", "p_x") for text in found],
        expected,
        cause=[
            (lambda got: row & {*got}, "a value per row has no buffer: its variable is outside"),
            (is_value(["b_mul[j]"]), "`mul` is of the same pass: its variable is still there"),
            (is_value(["v_mul", "v_amax"]), "`mul` is of an earlier pass: read its buffer"),
            (lambda got: "s_" in got[1], "a reduction's value is in `v_…`, once it is complete"),
        ],
    )


def test_an_operand_may_be_a_node_of_torch(lesson):
    module = make_fx(lambda x: x.neg() * 2, tracing_mode="fake")(torch.ones(3))
    kernel = lesson.kernels(module)[0]
    neg, mul = kernel.nodes
    equal(lesson.CWriter(kernel).operand(mul, neg), "v_neg")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((4, 3), "[i * columns + j]"), ((4, 1), "[i]"), ((3,), "[j]"), ((1, 1), "[0]")],
    ids=["whole", "row", "column", "single"],
)
def test_an_input_is_read_at_its_place(lesson, shape, expected):
    args = torch.ones(4, 3), torch.ones(shape)
    writer, nodes = writer_of(lesson, lambda x, y: x.neg() + y, *args)
    _, y = writer.kernel.inputs
    equal(writer.operand(nodes["add"], y), f"p_{y.name}{expected}")


def test_a_value_that_another_partition_made_is_an_input(lesson):
    module = flat(lesson, lambda x: x.mm(x).relu() + 1, torch.ones(3, 3))
    kernel = lesson.kernels(module)[-1]
    relu, (mm,) = kernel.nodes[0], kernel.inputs
    found = lesson.CWriter(kernel).operand(relu, mm)
    equal(found, f"p_{mm.name}[i * columns + j]", hint="what isn't in `phase` comes from outside")


def test_a_reduction_reads_an_input_at_its_place_in_the_loop(lesson):
    writer, nodes = writer_of(lesson, means, *inputs(4, 3, count=1))
    (x,) = writer.kernel.inputs
    with noting(
        cause=(
            lambda error: f"{error.args[0]}" == "None",
            "`place` was asked about the node's shape",
        ),
        hint="the loop runs over `self.kernel.shape`",
        on=(KeyError,),
    ):
        found = writer.in_loop(nodes["mean"])
    equal(found, [f"s_mean += p_{x.name}[i * columns + j];"])


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (chain, []),
        (kept_for_long, ["exp", "mul"]),
        (stored_and_read, ["mul"]),
        (lambda x, y: (y * 2).sum(-1, True) * 3 + x, []),
    ],
    ids=["one pass", "the next and the one after", "output", "per row"],
)
def test_a_value_per_column_is_kept_for_a_later_pass(lesson, function, expected):
    writer, nodes = writer_of(lesson, function, *inputs(4, 3))
    kept = [name for name, node in nodes.items() if writer.is_kept(node)]
    rows = {n for n, node in nodes.items() if node.meta["val"].shape != writer.kernel.shape}
    equal(
        kept,
        expected,
        cause=[
            (lambda got: rows & {*got}, "a value per row needs no buffer"),
            (
                lambda got: {*got} < {*expected},
                "a later pass needs the value, and its variable is gone at the next column",
            ),
            (lambda got: {*got} > {*expected}, "a buffer is only for what a later pass uses"),
        ],
    )


def test_a_reduction_takes_a_step_for_each_column(lesson):
    writer, nodes = writer_of(lesson, softmax, torch.ones(4, 3))
    equal(
        [line for name in ("sum_1", "amax") for line in writer.in_loop(nodes[name])],
        ["s_sum_1 += v_exp;", "s_amax = max_(s_amax, v_mul);"],
        cause=(
            lambda got: "+=" in str(got[1:]),
            "each reduction has its own step, in `REDUCTIONS`",
        ),
    )


def test_a_value_is_computed_kept_and_stored(lesson):
    writer, nodes = writer_of(lesson, stored_and_read, *inputs(4, 3))
    computed, *moved = writer.in_loop(nodes["mul"])
    equal(computed.split("=")[0].strip(), "const float v_mul")
    equal(sorted(moved), ["b_mul[j] = v_mul;", "o_mul[i * columns + j] = v_mul;"])
    cause = (lambda got: "o_mul_1" in str(got), "`mul_1` isn't an output: `store` knows them")
    equal(writer.in_loop(nodes["mul_1"])[1:], [], cause=cause)


def test_a_row_has_its_lines_after_the_loop(lesson):
    writer, nodes = writer_of(lesson, means, *inputs(4, 3, count=1))
    printed = ["const float v_mean = s_mean / columns;", "o_mean[i] = v_mean;"]
    cause = [
        (lambda got: got[0] == "const float v_mean = s_mean;", "a mean's `result` is divided"),
        (lambda got: "columns + j" in got[1], 'a value per row is stored at the place `"row"`'),
    ]
    equal(writer.after_loop(nodes["mean"]), printed, cause=cause)
    words = "a value per row is computed once, after the loop over the columns"
    equal(writer.in_loop(nodes["add"]), [], cause=(bool, words))
    *_, stored = writer.after_loop(nodes["add"])
    equal(stored, "o_add[i] = v_add;")


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_printed_c_computes_what_eager_does(lesson, name):
    computes_what_eager_does(lesson, name)


# --- step 5: a graph that calls the kernels -------------------------------------------------------


def lowered(lesson, function, *args):
    return lesson.lower(flat(lesson, function, *args))


CALLED = {
    around: ["kernel", "mm", "kernel_1"],
    two_results: ["kernel", "getitem", "getitem_1"],
    stored_and_read: ["kernel", "getitem", "getitem_1"],
}


@needs_compiler
@pytest.mark.parametrize("function", CALLED)
def test_each_kernel_is_one_call_and_computes_what_eager_does(lesson, function):
    args = inputs(6, 6)
    expected = function(*args)
    with noting(
        cause=[
            (lambda error: str(error) == "mm", "`with_kernels` takes all partitions, in order"),
            (lambda error: "data pointer" in str(error), "an output is fake: it has no data"),
            (lambda error: "'list'" in str(error), "a single output is in a list"),
        ],
        on=(KeyError, RuntimeError),
    ):
        module = lowered(lesson, function, *args)
        found = module(*args)
    calls = [node.name for node in module.graph.nodes if node.op.startswith("call")]
    words = "the `__name__` of the function that `launcher` returns names its calls"
    equal(calls, CALLED[function], cause=(lambda got: "kernel" not in got, words))
    shapes = [each.shape for each in expected]
    words = "an output has the shape of its node, which isn't always the loop's"
    same_numbers(found, expected, cause=(lambda got: [each.shape for each in got] != shapes, words))


def test_a_flat_kernel_is_called_for_long_rows(lesson):
    """Rows of a flat kernel may be cut anywhere, so that threads can share a vector."""
    kernel, seen = only_kernel(lesson, chain, *inputs(20_000)), []
    lesson.launcher(kernel, lambda threads, *sizes: seen.extend(sizes[:3]))(*inputs(20_000))
    equal(
        dict(zip(["rows", "columns", "size"], [each.value for each in seen], strict=True)),
        {"rows": 2, "columns": 16384, "size": 20_000},
        cause=(lambda got: got["columns"] == 20_000, "the columns are those of the shape"),
        hint="pass on `kernel.columns`",
    )


@needs_compiler
def test_each_call_has_new_outputs(lesson):
    module = lowered(lesson, chain, *inputs(3))
    first, second = module(*inputs(3)), module(*inputs(3)[::-1])
    same_numbers(
        first.clone(),
        chain(*inputs(3)),
        cause=(
            first.data_ptr() == second.data_ptr(),
            "both calls write to the same tensors: make the outputs for each call",
        ),
    )


@pytest.mark.parametrize("other", [{"dtype": torch.float64}, {"device": "meta"}], ids=str)
def test_the_outputs_are_float32_on_the_cpu_whatever_is_the_default(lesson, other):
    args = inputs(3)
    launch = lesson.launcher(only_kernel(lesson, chain, *args), lambda *_: None)
    try:
        torch.set_default_dtype(other.get("dtype", torch.float32))
        torch.set_default_device(other.get("device"))
        result = launch(*args)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    cause = (True, "the output is made with the default dtype and device, but C writes float32")
    equal((result.dtype, result.device.type), (torch.float32, "cpu"), cause=cause)


@needs_compiler
def test_all_kernels_of_a_graph_are_compiled_at_once(lesson, monkeypatch):
    find, found = given.backend.find_compiler, []
    monkeypatch.setattr(given.backend, "find_compiler", lambda: found.append(1) or find())
    lowered(lesson, around, *inputs(3, 3))
    equal(len(found), 1, hint="the compiler takes longer to start than to compile a loop")


def test_a_graph_without_a_kernel_is_returned_as_it_is(lesson):
    module = flat(lesson, lambda x: x.relu().mm(x), torch.ones(3, 3))
    words = "no node is fused, so there is nothing to compile or to call"
    equal(lesson.lower(module) is module, True, cause=(is_value(False), words))


@needs_compiler
@pytest.mark.parametrize("function", [around, stored_and_read])
def test_the_given_module_stays_as_it_is_and_its_meta_is_copied(lesson, function):
    module = flat(lesson, function, *inputs(3, 3))
    for node in module.graph.nodes:
        node.meta["seen"] = node.name
    before = [(node.name, node.args) for node in module.graph.nodes]
    result = lesson.lower(module).graph
    after = [(node.name, node.args) for node in module.graph.nodes]
    equal(after, before, cause=(bool, "`gm` itself has changed: return another module"))
    outputs = [node for node in result.nodes if node.name in ("kernel_1", "getitem_1")]
    equal([node.meta.get("seen") for node in outputs], [list(module.graph.nodes)[-2].name])
    metas = {id(node.meta) for node in module.graph.nodes}
    equal([id(node.meta) in metas for node in result.nodes], [False] * len(result.nodes))


@needs_compiler
def test_a_module_of_torch_becomes_one_of_torch(lesson):
    module = make_fx(chain, tracing_mode="fake")(*inputs(3))
    result = lesson.lower(module)
    equal([type(result.graph), type(result).__mro__[1]], [torch.fx.Graph, torch.fx.GraphModule])
    same_numbers(result(*inputs(3)), chain(*inputs(3)))


@pytest.mark.parametrize("compiler", ["none", "broken"])
def test_without_a_compiler_there_is_one_warning_and_the_graph_stays(
    lesson, compiler, tmp_path, monkeypatch
):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho out of order >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("CC", str(broken) if compiler == "broken" else "")
    if compiler == "none":
        monkeypatch.setenv("PATH", "")
    module = flat(lesson, around, *inputs(3, 3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        no_library = lambda error: "NoneType" in str(error) and "kernel_" in str(error)
        with noting(cause=(no_library, "`compiled` returned `None`"), on=(AttributeError,)):
            result = lesson.lower(module)
    messages = [str(each.message) for each in caught if each.category is RuntimeWarning]
    words = "no C compiler" if compiler == "none" else "out of order"
    equal([words in each for each in messages], [True])
    same_numbers(result(*inputs(3, 3)), around(*inputs(3, 3)))


@needs_compiler
def test_random_numbers_are_drawn_in_the_order_of_eager(lesson):
    def function(x):
        a = x + 1
        first, second = torch.rand_like(x), torch.rand_like(x)
        return (a * second).neg() + first

    module = lowered(lesson, function, torch.ones(3))
    torch.manual_seed(1)
    expected = function(torch.ones(3))
    torch.manual_seed(1)
    same_numbers(module(torch.ones(3)), expected)


@needs_compiler
def test_inputs_may_have_several_shapes(lesson):
    args = torch.ones(4, 3), torch.ones(3)
    add = lambda x, row: (x + row).relu()
    same_numbers(lowered(lesson, add, *args)(*args), add(*args))


@needs_compiler
def test_inputs_may_have_strides(lesson):
    module = lowered(lesson, chain, *inputs(3, 4))
    x, y = inputs(4, 3)
    same_numbers(
        module(x.t(), y.t()),
        chain(x.t(), y.t()),
        hint="pass on what `checked` returns: a contiguous tensor",
    )


@needs_compiler
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (torch.ones(4), "lower it"),
        (torch.ones(3, requires_grad=True), "gradient"),
    ],
    ids=["another shape", "a gradient that would be lost"],
)
def test_a_kernel_refuses_an_input_that_it_was_not_made_for(lesson, wrong, words):
    module = lowered(lesson, chain, *inputs(3))
    with refuses(ValueError, words, cause="a kernel ran on an input that wasn't `checked`"):
        module(wrong, wrong)


# --- the whole: torch.compile ---------------------------------------------------------------------


@pytest.fixture
def compiled_with(lesson, monkeypatch):
    """Compile with the lesson's backend, from a clean start."""
    # torch.compile also measures its guards, for which it fills the caches with something else.
    monkeypatch.setattr("torch._dynamo.guards.profile_guard_manager", lambda *_: 0.0, raising=False)
    yield functools.partial(compiled_by, lesson.backend)
    torch._dynamo.reset()


@needs_compiler
def test_a_compiled_function_computes_what_eager_does(compiled_with):
    """Both sizes are symbolic."""

    def function(x, y):
        return torch.softmax(x + y, -1)

    compiled = compiled_with(function, dynamic=True)
    for shape in ((6, 8), (5, 4)):
        same_numbers(compiled(*inputs(*shape)), function(*inputs(*shape)))


@needs_compiler
def test_a_compiled_model_trains(compiled_with):
    trains_as_eager(compiled_with, nn.Sequential(nn.Linear(8, 8), nn.GELU()))
