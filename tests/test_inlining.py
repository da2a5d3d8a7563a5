"""``inlining``: with its calls inlined, a graph computes the same numbers from the same state."""

from __future__ import annotations

import contextlib
import copy
from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node, Proxy
from torch.fx.proxy import TracerBase

from tests import zoo
from tests.models.inlining import (
    BATCH,
    NUMBERS_HINT,
    RESULTS,
    Checked,
    Parent,
    Runs,
    Stateful,
    X,
    batch_norm,
    branches,
    deep,
    is_interrupted,
    node_of,
    parent_of,
    picks,
    same_as,
    targets,
    traced,
)
from tests.suite import equal, holds, is_value, noting, refuses, rows, same_numbers
from tests.suite.engine import symbolic_trace
from tests.suite.versions import that_run

LEFT = (bool, "some calls of the target are left")

# --- step 1: replace ------------------------------------------------------------------------------


def test_the_result_takes_the_place_of_the_call_in_all_its_users(lesson):
    function = lambda x: torch.cat([e := torch.exp(x), e[0]]).add(other=torch.exp(x))
    graph = symbolic_trace(function).graph
    x, exp, item, cat, again, add, _ = graph.nodes
    lesson.replace(exp, x)
    lesson.replace(again, None)
    equal(
        [[*graph.nodes][1:-1], str(item.args), str(cat.args), str(add.kwargs)],
        [[item, cat, add], "(x, 0)", "([x, getitem],)", "{'other': None}"],
        cause=(lambda got: len(got[0]) > 3, "the call is still there"),
        hint="`map_arg` looks inside lists and keyword arguments; then erase the call",
    )


def test_users_that_index_a_known_result_are_replaced_with_the_element(lesson):
    graph = symbolic_trace(lambda x: torch.exp(torch.sort(x)[0][1])).graph
    x, sort, *_, exp, _ = graph.nodes
    lesson.replace(sort, ((x, 0), None))
    equal(
        [[*graph.nodes][:-1], exp.args],
        [[x, exp], (0,)],
        cause=(lambda got: len(got[0]) > 2, "a `getitem` is left, although its value is known"),
        hint="replace the `getitem` itself, with the element",
    )
    graph = symbolic_trace(lambda x: torch.exp(torch.aminmax(x)["min"])).graph
    x, aminmax, *_, exp, _ = graph.nodes
    lesson.replace(aminmax, {"min": x})
    equal(exp.args, (x,), hint="a key of a dict is an index, too")


@pytest.mark.parametrize("index", [-1, slice(1, None), 2], ids=str)
def test_an_index_is_known_if_the_result_has_it(lesson, index):
    graph = symbolic_trace(lambda x: torch.exp(torch.sort(x)[index])).graph
    x, sort, item, exp, _ = graph.nodes
    lesson.replace(sort, [x, 0])
    left = [x, item, exp] if index == 2 else [x, exp]
    equal([*graph.nodes][:-1], left, hint="ask the result itself whether it has the index")


# --- step 2: the recorder -------------------------------------------------------------------------


def recorder_of(lesson, gm: GraphModule, **callees) -> object:
    """A recorder that runs other functions in place of the nodes of these names."""
    calls = [lesson.Call(node_of(gm, name), callee) for name, callee in callees.items()]
    return lesson.CallRecorder(gm, calls, lambda module: True)


def test_the_operations_are_added_before_the_node(lesson):
    gm = symbolic_trace(lambda x: torch.exp(x) + 1)
    recorder = recorder_of(lesson, gm, exp=lambda x: torch.sigmoid(x) * 2)
    result = recorder.record_call(recorder.calls[0])
    equal(
        [node.name for node in gm.graph.nodes],
        ["x", "sigmoid", "mul", "exp", "add", "output"],
        cause=(lambda names: "sigmoid" in names, "the new nodes are in the wrong place"),
        hint="`graph.inserting_before(node)`",
    )
    equal(result, node_of(gm, "mul"), hint="`create_arg` turns the result into a node")


