"""``graph``: the other features of torch's graph, and edits that damage only torch's."""

from __future__ import annotations

import copy
import functools
import operator
import pickle
from contextlib import nullcontext

import pytest
import torch
from torch import fx, nn

from tests.models import _effects as effects
from tests.models import graph as cases
from tests.models.graph import (
    chain,
    diamond,
    same_edits,
    state,
    swapped,
    unused,
)
from tests.suite import equal, holds, is_linear, refuses, warns_of

NUMBERED_AGAIN = pytest.mark.since("2.12", "numbering continues from the last number of the base")


both_sides = pytest.mark.parametrize("where", ["inserting_before", "inserting_after"])


def placeholders(lesson, names: str):
    graph = lesson.Graph()
    return [graph, *map(graph.placeholder, names)]


# --- names ----------------------------------------------------------------------------------------


AGAIN = [pytest.param(each, marks=NUMBERED_AGAIN) for each in cases.NUMBERED_SINCE_2_12]


@pytest.mark.parametrize("candidates", [*cases.NUMBERED, *AGAIN], ids=str)
def test_names_are_numbered_as_torch_numbers_them(lesson, candidates):
    ours, theirs = lesson.Namespace(), fx.graph._Namespace()
    expected = [theirs.create_name(each, None) for each in candidates]
    equal([ours.create_name(each) for each in candidates], expected)


@pytest.mark.parametrize(
    "target", [pytest.param("x_3", marks=NUMBERED_AGAIN), *cases.METHODS, *cases.FUNCTIONS]
)
def test_a_node_is_named_after_its_target_in_snake_case(lesson, target):
    op = "call_method" if isinstance(target, str) else "call_function"
    same_edits(lesson, lambda graph: [graph.create_node(op, target).name for _ in range(2)])


# --- creating -------------------------------------------------------------------------------------


def test_the_shortcuts_take_the_parameters_of_torchs(lesson):
    def edit(graph):
        x, y = graph.placeholder("x", int), graph.placeholder("y", default_value=None)
        graph.call_module("linear", (x,), {"key": y}, torch.Tensor)
        graph.call_method("relu", (x,), {"y": y}, int)
        graph.call_function(max, (x, y), {}, int, "y.Z")
        graph.output(graph.get_attr("linear.weight", torch.Tensor), tuple)

    same_edits(lesson, edit)


def test_a_target_that_the_module_lacks_causes_a_warning(lesson):
    graph = lesson.Graph(owning_module=nn.Linear(2, 2))
    graph.get_attr("weight")  # a warning would be an error
    with pytest.warns(UserWarning, match="(?i)module"):
        graph.get_attr("scale")


@pytest.mark.parametrize(
    ("op", "target", "args"),
    [
        ("call", "x", ()),
        ("call_function", "relu", ()),
        ("call_method", torch.relu, ()),
        ("call_function", max, [1]),
    ],
)
def test_an_impossible_node_is_refused(lesson, op, target, args):
    graph = lesson.Graph()
    with refuses((AssertionError, TypeError, ValueError), cause="the node was created"):
        graph.create_node(op, target, args, name="x")
    equal(len(graph.nodes), 0)


@both_sides
def test_an_insertion_point_needs_no_node_and_no_block(lesson, where):
    def edit(graph):
        with getattr(diamond(graph), where)():
            graph.get_attr("first"), graph.get_attr("second")
        getattr(graph, where)()
        graph.get_attr("afterwards")

    same_edits(lesson, edit)


def test_the_output_is_the_last_node(lesson):
    graph = diamond(lesson.Graph())
    equal(graph.output_node().name, "output")
    graph.get_attr("after")
    with refuses((AssertionError, RuntimeError), cause="another node was returned"):
        graph.output_node()


# --- arguments ------------------------------------------------------------------------------------


