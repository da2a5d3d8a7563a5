"""``capture``: the steps one by one, then whole models, compared with ``make_fx`` and export."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_leaves

from tests.models.capture import (
    OF_OPERATORS,
    Block,
    Cached,
    Net,
    aten,
    exports,
    hooks,
    makes_fx,
    operators,
    pure,
    recorded,
    run,
    runs_as_eager,
    same_operators,
    same_stacks,
    stacks,
    trains_as_eager,
    watched,
    with_linear,
    written_as_eager,
)
from tests.suite import equal, holds, is_value, noting, refuses, same_numbers
from tests.suite.chance import by_chance
from tests.suite.programs import default_decompositions
from tests.zoo import SMALL, Model, Pair, Survives, resnet18

NO_LINE = (
    lambda error: error is not None and "test_capture.py" not in str(error),
    "the message doesn't name the model's line",
)


# --- step 1: record what is dispatched ------------------------------------------------------------


def test_a_node_is_named_after_its_operator_without_the_overload(lesson):
    recorder = lesson.Recorder({})
    names = [recorder.add_node("call_function", aten.add.Tensor, (1, 2)).name for _ in range(2)]
    equal(
        names,
        ["add", "add_1"],
        cause=(is_value(["add_Tensor", "add_Tensor_1"]), "the name has the overload in it"),
        hint="`target.overloadpacket.__name__` is the name without the overload",
    )


def test_a_node_has_a_copy_of_the_stack_of_modules(lesson):
    recorder = lesson.Recorder({})
    recorder.running = [("L__self__", ("", "Net")), ("L__self__net", ("net", "Block"))]
    expected = dict(recorder.running)
    node = recorder.add_node("call_function", aten.add.Tensor, (1, 2))
    recorder.running.append(("L__self__net_0", ("net.0", "Linear")))
    equal(node.meta["nn_module_stack"], expected)


def test_a_tensor_is_bound_to_its_node(lesson):
    recorder, x = lesson.Recorder({}), torch.ones(2, 3, requires_grad=True).t()
    recorder.bind(x, recorder.graph.placeholder("before"))
    node = recorder.graph.placeholder("x")
    result = recorder.bind(x, node)
    holds(result is x, "`bind` to return the result itself", got=result)
    equal((node.meta["val"].shape, node.meta["val"].stride()), (x.shape, x.stride()))
    kept, bound = recorder.nodes[id(x)]
    holds(kept is x, "the tensor beside its node: it keeps the `id` from being used again")
    equal(bound, node, hint="a tensor that is bound again belongs to the new node")


def test_the_result_of_an_operator_is_bound_to_its_node(lesson):
    recorder, again = lesson.Recorder({}), []
    recorder.decompose = lambda func, args, kwargs: again.append(func) or func(*args)
    with recorder.fake_mode:
        result = recorder.record(aten.ones.default, [3])
    holds(not again, "`record` to call `func` with the mode off, so that it isn't recorded again")
    holds(id(result) in recorder.nodes, "a result that is in `nodes`: `bind` it", got=result)


def test_a_recorded_node_takes_nodes_instead_of_tensors(lesson):
    def function():
        x, order = torch.ones(3, dtype=torch.double), torch.arange(3)
        torch.searchsorted(x, torch.cat([x]), sorter=order)

    ones, arange, cat, search = recorded(lesson.Recorder, function).graph.nodes
    equal((str(search.target), search.args), ("aten.searchsorted.Tensor", (ones, cat)))
    equal(cat.args, ([ones],), hint="`as_nodes` also finds the tensors in a list")
    equal(dict(search.kwargs), {"sorter": arange})
    equal(ones.meta["val"].dtype, torch.double, hint="run the operator with its keywords, too")


@pytest.mark.parametrize("part", [lambda x: x, lambda x: x.split(2)], ids=["alone", "in a list"])
def test_the_val_of_a_node_is_detached(lesson, part):
    recorder = lesson.Recorder({})
    with recorder.fake_mode:
        node = recorder.graph.placeholder("x")
        recorder.bind(part(torch.ones(4, requires_grad=True)), node)
    holds(
        not any(each.requires_grad for each in tree_leaves(node.meta["val"])),
        'a detached tensor in `meta["val"]`',
        hint="detach the `val` that you keep: copying the graph can't copy autograd's graph",
    )


def test_each_tensor_of_a_list_has_its_own_node(lesson):
    recorder = lesson.Recorder({})
    with recorder.fake_mode:
        parts = [torch.ones(1), torch.ones(1)]
        result = recorder.bind(parts, recorder.graph.placeholder("x"))
    holds(result is parts, "`bind` to return the result itself", got=result)
    _, *items = recorder.graph.nodes
    cause = (id(parts[0]) not in recorder.nodes, "a list, such as `split` returns, has items, too")
    equal([node.name for node in items], ["getitem", "getitem_1"], cause=cause)
    equal(["val" in node.meta for node in items], [True, True], hint="`bind` each item to its node")


def test_an_item_after_a_none_is_taken_at_its_position(lesson):
    def function():
        x, weight = torch.ones(1, 2, 3, 3), torch.ones(2, 2, 1, 1)
        sizes = ([2], [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
        aten.convolution_backward(x, x, weight, *sizes, [False, True, True])

    nodes = recorded(lesson.Recorder, function).graph.nodes
    positions = [node.args[1] for node in nodes if node.name.startswith("getitem")]
    cause = (is_value([0, 1]), "the positions count only the tensors, and the first item is None")
    also = (is_value([0, 1, 2]), "the first item is None, which isn't a tensor: it needs no node")
    equal(positions, [1, 2], cause=[cause, also])


def test_a_constant_has_one_node_however_often_it_is_used(lesson):
    scale = torch.tensor([2.0, 3.0])

    def function():
        (torch.ones(2) * scale + scale) * scale

    recorder = recorded(lesson.Recorder, function)
    nodes = recorder.graph.find_nodes(op="get_attr")
    cause = (is_value(3), "each of the three uses added a node for the constant")
    equal(len(nodes), 1, cause=cause)
    found = {node.name: node.meta.get("nn_module_stack") for node in recorder.graph.nodes}
    equal(found, {name: {} for name in found})
    holds(isinstance(recorder.known(scale), FakeTensor), "its fake tensor each time, from `known`")


def test_two_constants_have_two_nodes(lesson):
    one, two = torch.tensor([1.0]), torch.tensor([2.0])
    recorder = recorded(lesson.Recorder, lambda: torch.ones(1) * one + two)
    nodes = recorder.graph.find_nodes(op="get_attr")
    kept = [recorder.constants[node.target] for node in nodes]
    fake = [each for each in kept if isinstance(each, FakeTensor)]
    holds(not fake, "the real tensors in `constants`, which have data", got=fake)
    same_numbers(kept, [one, two], hint="each constant has a name of its own")
    equal(list(recorder.constants), ["_tensor_constant0", "_tensor_constant1"])


def test_what_no_input_leads_to_is_not_detached_in_the_graph(lesson):
    def function():
        torch.ones(2).detach() * 2

    ones, mul = recorded(lesson.Recorder, function).graph.nodes
    equal((ones.name, mul.args), ("ones", (ones, 2)))


def test_a_fake_tensor_of_another_run_is_refused(lesson):
    recorder = lesson.Recorder({})
    for mode in (FakeTensorMode(), recorder.fake_mode):
        with mode:
            foreign = torch.ones(2)
        with refuses(lesson.CaptureError, cause="the fake tensor was taken for one of this run"):
            recorder.known(foreign)


# --- step 2: break operators into smaller ones ----------------------------------------------------


def sum_of_all(x, *, dtype=None):
    return x.view(-1).sum(0)


def test_an_operator_that_torch_decomposes_is_decomposed(lesson):
    recorder = lesson.Recorder({})
    with recorder.fake_mode:
        x = recorder.bind(torch.ones(4), recorder.graph.placeholder("x"))
        result = recorder.decompose(aten.reshape.default, (x, [2, 2]), {})
    holds(isinstance(result, FakeTensor), "the result of `func.decompose`", got=result)
    off = "`func.decompose` was called with the mode off, as it is in `__torch_dispatch__`"
    equal(operators(recorder.graph), ["aten.view.default"], cause=(is_value([]), off))
    wide = recorder.decompose(aten.linalg_norm.default, (x,), {"dtype": torch.double})
    equal(wide.dtype, torch.double, hint="`func.decompose` takes the keywords of the call")


def test_a_rule_replaces_an_operator(lesson):
    table = {aten.sum.default: sum_of_all, aten.sum.dim_IntList: lambda x, dims: x.mean(dims) * 6}
    recorder = recorded(lesson.Recorder, lambda: torch.ones(6).sum(), table)
    ones, view = "aten.ones.default", "aten.view.default"
    equal(
        operators(recorder.graph),
        [ones, view, "aten.mean.dim", "aten.mul.Tensor"],
        cause=[
            (is_value([ones]), "what the rule calls wasn't recorded: call it with the mode on"),
            (is_value([ones, "aten.sum.default"]), "the rule wasn't called"),
            (
                lambda got: view in got and "aten.sum.default" in got,
                "an operator that a rule computes has a node besides",
            ),
            (
                is_value([ones, view, "aten.sum.dim_IntList"]),
                "the rule calls an operator that has a rule, and it wasn't asked",
            ),
        ],
    )


def test_a_rule_gets_the_keywords_of_the_call(lesson):
    table = {aten.sum.default: lambda x, *, dtype=None: x.sum(0, dtype=dtype)}
    recorder = recorded(lesson.Recorder, lambda: torch.ones(6).sum(dtype=torch.half), table)
    of_rule = [each for each in recorder.graph.nodes if each.target is aten.sum.dim_IntList]
    cause = (is_value([{}]), "the rule was called without the keywords")
    equal([dict(each.kwargs) for each in of_rule], [{"dtype": torch.half}], cause=cause)


def test_a_call_whose_rule_declines_is_not_decomposed(lesson):
    recorder = lesson.Recorder({aten.reshape.default: lambda *_: NotImplemented})
    result = recorder.decompose(aten.reshape.default, (torch.ones(4), [2, 2]), {})
    holds(
        result is NotImplemented,
        "`NotImplemented`, although torch could decompose the call",
        got=result,
    )


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
    equal(recorder.state, dict(zip(targets, names)))


def test_the_state_names_the_placeholder_that_the_graph_named(lesson):
    recorder, model = lesson.Recorder({}), nn.Module()
    model.a_b, model.a = nn.Parameter(torch.ones(1)), nn.Module()
    model.a.b = nn.Parameter(torch.ones(1))
    recorder.lift_state(model)
    cause = (
        is_value({"p_a_b": "a.b"}),
        "the graph had a `p_a_b`, so it named the second placeholder `p_a_b_1`",
    )
    equal(recorder.state, {"p_a_b": "a_b", "p_a_b_1": "a.b"}, cause=cause)


def test_a_name_that_python_does_not_allow_becomes_legal(lesson):
    recorder = lesson.Recorder({})
    recorder.lift("p_block--1 a.weight", torch.ones(2))
    equal(placeholders(recorder), ["p_block__1_a_weight"])


def test_leaves_of_containers_and_keywords_are_inputs(lesson):
    recorder, (x, y, z) = lesson.Recorder({}), torch.ones(3, 2)
    args, kwargs = recorder.lift_arguments((x, Pair(y, 3)), {"scale": z})
    equal(placeholders(recorder), ["input_0", "input_1", "input_2", "input_3"])
    equal((len(args), args[1][1], list(kwargs)), (2, 3, ["scale"]))
    lifted = [recorder.node_of(each).name for each in (args[0], args[1][0], kwargs["scale"])]
    equal(lifted, ["input_0", "input_1", "input_3"])
    value = recorder.graph.find_nodes(op="placeholder")[2].meta.get("val")
    equal(value, 3, hint="bind the placeholder of the number to it")


def test_an_input_keeps_its_strides(lesson):
    asked = (lambda error: ".grad" in str(error), "something else than `self.fake` made the copy")
    with noting(cause=asked, on=(UserWarning,)):
        lifted = lesson.Recorder({}).lift("x", torch.ones(2, 3, requires_grad=True).t())
    equal(lifted.stride(), (1, 3), cause=(is_value((2, 1)), "the copy is contiguous"))
    equal(lifted.requires_grad, True, hint="the model may ask for it: don't detach the copy")


def test_a_tensor_that_is_given_twice_is_two_inputs(lesson):
    recorder, x = lesson.Recorder({}), torch.ones(2)
    (first, second), _ = recorder.lift_arguments((x, x), {})
    names = recorder.node_of(first).name, recorder.node_of(second).name
    equal(names, ("input_0", "input_1"), hint="`fake` returns another copy each time")


def test_the_output_has_the_structure_of_the_result(lesson):
    recorder = lesson.Recorder({})
    x = recorder.lift("x", torch.ones(2))
    recorder.finish({"sum": x, "rest": [x, (3, None)]})
    (result,) = recorder.graph.output_node().args
    node = recorder.node_of(x)
    holds(result == {"sum": node, "rest": [node, (3, None)]}, "the same with nodes", got=result)


def test_an_object_that_hides_a_tensor_is_refused(lesson):
    recorder, hidden = lesson.Recorder({}), iter([torch.ones(2)])
    with refuses(lesson.CaptureError, "input_0", "pytree", cause="`lift` took it for a number"):
        recorder.lift("input_0", hidden)
    cause = "`finish` took it for a number"
    with refuses(lesson.CaptureError, "the result", "pytree", cause=cause):
        recorder.finish(hidden)


def test_a_node_that_no_output_needs_is_erased(lesson):
    recorder = recorded(lesson.Recorder, lambda: torch.ones(1).sin().cos())
    ones, *_ = recorder.graph.nodes
    recorder.finish(next(each for each, node in recorder.nodes.values() if node is ones))
    left = ["aten.ones.default"]
    cause = (is_value([*left, "aten.sin.default"]), "only `cos` used `sin`, and it was erased")
    equal(operators(recorder.graph), left, cause=cause)


def test_an_unused_input_stays_and_an_unused_constant_is_erased(lesson):
    constant = torch.ones(1)
    recorder = recorded(lesson.Recorder, lambda: torch.ones(1) * constant)
    recorder.lift("x", torch.ones(1))
    recorder.finish(None)
    equal([node.op for node in recorder.graph.nodes], ["placeholder", "output"])


def test_a_random_operator_stays_although_no_node_uses_it(lesson):
    def function(x):
        torch.rand(1)
        return x + 1

    names = operators(lesson.capture(function, (torch.ones(1),)).graph)
    missing = (is_value(["aten.add.Tensor"]), "`rand` was erased, so later numbers are others")
    kept = ["aten.rand.default", "aten.add.Tensor"]
    equal(names, kept, cause=missing, hint="`eliminate_dead_code` knows these nodes")


# --- step 4: run the model, and note which module runs --------------------------------------------


def nested():
    return nn.Sequential(nn.Sequential(nn.ReLU()), nn.ReLU()), torch.ones(1)


def test_a_node_knows_the_modules_that_ran_it(lesson):
    same_stacks(watched(lesson, *nested()), exports(nested))


def test_a_function_is_the_root_of_its_nodes(lesson):
    (stack,) = stacks(watched(lesson, lambda x: x + 1, torch.ones(1)))
    equal([path for path, _ in stack.values()], [""], hint="the root is there for a function too")


def called_twice():
    inner = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    return Model(lambda model, x: model.inner(model.inner(x)), inner=inner), torch.ones(1, 2)


def test_a_second_call_has_a_number(lesson):
    graph = watched(lesson, *called_twice(), default_decompositions())
    same_stacks(graph, exports(called_twice))


def test_a_module_with_two_paths_has_the_first_one(lesson):
    recorder, layer = lesson.Recorder({}), nn.Tanh()
    recorder.run(nn.Sequential(layer, layer), (torch.ones(1, 2),), {})
    equal([[*each][-1] for each in stacks(recorder.graph)], ["L__self__0", "L__self__0@1"])


def test_a_call_that_fails_leaves_the_stack(lesson):
    recorder = lesson.Recorder({})
    recorder.run(Survives(), (torch.ones(1, 2),), {})
    (stack,) = stacks(recorder.graph)
    equal(
        [path for path, _ in stack.values()],
        [""],
        cause=(is_value(["", "child"]), "the module that failed is still in the stack"),
        hint="with `always_call=True`, the hook also runs after an error",
    )


def test_a_module_that_is_not_in_the_tree_leaves_the_stack_alone(lesson):
    hidden = nn.Tanh()
    hides = Model(lambda model, x: model.linear(hidden(x)), linear=nn.Linear(2, 2))
    empty = (lambda error: "pop" in str(error), "an item was taken off for a call that put none on")
    with noting(cause=empty, on=(IndexError,)):
        graph = watched(lesson, nn.Sequential(hides, nn.ReLU()), torch.ones(1, 2))
    found = [
        [(path, kind.rpartition(".")[2]) for path, kind in stack.values()]
        for stack in stacks(graph)
    ]
    root = ("", "Sequential")
    cause = (
        lambda first: ("", "Tanh") in first,
        "the module without a path took the place of the model: repeat the last item",
    )
    equal(found[0], [root, ("0", "Model")], cause=cause)
    equal(found[-1], [root, ("1", "ReLU")], hint="take off what you put on, for any module")


def test_a_call_of_the_model_itself_repeats_the_last_item(lesson):
    class Recursive(nn.Module):
        def forward(self, x, depth=2):
            return self(x + 1, depth - 1) if depth else x

    found = [list(stack) for stack in stacks(watched(lesson, Recursive(), torch.ones(1)))]
    numbered = (lambda got: "@" in str(got), "the model itself isn't a call of a path: no number")
    equal(found, [["L__self__"]] * 2, cause=numbered)
    inner = stacks(watched(lesson, nn.Sequential(Recursive()), torch.ones(1)))
    early = (
        is_value(["L__self__", "L__self__0"]),
        "count a call when it begins: this one has no number",
    )
    equal(list(inner[-1]), ["L__self__", "L__self__0", "L__self__0@1"], cause=early)


def test_a_hook_leaves_the_result_alone(lesson):
    results = []
    hook = torch.nn.modules.module.register_module_forward_hook
    with lesson.Recorder({}).module_stacks(model := nn.Sequential(nn.ReLU())):
        handle = hook(lambda module, args, result: results.append(result))
        model(torch.ones(1))
        handle.remove()
    kinds = {type(each) for each in results}
    cause = (is_value({list}), "what your hook returns replaces the module's result")
    equal(kinds, {torch.Tensor}, cause=cause, hint="end the hook without a `return`")


def test_a_model_without_data_can_be_captured(lesson):
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(10**6, 10**6), nn.ReLU())
        captured = lesson.capture(model, (torch.ones(1, 10**6),))
    equal(captured.graph.output_node().args[0].meta["val"].shape, torch.Size([1, 10**6]))


def attention():
    return nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(), (torch.ones(1, 3, 4),), {}


def test_attention_is_recorded_as_small_operators(lesson):
    with torch.no_grad():
        captured = lesson.capture(*attention())
    same_operators(captured.graph, makes_fx(attention))


def test_the_hooks_of_the_model_run(lesson):
    model = nn.Linear(2, 2)
    model.register_forward_hook(lambda module, args, result: result * 2)
    runs_as_eager(lesson.capture, model, torch.ones(1, 2))


def test_after_an_error_the_model_can_still_be_captured(lesson):
    model, before = Survives(), hooks()
    with pytest.raises(LookupError, match="on purpose"):
        lesson.capture(model.child, (torch.ones(1, 2),))
    equal(hooks(), before, hint="remove the hooks in a `finally`")
    holds(not isinstance(model(torch.ones(1, 2)), FakeTensor), "a real tensor")
    equal(torch.backends.mha.get_fastpath_enabled(), True)
    runs_as_eager(lesson.capture, model, torch.ones(1, 2))


def test_a_new_tensor_is_not_taken_for_a_deleted_one(lesson):
    def function(x):
        for number in range(5):
            x = x.sin().cos() + torch.tensor([1.0, 2.0, number])
        return x

    runs_as_eager(lesson.capture, function, torch.ones(3))


def branches(x):
    return x if x.sum() > 0 else -x


def numbers(x):
    return x.numpy()


def masks(x):
    return x[x > 0]


ASKING = (branches, numbers, masks)


@pytest.mark.parametrize("function", ASKING, ids=lambda each: each.__name__)
def test_the_error_names_the_line_that_asks_for_data(lesson, function):
    line = inspect.getsourcelines(function)[1] + 1
    with refuses(
        lesson.CaptureError,
        f"test_capture.py:{line}",
        function.__name__,
        "needs the data of a tensor",
        cause=NO_LINE,
    ):
        lesson.capture(function, (torch.ones(3),))


def test_a_model_may_ask_for_shapes(lesson):
    for size in (2, 3):
        runs_as_eager(lesson.capture, lambda x: x + 1 if len(x) > 2 else x - 1, torch.zeros(size))


# --- whole models ---------------------------------------------------------------------------------


def written_through_a_row(y, x):
    y[0].mul_(10)
    return y


TRAINED = {"a row is written": written_through_a_row, "detach": lambda y, x: y * y.detach()}


@pytest.mark.parametrize("body", TRAINED.values(), ids=TRAINED)
def test_what_was_captured_trains_like_the_model(lesson, body):
    trains_as_eager(lesson, with_linear(body), torch.rand(2, 4))


@by_chance(6)
def test_a_random_program_of_views_and_writes_computes_what_eager_does(lesson, chance):
    written_as_eager(lesson.capture, chance)


def small(name):
    return vars(SMALL[name]()).values()


@pytest.mark.parametrize("name", OF_OPERATORS)
def test_a_small_model_has_the_operators_that_make_fx_records(lesson, name):
    with torch.no_grad():
        captured = lesson.capture(*small(name))
    same_operators(captured.graph, makes_fx(small, name))


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_a_block_computes_what_eager_does(lesson, training):
    model = Block().train(training)
    x = torch.rand(2, 3, 4, 4)
    same_numbers(run(lesson.capture(model, (x,)), model, x), model(x).detach())


def test_a_batch_norm_in_training_writes_nothing(lesson):
    pure(watched(lesson, Block().train(), torch.rand(2, 3, 4, 4)))


def headline():
    specimen = resnet18()
    return specimen.model, *specimen.inputs


def test_resnet18_has_the_operators_and_modules_of_torch_export(lesson):
    model, *inputs = headline()
    flat = lesson.capture_flat(model, tuple(inputs), table=default_decompositions())
    same_operators(flat.graph, operators(exports(headline)))
    same_stacks(flat.graph, exports(headline))


def test_parameters_and_buffers_keep_their_tensors(lesson):
    def tensors():
        parameters = model.named_parameters(remove_duplicate=False)
        return {name: id(each) for name, each in (*parameters, *model.named_buffers())}

    model = Net().train()
    names, values = tensors(), {name: each.clone() for name, each in model.state_dict().items()}
    lesson.capture(model, (torch.ones(2, 3, 4, 4),))
    equal(tensors(), names, hint="`given.prepared` restores them: keep it around the call")
    same_numbers(dict(model.state_dict()), values)


def test_flat_says_what_each_placeholder_is(lesson):
    flat = lesson.capture_flat(Cached(), (torch.ones(3),))
    kinds = {name: (flat.state[name].kind, flat.state[name].is_saved) for name in flat.state}
    equal(kinds["scale"], ("buffer", True))
    equal(kinds["shift"], ("buffer", False))
    (constant,) = [name for name, (kind, _) in kinds.items() if kind == "constant"]
    same_numbers(flat.state[constant].value, torch.arange(3.0))
    placeholders = [node.name for node in flat.graph.find_nodes(op="placeholder")]
    equal([flat.names.get(name) for name in placeholders], [constant, "shift", "scale", None])


def test_a_constant_that_only_an_unused_node_reads_isnt_an_input(lesson):
    def reads(model, x):
        model.plain + 1
        return model.linear(x)

    model = Model(reads, linear=nn.Linear(2, 2), plain=torch.ones(2))
    flat = lesson.capture_flat(model, (torch.ones(2),))
    equal(flat.names, {"p_linear_weight": "linear.weight", "p_linear_bias": "linear.bias"})
    equal(list(flat.state), ["linear.weight", "linear.bias"])


def test_flat_has_each_name_of_a_tied_parameter(lesson):
    flat = lesson.capture_flat(Net(), (torch.ones(1, 3, 4, 4),))
    holds(
        flat.state["head.weight"].value is flat.state["tail.weight"].value,
        "the same tensor under both names",
    )
    equal("tail.weight" in flat.names.values(), False)