def test_nodes_in_a_list_become_proxies_too(lesson):
    gm, seen = symbolic_trace(lambda x, y: torch.cat([x, y], dim=0)), []
    recorder = recorder_of(lesson, gm, cat=lambda tensors, dim: seen.extend([*tensors, dim]))
    recorder.record_call(recorder.calls[0])
    hint = "`map_arg` looks inside lists"
    equal([hasattr(each, "tracer") for each in seen], [True, True, False], hint=hint)


def test_all_calls_are_recorded_in_order(lesson):
    gm = symbolic_trace(lambda x: torch.exp(x) + torch.log(input=x))
    results = recorder_of(lesson, gm, exp=lambda x: 2**x, log=lambda input: (-input, 5)).record()
    equal(results, [node_of(gm, "pow_1"), (node_of(gm, "neg"), 5)])


def test_an_error_names_the_function_the_node_and_what_was_raised(lesson):
    def missing(x):
        return x * {}["factor"]

    _, gm = parent_of(nn.ReLU())
    recorder = recorder_of(lesson, gm, child=missing)
    plain = lambda error: "factor" in str(error) and "KeyError" not in str(error)
    cause = (plain, "`{error!r}` contains the class of the error, `{error}` only its message")
    with refuses(ValueError, "missing", "child", "KeyError", "factor", cause=cause):
        recorder.record_call(recorder.calls[0])


@pytest.mark.parametrize(
    ("callee", "error", "words"),
    [(branches, ValueError, ["log"]), (is_interrupted, KeyboardInterrupt, [])],
)
def test_after_an_error_nothing_that_was_recorded_is_left(lesson, callee, error, words):
    gm = symbolic_trace(lambda x: (torch.sin(x), torch.exp(x) + torch.log(x))[1])
    before = [*gm.graph.nodes]
    recorder = recorder_of(lesson, gm, exp=lambda x: 2**x, log=callee)
    with refuses(error, *words):
        recorder.record()
    equal([*gm.graph.nodes], before)


def test_a_module_is_a_leaf_if_both_the_caller_and_the_tracer_say_so(lesson):
    may_be = lambda module: not isinstance(module, nn.ReLU)
    recorder = lesson.CallRecorder(symbolic_trace(lambda x: x), [], may_be)
    layers = nn.Linear(1, 1), nn.Sequential(), nn.ReLU()
    equal([recorder.is_leaf_module(each, "0") for each in layers], [True, False, False])


LAYERS = [(nn.BatchNorm1d(4).eval(), torch.nn.functional.batch_norm)]
LAYERS += [(Checked(torch.relu), torch.relu), (nn.Tanh(), torch.tanh)]


@pytest.mark.parametrize(("layer", "target"), LAYERS, ids=["batch norm", "own", "without a check"])
def test_a_layer_does_not_check_a_proxy(lesson, layer, target):
    gm = traced(nn.Sequential(layer))
    (result,) = lesson.CallRecorder(gm, lesson.module_calls(gm), lambda module: False).record()
    equal(result.target, target, cause=(is_value("0"), "`self.is_leaf` says that it isn't a leaf"))


@pytest.mark.parametrize("compute", [torch.relu, branches])
def test_afterwards_a_layer_has_its_own_check_again(lesson, compute):
    layer, own = Checked(compute), None
    if compute is branches:  # it can't be recorded, and has a check of its own
        own = layer._check_input_dim = lambda x: None
    gm = traced(nn.Sequential(layer))
    with contextlib.suppress(ValueError):
        lesson.CallRecorder(gm, lesson.module_calls(gm), lambda module: False).record()
    equal(
        vars(layer).get("_check_input_dim"),
        own,
        cause=[
            (own is None, "the layer is left with an attribute that only its class had"),
            (lambda found: found is None, "the attribute that the layer had was deleted"),
            (bool, "after an error, the check is still disabled"),
        ],
        hint="`mock.patch.object` restores what was there, also after an error",
    )


# --- step 3: inline_function, one node ------------------------------------------------------------