def test_a_single_argument_can_be_set(lesson):
    def edit(graph):
        x, y = graph.placeholder("x"), graph.placeholder("y")
        node = graph.call_function(max, (x, 1), {"key": x})
        node.update_arg(1, [y])
        node.update_kwarg("key", y)
        node.insert_arg(2, y)

    same_edits(lesson, edit)


@pytest.mark.beyond(
    "`insert_arg` writes the inputs itself: the new one comes last, and a list stays the caller's"
)
def test_an_inserted_argument_is_copied_and_is_an_input(lesson):
    graph, x, y = placeholders(lesson, "xy")
    node, parts = graph.call_function(max, (y,)), [x]
    node.insert_arg(0, parts)
    parts.append(1)
    equal((node.all_input_nodes, repr(node.args)), ([x, y], "([x], y)"))


def test_normalized_arguments_have_the_names_of_the_signature(lesson):
    def edit(graph):
        x = graph.placeholder("x")
        calls = [
            graph.call_function(nn.functional.relu, (x,), {"inplace": True}),
            graph.call_module("linear", (x,)),
            graph.call_method("relu", (x,)),
        ]
        return [node.normalized_arguments(effects.Owner()) for node in calls]

    same_edits(lesson, edit)


def test_a_stack_trace_is_metadata(lesson):
    _, x = placeholders(lesson, "x")
    x.stack_trace = "a line"
    equal((x.meta, x.stack_trace), ({"stack_trace": "a line"}, "a line"))


# --- replacing ------------------------------------------------------------------------------------


def test_a_user_may_be_left_out(lesson):
    def edit(graph):
        x = graph.placeholder("x")
        wrapped = graph.call_method("wrap", (x,))
        graph.output([x, wrapped])
        return x.replace_all_uses_with(wrapped, lambda user: user is not wrapped)

    same_edits(lesson, edit)


def test_metadata_is_passed_on_if_asked_for(lesson):
    _, x, y = placeholders(lesson, "xy")
    x.meta["note"] = 1
    x.replace_all_uses_with(y, propagate_meta=True)
    equal(y.meta, {"note": 1})
    with refuses((AssertionError, ValueError)):
        x.replace_all_uses_with(y, propagate_meta=True)


# --- order ----------------------------------------------------------------------------------------


def test_nodes_are_compared_by_their_order(lesson):
    _, x, y = placeholders(lesson, "xy")
    equal((x < y, y < x, x <= x, y > x, x >= y), (True, False, True, True, False))
    equal((x < x, x > x), (False, False))
    y.append(x)
    equal((x < y, sorted([x, y])), (False, [y, x]))


@both_sides
def test_the_order_is_right_between_any_two_nodes(lesson, where):
    graph, x, y = placeholders(lesson, "xy")
    with getattr(graph, where)(y if where == "inserting_before" else x):
        for _ in range(100):
            graph.placeholder("new")
    equal(sorted(reversed(graph.nodes)), list(graph.nodes))


# --- erased nodes, and other graphs' --------------------------------------------------------------


@pytest.mark.parametrize(
    "edit",
    [
        lambda x, y: x.prepend(y),
        lambda x, y: x.graph.erase_node(y),
        pytest.param(lambda x, y: x.graph.inserting_before(y), marks=pytest.mark.unasked),
        pytest.param(lambda x, y: x.graph.inserting_after(y), marks=pytest.mark.unasked),
    ],
    ids=["move", "erase", "before", "after"],
)
def test_a_node_of_another_graph_is_refused(lesson, edit):
    x, y = (lesson.Graph().placeholder(name) for name in "xy")
    with refuses((AssertionError, RuntimeError, ValueError), cause="the other graph's was taken"):
        edit(x, y)


def test_erasing_a_node_again_causes_a_warning(lesson):
    graph, x = placeholders(lesson, "x")
    graph.erase_node(x)
    with warns_of("x", "erased"):
        graph.erase_node(x)
    equal(len(graph.nodes), 0)


