"""``capture``: the steps one by one, then whole models, compared with ``make_fx`` and export."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensor, FakeTensorMode

from tests.models.capture import (
    Asks,
    Block,
    Cached,
    Catches,
    Net,
    Remembers,
    Structured,
    Twice,
    as_make_fx,
    aten,
    exports,
    hooks,
    operators,
    pure,
    recorded,
    run,
    runs_as_eager,
    same_operators,
    same_stacks,
    stacks,
    watched,
    written_as_eager,
)
from tests.suite import equal, holds, is_value, refuses, same_numbers
from tests.suite.programs import default_decompositions
from tests.suite.versions import that_run
from tests.zoo import SMALL, resnet18

NO_LINE = (
    lambda error: error is not None and "test_capture.py" not in str(error),
    "the message doesn't name the model's line",
)


# --- step 1: record what is dispatched ------------------------------------------------------------


def test_a_recorded_node_takes_nodes_instead_of_tensors(lesson):
    def function():
        x = torch.ones(2)
        torch.add(x, x, alpha=3)

    ones, add = recorded(lesson, function).graph.nodes
    equal((str(add.target), add.args, add.kwargs), ("aten.add.Tensor", (ones, ones), {"alpha": 3}))


def test_a_recorded_node_takes_nodes_as_keywords_too(lesson):
    def function():
        x, order = torch.ones(3), torch.arange(3)
        torch.searchsorted(x, x, sorter=order)

    _, arange, search = recorded(lesson, function).graph.nodes
    holds(
        search.kwargs == {"sorter": arange},
        f"the keyword `sorter` to be the node {arange}",
        got=search.kwargs,
        cause=(lambda got: isinstance(got["sorter"], torch.Tensor), "the keyword is a tensor"),
    )


def test_a_node_has_the_name_of_its_operator(lesson):
    nodes = recorded(lesson, lambda: torch.ones(2).add(1).add(2)).graph.nodes
    equal([node.name for node in nodes], ["ones", "add", "add_1"])


def test_a_node_knows_the_shape_and_strides_of_its_result(lesson):
    graph = recorded(lesson, lambda: torch.ones(2, 3).t()).graph
    value = graph.output_node().meta["val"]
    equal((value.shape, value.stride()), (torch.Size([3, 2]), (1, 3)))


def test_the_val_of_a_node_is_detached(lesson):
    graph = recorded(lesson, lambda: torch.ones(2, requires_grad=True) * 2).graph
    holds(
        not graph.output_node().meta["val"].requires_grad,
        'a detached tensor in `meta["val"]`',
        hint="detach the `val` that you keep: copying the graph can't copy autograd's graph",
    )


def test_each_tensor_in_a_val_is_detached(lesson):
    def function():
        (torch.ones(4, requires_grad=True) * 2).split(2)

    (split,) = (node for node in recorded(lesson, function).graph.nodes if node.name == "split")
    needs = [each.requires_grad for each in split.meta["val"]]
    cause = (is_value([True, True]), "the tensors in a list weren't detached")
    equal(needs, [False, False], cause=cause)


def test_each_of_several_results_has_its_own_node(lesson):
    def function():
        low, high = torch.aminmax(torch.ones(3))
        high - low

    calls = operators(recorded(lesson, function).graph)
    equal(calls[2:4], ["<built-in function getitem>"] * 2)


def test_an_item_is_taken_at_its_position(lesson):
    def function():
        torch.arange(6.0).split(2)[1] * 2

    *_, split, zero, one, two, mul = recorded(lesson, function).graph.nodes
    equal([each.args for each in (zero, one, two)], [(split, 0), (split, 1), (split, 2)])
    equal(mul.args, (one, 2))


def test_an_item_after_a_none_is_taken_at_its_position(lesson):
    def function():
        x, weight = torch.ones(1, 2, 3, 3), torch.ones(2, 2, 1, 1)
        sizes = ([2], [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
        aten.convolution_backward(x, x, weight, *sizes, [False, True, True])

    nodes = recorded(lesson, function).graph.nodes
    positions = [node.args[1] for node in nodes if node.name.startswith("getitem")]
    cause = (is_value([0, 1]), "the positions count only the tensors, and the first item is None")
    equal(positions, [1, 2], cause=cause)


def test_a_constant_has_one_node_however_often_it_is_used(lesson):
    scale = torch.tensor([2.0, 3.0])

    def function():
        (torch.ones(2) * scale + scale) * scale

    graph = recorded(lesson, function).graph
    nodes = graph.find_nodes(op="get_attr")
    equal(len(nodes), 1)
    stack = nodes[0].meta.get("nn_module_stack")
    equal(stack, {}, cause=(is_value(None), "the node of a constant has no stack of modules"))


def test_two_constants_have_two_nodes(lesson):
    one, two = torch.tensor([1.0]), torch.tensor([2.0])
    recorder = recorded(lesson, lambda: torch.ones(1) * one + two)
    nodes = recorder.graph.find_nodes(op="get_attr")
    same_numbers([recorder.constants[node.target] for node in nodes], [one, two])


def test_a_detached_tensor_has_the_node_of_its_source(lesson):
    def function():
        torch.ones(2).detach() * 2

    ones, mul = recorded(lesson, function).graph.nodes
    equal((ones.name, mul.args), ("ones", (ones, 2)))


def test_asking_for_the_device_records_nothing(lesson):
    def function():
        x = torch.ones(2)
        torch.zeros(2, device=x.device)[0]

    names = ["aten.ones.default", "aten.zeros.default", "aten.select.int"]
    equal(operators(recorded(lesson, function).graph), names)


def test_a_fake_tensor_of_another_run_is_refused(lesson):
    with FakeTensorMode():
        foreign = torch.ones(2)
    cause = [(is_value(None), "the fake tensor was taken for a constant"), NO_LINE]
    with refuses(lesson.CaptureError, "test_capture.py", cause=cause):
        recorded(lesson, lambda: torch.ones(2) + foreign)


# --- step 2: break operators into smaller ones ----------------------------------------------------


def sum_of_all(x, *, dtype=None):
    return x.reshape(-1).sum(0)


def test_a_rule_replaces_an_operator(lesson):
    recorder = recorded(lesson, lambda: torch.ones(6).sum(), {aten.sum.default: sum_of_all})
    equal(
        operators(recorder.graph),
        ["aten.ones.default", "aten.view.default", "aten.sum.dim_IntList"],
        cause=[
            (is_value(["aten.ones.default"]), "the operators that the rule calls weren't recorded"),
            (is_value(["aten.ones.default", "aten.sum.default"]), "the rule wasn't called"),
        ],
        hint="call the rule with the mode on: it is off while `__torch_dispatch__` runs",
    )


def test_a_rule_may_call_an_operator_that_has_a_rule(lesson):
    table = {
        aten.sum.default: sum_of_all,
        aten.sum.dim_IntList: lambda x, dims: x.mean(dims) * x.numel(),
    }
    recorder = recorded(lesson, lambda: torch.ones(6).sum(), table)
    holds(
        operators(recorder.graph)[2:] == ["aten.mean.dim", "aten.mul.Tensor"],
        "the operators of the second rule, which decomposes the `sum` in the first one",
        got=operators(recorder.graph),
        hint="the mode must be on while a rule runs",
    )


def test_a_rule_gets_the_keywords_of_the_call(lesson):
    table = {aten.sum.default: lambda x, *, dtype=None: x.sum(0, dtype=dtype)}
    recorder = recorded(lesson, lambda: torch.ones(6).sum(dtype=torch.half), table)
    keywords = dict(recorder.graph.output_node().kwargs)
    cause = (is_value({}), "the rule was called without the keywords")
    equal(keywords, {"dtype": torch.half}, cause=cause)


def test_a_rule_may_decline(lesson):
    table = {aten.relu.default: lambda x: NotImplemented}
    recorder = recorded(lesson, lambda: torch.ones(2).relu(), table)
    equal(operators(recorder.graph), ["aten.ones.default", "aten.relu.default"])


def test_a_call_whose_rule_declines_is_not_decomposed(lesson):
    recorder = lesson.Recorder({aten.reshape.default: lambda *_: NotImplemented})
    result = recorder.decompose(aten.reshape.default, (torch.ones(4), [2, 2]), {})
    holds(result is NotImplemented, "`NotImplemented`", got=result)


def test_an_operator_that_torch_decomposes_is_decomposed(lesson):
    recorder = recorded(lesson, lambda: torch.ones(4).reshape(2, 2), table={})
    equal(operators(recorder.graph), ["aten.ones.default", "aten.view.default"])


def test_a_tensor_made_from_numbers_is_a_constant(lesson):
    numbers = torch.tensor([1.0, 2.0])
    recorder = recorded(lesson, lambda: torch.zeros(2) + torch.tensor([1.0, 2.0]), table={})
    same_numbers(list(recorder.constants.values()), [numbers])


# --- step 3: parameters, buffers and arguments become inputs --------------------------------------


def placeholders(captured) -> list[str]:
    return [str(node.target) for node in captured.graph.find_nodes(op="placeholder")]


def test_parameters_come_first_then_buffers_then_arguments(lesson):
    recorder = lesson.Recorder({})
    model = Block().requires_grad_(False)
    state = recorder.lift_state(model)
    recorder.lift_arguments((torch.ones(1),), {})
    buffers = [name for name, _ in model.named_buffers()]
    names = [*(name for name, _ in model.named_parameters()), *buffers]
    cause = (is_value(buffers), "a parameter is an input even if it needs no gradient")
    equal(list(state), names, cause=cause)
    parameters = [f"p_{name}".replace(".", "_") for name, _ in model.named_parameters()]
    buffers = [f"b_{name}".replace(".", "_") for name, _ in model.named_buffers()]
    targets = [node.target for node in recorder.graph.nodes]
    equal(targets, [*parameters, *buffers, "input_0"])


def test_a_tied_parameter_is_one_input(lesson):
    recorder, model = lesson.Recorder({}), Net()
    recorder.lift_state(model)
    equal(
        len(placeholders(recorder)),
        len([*model.parameters(), *model.buffers()]),
        hint="a tied tensor is one input: `named_parameters` names it once",
    )


def test_a_name_that_python_does_not_allow_becomes_legal(lesson):
    recorder = lesson.Recorder({})
    recorder.lift("p_block-1.weight", torch.ones(2))
    equal(placeholders(recorder), ["p_block_1_weight"])


def test_leaves_of_containers_and_keywords_are_inputs(lesson):
    recorder, (x, y, z) = lesson.Recorder({}), torch.ones(3, 2)
    args, kwargs = recorder.lift_arguments((x, (y, 3)), {"scale": z})
    equal(placeholders(recorder), ["input_0", "input_1", "input_2", "input_3"])
    equal((len(args), args[1][1], list(kwargs)), (2, 3, ["scale"]))
    lifted = [recorder.node_of(each).name for each in (args[0], args[1][0], kwargs["scale"])]
    equal(lifted, ["input_0", "input_1", "input_3"])
    value = recorder.graph.find_nodes(op="placeholder")[2].meta.get("val")
    equal(value, 3, cause=(is_value(None), "the placeholder of the number isn't bound to it"))


def test_an_input_keeps_its_strides(lesson):
    lifted = lesson.Recorder({}).lift("x", torch.ones(2, 3).t())
    equal(lifted.stride(), (1, 3), cause=(is_value((2, 1)), "the copy is contiguous"))


def test_the_output_has_the_structure_of_the_result(lesson):
    recorder = lesson.Recorder({})
    x = recorder.lift("x", torch.ones(2))
    recorder.finish({"sum": x, "rest": [x, (3, None)]})
    (result,) = recorder.graph.output_node().args
    node = recorder.node_of(x)
    holds(result == {"sum": node, "rest": [node, (3, None)]}, "the same with nodes", got=result)


def test_a_function_has_no_state(lesson):
    recorder = lesson.Recorder({})
    equal((recorder.lift_state(torch.relu), placeholders(recorder)), ({}, []))


def test_a_node_that_no_output_needs_is_erased(lesson):
    recorder = recorded(lesson, lambda: torch.ones(1).sin().cos())
    ones, *_ = recorder.graph.nodes
    recorder.finish(next(each.tensor for each in recorder.values.values() if each.node is ones))
    left = ["aten.ones.default"]
    cause = (is_value([*left, "aten.sin.default"]), "only `cos` used `sin`, and it was erased")
    equal(operators(recorder.graph), left, cause=cause)


# --- step 4: run the model, and note which module runs --------------------------------------------


def nested():
    return nn.Sequential(nn.Sequential(nn.ReLU()), nn.Tanh()), torch.ones(1)


def test_a_node_knows_the_modules_that_ran_it(lesson):
    same_stacks(watched(lesson, *nested()), exports(nested))


def test_a_function_is_the_root_of_its_nodes(lesson):
    (stack,) = stacks(watched(lesson, lambda x: x + 1, torch.ones(1)))
    equal(
        [path for path, _ in stack.values()],
        [""],
        cause=(is_value([]), "there is no item for the root, because the model is a function"),
    )


def called_twice():
    return Twice(), torch.ones(1, 2)


def test_a_second_call_has_a_number(lesson):
    graph = watched(lesson, *called_twice(), default_decompositions())
    same_stacks(graph, exports(called_twice))


def test_a_call_that_fails_leaves_the_stack(lesson):
    recorder = lesson.Recorder({})
    recorder.run(Catches(), (torch.ones(1, 2),), {})
    first = next(iter(stacks(recorder.graph)))
    holds(
        [path for path, _ in first.values()] == [""],
        "the addition after the error to belong only to the root",
        got=first,
        cause=(lambda first: "fails" in str(first), "the module that failed is still in the stack"),
        hint="with `always_call=True`, the hook also runs after an error",
    )


def test_a_module_that_is_not_in_the_tree_leaves_the_stack_alone(lesson):
    hidden = nn.Tanh()

    class Hides(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            return self.linear(hidden(x))

    paths = [
        [path for path, _ in stack.values()]
        for stack in stacks(watched(lesson, Hides(), torch.ones(1, 2)))
    ]
    equal((paths[0], paths[-1]), ([""], ["", "linear"]))


def test_hooks_are_removed_after_an_error(lesson):
    before = hooks()
    with pytest.raises(ValueError, match="as it should"):
        lesson.capture(Catches().fails, (torch.ones(1),))
    equal(hooks(), before, hint="remove the hooks in a `finally`")


def test_a_model_without_data_can_be_captured(lesson):
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(10**6, 10**6), nn.ReLU())
        captured = lesson.capture(model, (torch.ones(1, 10**6),))
    equal(captured.graph.output_node().args[0].meta["val"].shape, torch.Size([1, 10**6]))


def test_the_model_is_not_changed(lesson):
    model = Remembers()
    before = dict(vars(model))
    lesson.Recorder({}).run(model, (torch.ones(2),), {})
    holds(vars(model) == before, "the attributes that the model had", got=sorted(vars(model)))


def test_a_module_with_two_names_keeps_its_tensors(lesson):
    linear = nn.Linear(2, 2)
    model = nn.ModuleDict({"one": linear, "two": linear})
    model.forward = lambda x: model["two"](model["one"](x))
    before = {name: id(each) for name, each in model.named_parameters(remove_duplicate=False)}
    lesson.Recorder({}).run(model, (torch.ones(1, 2),), {})
    after = {name: id(each) for name, each in model.named_parameters(remove_duplicate=False)}
    equal(after, before, hint="`unchanged` restores them: keep it around the call")


def test_attention_is_recorded_as_small_operators(lesson):
    model = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    before = torch.backends.mha.get_fastpath_enabled()
    with torch.no_grad():
        captured = lesson.capture(model, (torch.ones(1, 3, 4),))
        same_operators(captured.graph, as_make_fx(model, torch.ones(1, 3, 4)))
    equal(torch.backends.mha.get_fastpath_enabled(), before)


def test_the_hooks_of_the_model_run(lesson):
    model = nn.Linear(2, 2)
    model.register_forward_hook(lambda module, args, result: result * 2)
    runs_as_eager(lesson, model, torch.ones(1, 2))


@pytest.mark.parametrize("before", [True, False])
def test_the_fast_path_of_attention_is_restored(lesson, before):
    torch.backends.mha.set_fastpath_enabled(before)
    try:
        with lesson.no_fast_path():
            during = torch.backends.mha.get_fastpath_enabled()
        equal((during, torch.backends.mha.get_fastpath_enabled()), (False, before))
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def test_after_an_error_the_model_can_still_be_captured(lesson):
    model = Catches()
    with pytest.raises(ValueError, match="as it should"):
        lesson.capture(model.fails, (torch.ones(1, 2),))
    holds(not isinstance(model(torch.ones(1, 2)), FakeTensor), "a real tensor")
    equal(torch.backends.mha.get_fastpath_enabled(), True, hint="`no_fast_path` needs a `finally`")
    runs_as_eager(lesson, model, torch.ones(1, 2))


def test_a_number_stays_a_constant(lesson):
    captured = lesson.capture(lambda x, n: x * n, (torch.ones(2), 3))
    same_numbers(captured(torch.ones(2), 3), torch.full((2,), 3.0))


def test_the_result_has_the_structure_of_eager(lesson):
    x = torch.ones(2)
    result = lesson.capture(Structured(), (x, (x, x)), {"scale": x})(x, x, x, x)
    equal((list(result), result["rest"][1][1:]), (["sum", "rest"], (3, None)))


def test_a_new_tensor_is_not_taken_for_a_deleted_one(lesson):
    def function(x):
        for number in range(100):
            x = x.sin().cos() + torch.tensor([1.0, 2.0, number])
        return x

    runs_as_eager(lesson, function, torch.ones(3))


def activated():
    return nn.Sequential(nn.Linear(3, 3), nn.Hardswish()), torch.ones(1, 3)


def test_the_table_may_be_torchs_own(lesson):
    table = torch.export.default_decompositions()
    model, x = activated()
    captured = lesson.capture(model, (x,), table=table)
    same_operators(captured.graph, operators(exports(activated)))


def branches(x):
    return x if x.sum() > 0 else -x


def items(x):
    return x * x.max().item()


def lists(x):
    return x * x.tolist()[0]


def sizes(x):
    return torch.nonzero(x)


def masks(x):
    return x[x > 0]


ASKING = (branches, items, lists, sizes, masks)


@pytest.mark.parametrize("function", ASKING, ids=lambda each: each.__name__)
def test_the_error_names_the_line_that_asks_for_data(lesson, function):
    line = inspect.getsourcelines(function)[1] + 1
    with refuses(
        lesson.CaptureError,
        f"test_capture.py:{line}",
        function.__name__,
        cause=NO_LINE,
        hint="raise the error that `failure` returns",
    ):
        lesson.capture(function, (torch.ones(3),))


def test_a_model_may_ask_for_shapes(lesson):
    for size in (2, 3):
        runs_as_eager(lesson, Asks(), torch.zeros(size))


# --- step 5: a write becomes a new value ----------------------------------------------------------


def test_a_write_is_recorded_as_the_operator_that_returns_the_result(lesson):
    recorder = recorded(lesson, lambda: torch.zeros(2).add_(1).relu_())
    equal(operators(recorder.graph)[1:], ["aten.add.Tensor", "aten.relu.default"])


def test_a_write_in_place_returns_the_tensor_that_it_wrote(lesson):
    def function(x):
        y = x * 2
        holds(y.add_(1) is y, "`y.add_(1)` to return `y` itself")
        return y

    runs_as_eager(lesson, function, torch.ones(2))


def test_a_rule_for_the_pure_operator_replaces_a_write(lesson):
    def function():
        nn.functional.silu(torch.ones(2), inplace=True)

    table = {aten.silu.default: lambda x: x * x.sigmoid()}
    names = operators(recorded(lesson, function, table).graph)[1:]
    cause = (is_value(["aten.silu.default"]), "the rule for `silu` wasn't used")
    equal(names, ["aten.sigmoid.default", "aten.mul.Tensor"], cause=cause)


def test_the_pure_operator_takes_the_same_arguments(lesson):
    recorder = lesson.Recorder({})
    pairs = {
        aten.add_.Scalar: aten.add.Scalar,
        aten.add_.Tensor: aten.add.Tensor,
        aten.fill_.Tensor: aten.fill.Tensor,
        aten.transpose_.default: aten.transpose.int,
        aten.bernoulli_.float: aten.bernoulli.p,
    }
    for written, returned in pairs.items():
        equal(str(recorder.functional(written)), str(returned))


def test_the_pure_operator_has_the_same_namespace(lesson):
    library = torch.library.Library("kata", "FRAGMENT")
    library.define("relu_(Tensor(a!) self) -> Tensor(a!)")
    library.define("relu(Tensor self) -> Tensor")
    operator = lesson.Recorder({}).functional(torch.ops.kata.relu_.default)
    cause = (is_value("aten.relu.default"), "the operator was looked up in `aten`")
    equal(str(operator), "kata.relu.default", cause=cause)


def test_a_default_that_the_pure_operator_lacks_is_passed(lesson):
    recorder = recorded(lesson, lambda: torch.ones(2).bernoulli_(0.5))
    drawn = recorder.graph.output_node()
    holds(0.5 in (*drawn.args, *drawn.kwargs.values()), "p to be 0.5", got=drawn.args)


def test_an_argument_that_is_passed_keeps_its_value(lesson):
    drawn = recorded(lesson, lambda: torch.ones(2).bernoulli_(0.3)).graph.output_node()
    values = (*drawn.args, *drawn.kwargs.values())
    holds(0.3 in values, "p to be 0.3", got=values, hint="add no default for it")


def test_an_operator_without_a_pure_version_is_refused(lesson):
    @torch.library.custom_op("kata::add_", mutates_args=("x",))
    def add_(x: torch.Tensor) -> None:
        x.add_(1)

    def model(x):
        y = x * 2
        add_(y)
        return y

    with refuses(lesson.CaptureError, "kata.add_", cause="an operator of the same name was used"):
        lesson.capture(model, (torch.ones(2),))


def test_a_write_to_out_is_refused(lesson):
    with refuses(lesson.CaptureError, "aten.add.out", cause="another operator was used"):
        lesson.capture(lambda x: torch.add(x, 1, out=torch.empty(3)), (torch.ones(3),))


def written_through_a_row(x):
    y = x * 2
    y[1].add_(10)
    return y


def read_before_the_write(x):
    y = x * 2
    row = y[1]
    y.add_(10)
    return row + 0, y


def seen_in_another_view(x):
    y = x * 2
    row, flat = y[0], y.view(-1)
    row.mul_(3)
    return flat + 1, y, row


def seen_twice(x):
    y = x * 2
    row = y[0]
    first = row.add_(1) + 0
    second = row.add_(1) + 0
    return first, second, y


def kept_dtype(x):
    y = x.half()
    y.add_(x / 3)
    return y, y + y


def strided(x):
    y = (x * 2)[:, ::2]
    y.add_(1)
    row = y[1]
    y.mul_(2)
    return row, y


def transposed_source(x):
    y = x * 2
    y.copy_(x.t())
    row = y[0]
    y.add_(1)
    return row, y


def turned(x):
    y = x * 2
    y.t_()
    y[0].add_(5)
    return y, y.t()


WRITTEN = (
    *(written_through_a_row, read_before_the_write, seen_in_another_view, seen_twice),
    *(kept_dtype, strided, transposed_source, turned),
)


@pytest.mark.parametrize("function", WRITTEN, ids=lambda each: each.__name__)
def test_every_view_shows_a_write(lesson, function):
    captured = runs_as_eager(lesson, function, torch.arange(9.0).view(3, 3))
    pure(captured.graph)


def test_a_view_of_the_input_shows_a_write(lesson):
    def function(x):
        row = x[0]
        x.add_(1)
        return row * 2

    captured = lesson.capture(function, (torch.zeros(2, 2),))
    same_numbers(run(captured, None, torch.zeros(2, 2)), torch.full((2,), 2.0))


def test_an_input_with_gaps_between_its_columns_may_be_written(lesson):
    def function(x):
        row = x[1]
        x.add_(1)
        return row * 2

    x = torch.arange(12.0).view(3, 4)[:, ::2]
    captured = lesson.capture(function, (x,))
    same_numbers(captured(x), torch.tensor([10.0, 14.0]))


def test_a_view_is_read_again_only_after_a_write(lesson):
    def function(x):
        row = x[0]
        return row + row, x.view(-1) + 1

    names = operators(lesson.capture(function, (torch.ones(2, 2),)).graph)
    equal(names, ["aten.select.int", "aten.add.Tensor", "aten.view.default", "aten.add.Tensor"])


def test_after_a_write_a_view_is_read_again_once(lesson):
    def function():
        x = torch.ones(2, 2)
        row = x[0]
        x.add_(1)
        row * 2, row * 3

    names = operators(recorded(lesson, function).graph)
    cause = (is_value(2), "the node of the view wasn't refreshed, so each use reads it again")
    equal(names.count("aten.as_strided.default"), 1, cause=cause)


def test_transposing_in_place_is_not_a_write(lesson):
    def function(x):
        y = x * 2
        row = y[0]
        y.t_()
        return row + 1, y + 1

    names = operators(lesson.capture(function, (torch.ones(2, 3),)).graph)
    equal(
        "aten.as_strided.default" in names,
        False,
        cause=(is_value(True), "`t_` was taken for a write, so the row was read again"),
        hint="such an operator has the tag `torch.Tag.inplace_view`",
    )


def test_a_write_that_eager_refuses_is_refused(lesson):
    with refuses(RuntimeError, "broadcast", cause="the write was recorded"):
        lesson.capture(lambda x: x.add_(torch.ones(3, 2)), (torch.ones(2),))


@pytest.mark.parametrize("written", ["bits", "floats"])
def test_a_write_to_memory_that_has_two_dtypes_is_refused(lesson, written):
    def model(x):
        floats = x * 2
        bits = floats.view(torch.int32)
        (bits if written == "bits" else floats).add_(1)
        return bits, floats

    with refuses(lesson.CaptureError, cause="`as_strided` read memory of one dtype as the other"):
        lesson.capture(model, (torch.ones(2),))


def test_a_write_to_memory_that_is_read_negated_is_refused(lesson):
    def model(x):
        y = x * 2
        torch.view_as_complex(y).conj().imag.mul_(2)
        return y

    with refuses(lesson.CaptureError, cause="`as_strided` read a negated view without its sign"):
        lesson.capture(model, (torch.ones(3, 2),))


@pytest.mark.parametrize("seed", range(12))
def test_a_random_program_of_views_and_writes_computes_what_eager_does(lesson, seed):
    written_as_eager(lesson, seed)


# --- whole models ---------------------------------------------------------------------------------


QUICK = that_run([name for name in SMALL if name not in ("AnyDefault", "KeywordOnly", "Constants")])


@pytest.mark.parametrize("name", QUICK)
def test_a_small_model_has_the_operators_that_make_fx_records(lesson, name):
    model, inputs, kwargs = vars(SMALL[name]()).values()
    with torch.no_grad():
        captured = lesson.capture(model, inputs, kwargs)
        same_operators(captured.graph, as_make_fx(model, *inputs, **kwargs))


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_a_block_computes_what_eager_does(lesson, training):
    model = Block().train(training)
    x = torch.rand(2, 3, 4, 4)
    captured = lesson.capture(model, (x,))
    same_numbers(run(captured, model, x), model(x).detach())


def test_a_batch_norm_in_training_writes_nothing(lesson):
    recorder = lesson.Recorder({})
    recorder.run(Block().train(), (torch.rand(2, 3, 4, 4),), {})
    pure(recorder.graph)


def test_autograd_changes_nothing(lesson):
    model, x = Block().eval(), torch.rand(1, 3, 4, 4)
    with torch.no_grad():
        without = operators(lesson.capture(model, (x,)).graph)
    equal(operators(lesson.capture(model, (x,)).graph), without)


def headline():
    specimen = resnet18()
    return specimen.model, *specimen.inputs


def test_resnet18_has_the_operators_and_modules_of_torch_export(lesson):
    model, *inputs = headline()
    program = lesson.program(model, tuple(inputs), table=default_decompositions())
    same_operators(program.graph, operators(exports(headline)))
    same_stacks(program.graph, exports(headline))


def net():
    return Net().eval(), torch.ones(1, 3, 4, 4)


def test_a_net_has_the_module_stacks_of_export(lesson):
    graph = watched(lesson, *net(), default_decompositions())
    same_stacks(graph, exports(net))


def test_a_net_with_a_tied_parameter_runs(lesson):
    model = Net().eval()
    captured = runs_as_eager(lesson, model, torch.ones(1, 3, 4, 4))
    state = len(list(model.parameters())) + len(list(model.buffers()))
    equal(len(placeholders(captured)), state + 1)


def test_parameters_and_buffers_keep_their_tensors(lesson):
    model = Block().train()
    before = {name: (id(each), each.clone()) for name, each in model.state_dict().items()}
    tensors = {name: id(each) for name, each in model.named_parameters()}
    lesson.capture(model, (torch.ones(2, 3, 4, 4),))
    equal({name: id(each) for name, each in model.named_parameters()}, tensors)
    same_numbers(dict(model.state_dict()), {name: value for name, (_, value) in before.items()})


# --- step 6: a program ----------------------------------------------------------------------------


@pytest.mark.parametrize("inputs", [0, 1])
def test_constants_become_the_first_inputs(lesson, inputs):
    recorder = lesson.Recorder({})
    one, two = torch.tensor([1.0]), torch.tensor([2.0])
    recorder.finish(recorder.run(lambda *x: sum(x, one) + two, (torch.ones(1),) * inputs, {}))
    lesson.lift_constants(recorder.graph)
    names = ["_tensor_constant0", "_tensor_constant1", "input_0"]
    equal(placeholders(recorder), names[: 2 + inputs])


def test_a_constant_keeps_its_meta_as_an_input(lesson):
    recorder, scale = lesson.Recorder({}), torch.tensor([2.0])
    recorder.finish(recorder.run(lambda x: x * scale, (torch.ones(1),), {}))
    (value,) = (each.meta["val"] for each in recorder.graph.find_nodes(op="get_attr"))
    lesson.lift_constants(recorder.graph)
    after = recorder.graph.find_nodes(op="placeholder")[0].meta
    holds(
        after.get("val") is value,
        'the `meta["val"]` that the `get_attr` node had',
        got=after.get("val"),
        cause=(lambda got: got is None, "the placeholder has no `val`"),
    )


def test_a_program_says_what_each_input_is(lesson):
    model = Cached()
    specs = lesson.program(model, (torch.ones(3),)).graph_signature.input_specs
    known = {spec.target: (spec.kind.name, spec.persistent) for spec in specs if spec.target}
    equal((known["scale"], known["shift"]), (("BUFFER", True), ("BUFFER", False)))
    kinds = [spec.kind.name for spec in specs]
    equal((kinds.count("CONSTANT_TENSOR"), kinds[-1]), (1, "USER_INPUT"))
    equal(specs[-1].target, None)


def test_each_placeholder_has_its_spec(lesson):
    program = lesson.program(Block().eval(), (torch.ones(1, 3, 4, 4),))
    names = [node.name for node in program.graph.nodes if node.op == "placeholder"]
    equal([spec.arg.name for spec in program.graph_signature.input_specs], names)


def test_a_program_has_the_state_of_the_model(lesson):
    model = Cached()
    program = lesson.program(model, (torch.ones(3),))
    equal(list(program.state_dict), ["scale"])
    holds("shift" in program.constants and len(program.constants) == 2, "shift and a constant")


def prepare() -> Iterator[None]:
    """Export what the tests compare with, one model per step."""
    for make in (nested, called_twice, activated, net, headline):
        yield exports(make)