def test_a_call_is_replaced_with_another_function(lesson):
    gm = symbolic_trace(lambda x: (torch.log(x), torch.square(torch.exp(x)) + 1)[1])
    lesson.inline_function(gm, node_of(gm, "square"), lambda x: x * 3)
    equal(
        [node.name for node in gm.graph.nodes],
        ["x", "log", "exp", "mul", "add", "output"],
        cause=[
            (lambda names: "square" in names, "the node to replace is still there"),
            (lambda names: "log" not in names, "an unused node was erased, too: keep it"),
        ],
    )
    stale = (lambda got: torch.equal(got, torch.exp(X) ** 2 + 1), "`gm.code` is as before")
    same_numbers(gm(X), torch.exp(X) * 3 + 1, cause=stale)


def test_of_two_calls_the_second_may_use_the_result_of_the_first(lesson):
    gm = symbolic_trace(lambda x: torch.log(torch.exp(x)))
    recorder = recorder_of(lesson, gm, exp=lambda x: x + 1, log=lambda x: x)
    holds(lesson.inline(recorder) is gm and gm.graph is recorder.graph, "gm and its own graph")
    *_, output = gm.graph.nodes
    equal(str(output.args), "(add,)", cause=(is_value("(exp,)"), "replace the last call first"))


def test_the_function_receives_proxies_for_nodes_and_other_values_unchanged(lesson):
    gm = symbolic_trace(lambda x, y: torch.cat([x, y], dim=0))
    seen = []

    def join(tensors, dim):
        seen.append(dim)
        return torch.stack(tensors, dim).flatten(0, 1)

    lesson.inline_function(gm, node_of(gm, "cat"), join)
    plain = (lambda seen: isinstance(seen[0], Proxy), "plain values were turned into proxies")
    equal(seen, [0], cause=plain)
    same_numbers(gm(X, X + 1), torch.cat([X, X + 1]), hint="`map_arg` looks inside structures")


def test_a_method_call_and_a_module_call_can_be_replaced(lesson):
    model, gm = parent_of(nn.ReLU())
    lesson.inline_function(gm, node_of(gm, "child"), lambda x: x.clamp(min=0))
    lesson.inline_function(gm, node_of(gm, "clamp"), lambda x, min: torch.maximum(x, x * min))
    same_as(gm, model, X)


def test_a_node_that_is_not_a_call_of_this_graph_is_refused(lesson):
    gm, other = (symbolic_trace(lambda images: torch.exp(images)) for _ in range(2))
    with refuses(ValueError, "images", cause="a placeholder was replaced"):
        lesson.inline_function(gm, node_of(gm, "images"), lambda: 0)
    with refuses(ValueError, "exp", cause="a node of another graph was replaced"):
        lesson.inline_function(gm, node_of(other, "exp"), torch.log)


def test_the_function_may_read_parameters_and_call_submodules(lesson):
    model, gm = parent_of(nn.Linear(4, 4))

    def product(x):
        return gm.act(x) @ gm.child.weight.t() + gm.child.bias

    gm.add_module("act", nn.Identity())
    lesson.inline_function(gm, node_of(gm, "child"), product)
    equal(
        [targets(gm.graph), targets(gm.graph, "get_attr")],
        [["act"], ["child.weight", "child.bias"]],
        cause=(lambda got: got[0] == [], "a leaf module was traced through"),
        hint="record in the block of `patched_modules`; here `is_leaf` is always true",
    )
    same_as(gm, model, X)


# --- step 4: inline_module, every call of one target ----------------------------------------------


def test_relu_is_replaced_by_the_function_it_calls(lesson):
    model, gm = parent_of(nn.ReLU())
    graph, add = gm.graph, node_of(gm, "add")
    holds(lesson.inline_module(gm, "child") is gm, "gm itself", hint="return `gm`")
    equal(
        [node.name for node in gm.graph.nodes],
        ["x", "relu", "add", "output"],
        cause=[
            (lambda names: "child" in names, "the call is still there"),
            (lambda names: "child_1" in names, "the callee was recorded as a leaf: a call again"),
        ],
    )
    holds(gm.graph is graph, "the same graph, edited")
    holds(node_of(gm, "add") is add, "the very node", hint="record into the existing graph")
    code = gm.code
    holds("self.child" not in code, "no call of `self.child`", got=code, hint="`gm.recompile()`")
    same_as(gm, model, X)