@pytest.mark.beyond("the list loses a node, or has it in one direction only")
@pytest.mark.parametrize("edit", ["return", "insert"])
def test_an_erased_node_has_no_place_in_the_list(lesson, edit):
    graph = diamond(lesson.Graph())
    *_, add, output = graph.nodes
    graph.inserting_before(output)
    graph.erase_node(output)
    with refuses(RuntimeError, "output", "erased"):
        add.append(output) if edit == "return" else graph.call_method("new")
    equal((len(list(graph.nodes)), len(list(reversed(graph.nodes)))), (4, 4))


# --- copies ---------------------------------------------------------------------------------------


def test_the_output_is_returned_if_asked_for(lesson):
    source = diamond(lesson.Graph())
    value, output = lesson.Graph().graph_copy(source, {}, return_output_node=True)
    equal((value.name, output), ("add", source.output_node()))
    equal(lesson.Graph().graph_copy(lesson.Graph(), {}, return_output_node=True), None)


def test_a_graph_can_be_copied_and_pickled(lesson):
    graph = diamond(lesson.Graph(tracer_cls=fx.Tracer))
    graph.output_node().args = ({"key": [1, *graph.output_node().all_input_nodes]},)
    graph.output_node().meta["note"] = 1
    with graph.inserting_before():
        graph.create_node("placeholder", "scale", name="factor", type_expr=int)
    for twin in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        equal(state(twin), state(graph))
        equal((twin.output_node().meta, twin._tracer_cls), ({"note": 1}, fx.Tracer))
        equal(twin.call_method("relu").name, "relu_1")


@pytest.mark.beyond("each node holds the next: a `RecursionError`")
def test_a_long_graph_can_be_pickled(lesson):
    equal(len(pickle.loads(pickle.dumps(chain(lesson.Graph(), 4_000))).nodes), 4_002)


# --- the module of a graph ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "target", "is_fine"),
    [
        ("get_attr", "linear.weight", True),
        ("get_attr", "linear.scale", False),
        ("call_module", "linear", True),
        ("call_module", "linear.weight", False),
        ("call_method", "nowhere", True),
    ],
)
def test_lint_checks_that_the_targets_exist(lesson, op, target, is_fine):
    graph = lesson.Graph(effects.Owner())
    graph.create_node(op, target)
    with nullcontext() if is_fine else refuses(RuntimeError, target, cause="it wasn't noticed"):
        graph.lint()


def kept(lesson, name: str) -> list[str]:
    """What dead code elimination leaves of a graph with one call whose result isn't used."""
    graph = lesson.Graph(effects.Owner())
    x = graph.placeholder("x")
    effects.CALLS[name](graph, x)
    graph.eliminate_dead_code()
    return [node.op for node in graph.nodes if node is not x]


shorter = pytest.mark.beyond("torch's list of functions with an effect is shorter")
UNKNOWN_TO_TORCH = [pytest.param(name, marks=shorter) for name in effects.UNKNOWN_TO_TORCH]


@pytest.mark.parametrize("name", [*effects.KNOWN_TO_TORCH, *UNKNOWN_TO_TORCH])
def test_a_call_with_an_effect_is_not_dead(lesson, name):
    holds(kept(lesson, name), "the call stays")


@pytest.mark.parametrize("name", effects.HARMLESS)
def test_a_call_without_an_effect_is_dead(lesson, name):
    equal(kept(lesson, name), [])


def test_a_function_that_draws_random_numbers_may_be_dead(lesson):
    node = lesson.Graph().call_function(torch.ops.aten.rand.default, ((2,),))
    equal((node.is_impure(), node.is_impure(impure_random=False)), (True, False))


def test_lint_finds_two_nodes_of_one_name(lesson):
    graph = diamond(lesson.Graph())
    graph.placeholder("y").name = "x"
    with refuses(RuntimeError, "x", cause="it was not found"):
        graph.lint()