def test_every_call_of_the_target_is_replaced(lesson):
    compute = lambda linear, x: linear(input=torch.relu(linear(x)))
    model, gm = parent_of(nn.Linear(4, 4), compute)
    lesson.inline_module(gm, "child")
    equal(targets(gm.graph), [], cause=LEFT, hint="replace every `call_module` of that target")
    same_as(gm, model, X)


def test_calls_of_other_modules_are_left_alone(lesson):
    inside = nn.Sequential(OrderedDict(act=nn.Sigmoid()))
    model = nn.Sequential(OrderedDict(act=nn.ReLU(), act2=nn.ReLU(), other=inside))
    gm = lesson.inline_module(symbolic_trace(model), "act")
    hint = "a call belongs to the target if `node.target == target`"
    equal(targets(gm.graph), ["act2", "other.act"], hint=hint)
    same_as(gm, model, X)


def test_a_target_that_the_module_does_not_have_is_refused(lesson):
    _, gm = parent_of(nn.ReLU())
    missed = "no error, although nothing was replaced"
    with refuses((AttributeError, NameError), "nope", cause=missed):
        lesson.inline_module(gm, "nope")


def test_a_target_that_is_never_called_changes_nothing(lesson):
    _, gm = parent_of(nn.ReLU())
    gm.spare = nn.ReLU()
    before = rows(gm.graph)
    lesson.inline_module(gm, "spare")
    equal(rows(gm.graph), before, hint="replace only calls of the target")


def test_arguments_that_are_values_stay_values(lesson):
    def optional(x, y=None, *, scale: float = 2.0):
        return x * scale if y is None else x + y

    model, gm = parent_of(Runs(optional), lambda child, x: child(child(x, scale=3.0), y=x))
    lesson.inline_module(gm, "child")
    hint = "make proxies of the nodes among the arguments; pass other values unchanged"
    equal([*map(str, gm.graph.find_nodes(op="placeholder"))], ["x"], hint=hint)
    same_as(gm, model, X)


def test_all_kinds_of_state_are_read_where_they_are(lesson):
    model, gm = parent_of(Stateful())
    lesson.inline_module(gm, "child")
    found = set(targets(gm.graph, "get_attr"))
    hint = "record a `get_attr` node with the path below the root"
    wanted = {"child.weight", "child.offset", "child.plain"}
    holds(wanted <= found, "full paths", got=found, hint=hint)
    same_as(gm, model, X)
    gm(X).sum().backward()
    holds(model.child.weight.grad is not None, "a node that reads the parameter itself")


def test_leaves_inside_the_callee_stay_calls_under_their_full_path(lesson):
    inside = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 2)))
    model, gm = parent_of(inside)
    lesson.inline_module(gm, "child")
    equal(
        targets(gm.graph),
        ["child.0", "child.1.0", "child.1.1"],
        cause=[
            (lambda found: "child.1" in found, "a module stayed a call, though it isn't a leaf"),
            (lambda found: len(found) < 3, "the callee was inlined deeper than one level"),
        ],
        hint="`Tracer` decides about leaves inside the callee; paths begin at the root",
    )
    same_as(gm, model, X)


def test_afterwards_every_class_is_restored(lesson):
    _, gm = parent_of(nn.Sequential(nn.ReLU(), nn.Linear(4, 4)))
    classes = [nn.Module, nn.ReLU, nn.Linear, nn.Sequential, Parent, Graph, Node, Proxy]
    classes += [torch.fx.Tracer, TracerBase, GraphModule, getattr(lesson, "Tracer", TracerBase)]
    before = [dict(vars(each)) for each in classes]
    lesson.inline_module(gm, "child")
    changed = [each for each, was in zip(classes, before, strict=True) if dict(vars(each)) != was]
    equal(changed, [], hint="restore attributes in a `finally`, or write a subclass")


@pytest.mark.parametrize("case", RESULTS)
def test_a_result_of_any_kind_is_replaced(lesson, case):
    function, compute = RESULTS[case]
    model, gm = parent_of(Runs(function), compute)
    lesson.inline_module(gm, "child")
    equal(targets(gm.graph), [], cause=LEFT)
    same_as(gm, model, X)


@pytest.mark.parametrize(
    ("result", "index"),
    [(tuple, 1), (tuple, -2), (tuple, slice(1, None)), (list, 1), (dict, "plus")],
    ids=["1", "-2", "1:", "in a list", "plus"],
)
def test_indexing_a_known_result_leaves_no_node(lesson, result, index):
    model = picks(result, index)
    gm = lesson.inline_module(traced(model), "child")
    same_as(gm, model, X)
    equal(
        [node.name for node in gm.graph.nodes if "getitem" in node.name],
        [],
        hint="if a user is a `getitem` with a known index, replace it with the element",
    )


def test_a_result_that_is_an_earlier_call_is_replaced(lesson):
    model, gm = parent_of(nn.Identity(), lambda child, x: child(child(torch.relu(x))))
    erased = (lambda error: "used before" in str(error), "the result of a later call was erased")
    with noting(cause=erased, hint="replace the last call first", on=(RuntimeError,)):
        same_as(lesson.inline_module(gm, "child"), model, X)
        same_as(lesson.inline_all(traced(model)), model, X)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"affine": False}, {"track_running_stats": False}], ids=str
)
def test_batch_norm_computes_the_same(lesson, training, options):
    model, gm = batch_norm(training, **options)
    expected = copy.deepcopy(model)(BATCH)
    lesson.inline_module(gm, "0")
    same_numbers(gm(BATCH), expected, hint=NUMBERS_HINT)


def test_batch_norm_in_training_still_counts_batches(lesson):
    model, gm = batch_norm(training=True)
    lesson.inline_module(gm, "0")
    at_once = (is_value(1), "the batch was counted while inlining: the buffer was a tensor")
    hint = "buffers have to be proxies too: `proxy_buffer_attributes`"
    equal(int(model[0].num_batches_tracked), 0, cause=at_once, hint=hint)
    gm(BATCH)
    gm(BATCH)
    hint = "`add_` changes the buffer, even though its result isn't used"
    equal(int(model[0].num_batches_tracked), 2, hint=hint)


def test_batch_norm_that_needs_the_number_itself_is_refused(lesson):
    model, gm = batch_norm(training=True, momentum=None)
    with refuses(ValueError, "BatchNorm1d"):
        lesson.inline_module(gm, "0")
    counted = (is_value(1), "the failed attempt counted a batch")
    equal(int(model[0].num_batches_tracked), 0, cause=counted)


# --- step 5: inline_all, all the way down ---------------------------------------------------------


def test_everything_is_inlined_at_every_level(lesson):
    model, gm = parent_of(deep())
    lesson.inline_all(gm)
    equal(targets(gm.graph), [], cause=(bool, "calls of modules inside other modules are left"))
    same_as(gm, model, X)


def test_after_an_interruption_the_graph_is_as_before(lesson):
    gm = traced(nn.Sequential(nn.ReLU(), Runs(is_interrupted)))
    before = [*gm.graph.nodes]
    with refuses(KeyboardInterrupt):
        lesson.inline_all(gm)
    equal(
        [*gm.graph.nodes],
        before,
        cause=[
            (
                lambda nodes: not {*before} <= {*nodes},
                "a call was replaced before all of them were recorded",
            ),
            (bool, "nodes that were recorded before the error are still in the graph"),
        ],
        hint="record all results first, erase the new nodes on any error, replace calls last",
    )


@pytest.mark.parametrize("name", that_run(zoo.SMALL))
def test_an_inlined_small_model_computes_the_same(lesson, name):
    specimen = zoo.SMALL[name]()
    gm = lesson.inline_all(symbolic_trace(zoo.SMALL[name]().model))
    gm.graph.lint()
    equal(targets(gm.graph), [], cause=LEFT)
    same_numbers(gm(*specimen.inputs, **specimen.kwargs), specimen.eager(), hint=NUMBERS_HINT)


def test_resnet18_becomes_functions_and_parameters(lesson):
    model, images = zoo.resnet18().model.train(), torch.rand(2, 3, 32, 32)
    eager = copy.deepcopy(model)
    gm = lesson.inline_all(symbolic_trace(model))
    equal(targets(gm.graph), [], cause=LEFT)
    same_as(gm, eager, images)
    hint = "the graph has to change the buffers in place"
    same_numbers(dict(gm.state_dict()), dict(eager.state_dict()), hint=hint)