def test_dead_code_of_a_graph_that_cannot_run_is_refused(lesson):
    graph = diamond(lesson.Graph())
    first, second, *_ = graph.nodes
    second.append(first)
    with refuses(RuntimeError, cause="code was removed from a graph that can't run"):
        graph.eliminate_dead_code()


# --- printing and code ----------------------------------------------------------------------------


@pytest.mark.parametrize("build", cases.MODELS.values(), ids=cases.MODELS)
def test_graphs_of_models_are_printed_as_torch_prints_them(lesson, build):
    traced = fx.Tracer().trace(build().model)
    graph = lesson.Graph()
    graph.output(graph.graph_copy(traced, {}), traced.output_node().type)
    for got, expected in zip(str(graph).splitlines(), str(traced).splitlines(), strict=True):
        equal(got, expected)


def test_annotations_and_defaults_are_printed(lesson):
    def edit(graph):
        x, y = graph.placeholder("x", int), graph.placeholder("y", list[int], default_value=None)
        graph.call_function(torch.Tensor.__add__, (x, [y, (x,)]), {"key": {"a": x}}, torch.Tensor)
        graph.output((x, y), tuple)
        return str(graph)

    same_edits(lesson, edit)


class Reversing(fx.graph.CodeGen):
    def process_inputs(self, *args):
        return args[::-1]


def test_inputs_go_through_the_code_generator(lesson):
    graph = lesson.Graph()
    equal((graph.process_inputs(1, 2), graph.process_outputs(3)), ((1, 2), 3))
    graph.set_codegen(Reversing())
    for each in (graph, copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        equal((each.process_inputs(1, 2), each.process_outputs(3)), ((2, 1), 3))


@pytest.mark.unasked
def test_nodes_have_the_attributes_that_passes_of_torch_read(lesson):
    graph, x = placeholders(lesson, "x")
    double = graph.call_function(operator.add, (x, x))
    equal((list(double._input_nodes), double in graph._find_nodes_lookup_table), ([x], True))
    graph.erase_node(double)
    equal((x._erased, double._erased), (False, True))


@pytest.mark.unasked
def test_proxies_of_torch_are_recorded(lesson):
    graph, x = placeholders(lesson, "x")
    tracer = fx.Tracer()
    tracer.root, tracer.graph = nn.Module(), graph
    torch.relu(tracer.proxy(x)).sum()
    equal([node.name for node in graph.nodes], ["x", "relu", "sum_1"])


# --- at length ------------------------------------------------------------------------------------


def reverse(graph):
    for node in list(graph.nodes):
        next(iter(graph.nodes)).prepend(node)


def compare(graph):
    for node in list(graph.nodes):
        with graph.inserting_before(node):
            graph.placeholder("new"), graph.placeholder("new")
        assert node.prev.prev < node.prev < node


def narrow(graph):
    """Move each node between two others, to the left and to the right of the one before."""
    left, right, *rest = graph.nodes
    for index, node in enumerate(rest):
        if index % 2:
            left.append(node)
            left = node
        else:
            right.prepend(node)
            right = node
        assert left < right


WORK = {
    "building": lambda graph, count: lambda: chain(graph, count),
    "dead code": lambda graph, count: unused(chain(graph, count)).eliminate_dead_code,
    "copying": lambda graph, count: lambda: type(graph)().graph_copy(chain(graph, count), {}),
    "pickling": lambda graph, count: lambda: pickle.dumps(chain(graph, count)),
    "users": lambda graph, count: functools.partial(swapped, chain(graph, count)),
    "moving": lambda graph, count: functools.partial(reverse, chain(graph, count)),
    "comparing": lambda graph, count: functools.partial(compare, chain(graph, count)),
    "comparing between two": lambda graph, count: functools.partial(narrow, chain(graph, count)),
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_the_work_grows_with_the_number_of_nodes(lesson, work):
    is_linear(lambda count: work(lesson.Graph(), count), 100, "nodes")
