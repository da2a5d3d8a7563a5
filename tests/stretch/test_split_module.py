"""Cutting a graph, the rest: torch's options, regions, sizes, what is better than in torch."""

import itertools
import random
import re
import warnings
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.distributed.pipelining import SplitPoint, pipeline
from torch.fx import Graph, GraphModule, Node, symbolic_trace
from torch.fx._lazy_graph_module import _LazyGraphModule, _use_lazy_graph_module
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.passes.split_module import split_module as torch_split_module
from torch.utils._pytree import tree_leaves

from tests import random_models
from tests.models.split_module import (
    MODELS,
    Chain,
    Parts,
    TwoViews,
    built,
    calls,
    for_any_cut,
    in_stages,
    model_and_image,
    named,
    names,
    numbered,
    numbers_and_gradients,
    outcome,
    same_split,
    same_submodules,
    split_with,
    submodules,
)
from tests.suite import equal, growth, holds, is_value, refuses, rows, same_numbers

LINEAR = 2.5
MANY = 60
TUPLE_RETURN = pytest.mark.since("2.12", "split_module takes tuple_return")


# --- The steps


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([0, "0", 0], ["0"]),
        ([1, True, 1.0], ["1", "True", "1.0"]),
        ([None, "a", None], ["None", "a"]),
    ],
    ids=["text", "number", "word"],
)
def test_answers_are_the_same_if_their_text_is_the_same(lesson, answers, expected):
    deal = iter(answers)
    partitions = lesson.assign_nodes(symbolic_trace(Chain()).graph, lambda node: next(deal))
    equal(
        [partition.name for partition in partitions],
        expected,
        cause=(lambda got: len(got) != len(expected), "the answers themselves were compared"),
    )


@pytest.mark.parametrize(
    ("needed", "expected"), [("one", ["one", "last", "two"]), ("two", ["one", "two", "last"])]
)
def test_of_several_ready_partitions_the_first_in_the_graph_runs_first(lesson, needed, expected):
    relu = calls(symbolic_trace(Chain()).graph)[0]
    last, one, two = (lesson.Partition(name) for name in ("last", "one", "two"))
    last.inputs = {relu: {"one": one, "two": two}[needed]}
    equal(
        [partition.name for partition in lesson.order_partitions([last, one, two])],
        expected,
        cause=(
            lambda got: sorted(got) == sorted(expected) and got.index("last") > got.index(needed),
            "each runs after what it needs, but one waits that comes earlier in the graph",
        ),
    )


def test_the_value_that_the_error_of_a_cycle_names_goes_from_one_to_another(lesson):
    graph = Graph()
    outside, *between = (
        graph.create_node("call_function", torch.rand, (3,), name=name)
        for name in ("outside", "between_1", "between_2", "between_3")
    )
    free, *circle = (lesson.Partition(name) for name in ("free", "one", "two", "three"))
    for user, value, maker in zip(circle, between, [circle[-1], *circle]):
        user.inputs = {outside: free, value: maker}
    with refuses(
        RuntimeError,
        "between_",
        cause=[
            (
                lambda error: "outside" in str(error),
                "the value named comes from outside the circle",
            ),
            (lambda error: error, "the message names no value of the circle"),
        ],
    ):
        lesson.order_partitions([free, *circle])


def test_the_original_order_is_refused_where_a_partition_would_run_too_early(lesson):
    relu = calls(symbolic_trace(Chain()).graph)[0]
    early, late = lesson.Partition("early"), lesson.Partition("late")
    early.inputs = {relu: late}
    with refuses(
        RuntimeError,
        "submod_early",
        "submod_late",
        cause="a partition would be called before the one whose value it needs",
    ):
        lesson.order_partitions([early, late], keep_original_order=True)


def test_a_module_that_is_gone_is_named(lesson):
    m = symbolic_trace(Chain())
    del m.outer
    with refuses(
        AttributeError,
        "outer.0.0",
        cause=(lambda error: "outer" in str(error), "the path is not told, only where it ends"),
    ):
        lesson.split_module(m, m, in_stages(m, 3))


def test_a_parameter_that_is_gone_is_named(lesson):
    m = symbolic_trace(TwoViews())
    del m.scale
    with refuses(AttributeError, "scale"):
        lesson.split_module(m, m, lambda node: 0)


class AlikePaths(nn.Module):
    """Three modules whose paths become equal when the dots go; one is called twice."""

    def __init__(self):
        super().__init__()
        self.a, self.a_b = nn.Module(), nn.Module()
        self.a.b_c = nn.Linear(3, 3)
        self.a_b.c = nn.Linear(3, 3)
        self.a.b = nn.Module()
        self.a.b.c = nn.Linear(3, 3)

    def forward(self, x):
        return self.a_b.c(self.a.b.c(self.a_b.c(self.a.b_c(x))))


def test_flat_names_that_look_alike_are_counted(lesson):
    m = symbolic_trace(AlikePaths())
    submodule = built(lesson, m, "x", " ".join(names(calls(m.graph))), "a_b_c_2")
    paths = {"a_b_c": "a.b_c", "a_b_c_1": "a_b.c", "a_b_c_2": "a.b.c"}
    equal(
        [node.target for node in calls(submodule.graph)],
        ["a_b_c", "a_b_c_1", "a_b_c_2", "a_b_c_1"],
        cause=(lambda got: len(set(got)) < 3, "two paths have one flat name"),
    )
    holds(
        all(getattr(submodule, new) is m.get_submodule(old) for new, old in paths.items()),
        "each module under its own name",
        got=submodule,
    )


# --- torch's options


@pytest.mark.parametrize(
    "options",
    [
        {"keep_original_input_name": False},
        pytest.param({"tuple_return": True}, marks=TUPLE_RETURN),
        {"partition_affix": "pp"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_every_later_option_gives_the_graphs_that_torch_gives(lesson, options):
    m = symbolic_trace(TwoViews())
    same_split(
        split_with(lesson, m, in_stages(m, 3), **options),
        torch_split_module(m, m, in_stages(m, 3), **options),
    )


@pytest.mark.parametrize("affix", ["pp", ""])
def test_an_affix_goes_before_the_number(lesson, affix):
    m = symbolic_trace(Chain())
    split = split_with(lesson, m, lambda node: 0, partition_affix=affix)
    equal(
        list(submodules(split)),
        [f"submod_{affix}_0"],
        cause=(is_value(["submod_0"]), "there is no affix in the name"),
    )


def test_inputs_can_be_named_by_their_position(lesson):
    m = symbolic_trace(TwoViews())
    split = split_with(lesson, m, lambda node: 0, keep_original_input_name=False)
    equal(
        names(split.submod_0.graph.find_nodes(op="placeholder")),
        ["arg_0", "arg_1", "arg_2"],
        cause=(is_value(["x", "param", "y"]), "the placeholders keep the names of the values"),
    )


@TUPLE_RETURN
def test_a_single_value_can_be_returned_in_a_tuple(lesson):
    m = symbolic_trace(Chain())
    split = split_with(lesson, m, lambda node: 0, tuple_return=True)
    result = split.submod_0(torch.rand(3, 3))
    equal(
        type(result), tuple, cause=(is_value(torch.Tensor), "the single value is returned as it is")
    )


@pytest.mark.unasked
@pytest.mark.since("2.12", "split_module makes lazy modules")
def test_code_is_generated_late_where_the_caller_asks_for_that(lesson):
    m = symbolic_trace(Chain())
    with _use_lazy_graph_module(True):
        split = lesson.split_module(m, m, in_stages(m, 2))
    holds(
        isinstance(split, _LazyGraphModule) and isinstance(split.submod_0, _LazyGraphModule),
        "lazy modules inside _use_lazy_graph_module",
        got=type(split).__mro__,
    )


# --- whole models


def test_what_nobody_uses_is_not_lost(lesson):
    graph = Graph()
    x, *_ = (graph.placeholder(name) for name in ("x", "unused", "optional", "last"))
    graph.get_attr("weight")
    graph.output(graph.call_function(torch.relu, (x,)))
    m = GraphModule(Parts(), graph)
    same_split(lesson.split_module(m, m, lambda node: 0), torch_split_module(m, m, lambda node: 0))


def test_a_model_that_takes_any_number_of_arguments_can_be_cut(lesson):
    class Sum(nn.Module):
        def forward(self, *terms):
            return torch.relu(terms[0]) + terms[1]

    m = symbolic_trace(Sum())
    split = lesson.split_module(m, m, in_stages(m, 2))
    equal(
        next(iter(split.graph.nodes)).target,
        "*terms",
        cause=(is_value("terms"), "the star of *terms was lost"),
    )
    x, y = torch.rand(3), torch.rand(3)
    same_numbers(split(x, y), m(x, y))


def test_a_split_model_can_be_split_again(lesson):
    model = TwoViews()
    m = symbolic_trace(model)
    split = lesson.split_module(m, model, in_stages(m, 3))
    again = lesson.split_module(split, split, in_stages(split, 2))
    x, y = torch.rand(3, 4), torch.rand(3, 4)
    same_numbers(again(x, y), model(x, y))


@pytest.mark.parametrize("deep", [False, True])
def test_a_module_with_the_name_of_a_submodule_keeps_its_parameters(lesson, deep):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.submod_0 = nn.Sequential(nn.Linear(3, 3)) if deep else nn.Linear(3, 3)

        def forward(self, x):
            return torch.relu(x) + (self.submod_0[0] if deep else self.submod_0).weight

    m = symbolic_trace(Model())
    split = lesson.split_module(m, m, lambda node: 0)
    x = torch.rand(3, 3)
    same_numbers(split(x), m(x))


# --- modules in the graph


class WithBody(nn.Module):
    """A graph that passes a module to a function, as control flow operators do."""

    def __init__(self):
        super().__init__()
        self.deep = nn.Module()
        self.deep.body = nn.Linear(3, 3)


def apply_module(module, x):
    return module(x)


def graph_with_body() -> GraphModule:
    graph = Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(torch.relu, (x,))
    body = graph.get_attr("deep.body")
    first = graph.call_function(apply_module, (body, relu))
    graph.output(graph.call_function(apply_module, (body, first)))
    return GraphModule(WithBody(), graph)


@pytest.mark.since("2.13", "split_module reads a module where it is used")
def test_a_module_is_read_inside_and_not_passed_in(lesson):
    m = graph_with_body()
    split = lesson.split_module(m, m, numbered(relu=0, apply_module=1, apply_module_1=1))
    equal(
        names(split.submod_1.graph.find_nodes(op="placeholder")),
        ["relu"],
        cause=(lambda got: "deep_body" in got, "the get_attr of a module was made an input"),
    )


@pytest.mark.since("2.13", "split_module reads a module where it is used")
def test_a_module_read_inside_keeps_its_path(lesson):
    m = graph_with_body()
    split = lesson.split_module(m, m, numbered(relu=0, apply_module=1, apply_module_1=1))
    equal(
        [node.target for node in split.submod_1.graph.find_nodes(op="get_attr")],
        ["deep.body"],
        cause=(is_value(["deep_body"]), "the path was made flat"),
    )
    holds(split.submod_1.get_submodule("deep.body") is m.deep.body, "the module itself")


@pytest.mark.since("2.13", "split_module reads a module where it is used")
def test_modules_in_the_graph_are_read_where_they_are_used(lesson):
    m = graph_with_body()
    callback = numbered(relu=0, apply_module=1, apply_module_1=2)
    same_split(lesson.split_module(m, m, callback), torch_split_module(m, m, callback))


# --- better than torch


@pytest.mark.beyond(
    "where autocast or gradients are switched it is asked twice, once more for every region "
    "that is open, and once more about the call that switches: six times have been counted"
)
def test_the_callback_is_asked_once_per_call_whatever_the_graph_holds(lesson):
    m, asked = autocast_graph(), Counter()

    def callback(node):
        asked.update([node.name])
        return 0

    lesson.split_module(m, m, callback)
    equal(
        dict(asked),
        {node.name: 1 for node in calls(m.graph)},
        cause=(lambda got: max(got.values()) > 1, "the callback was asked again about a node"),
    )


@pytest.mark.beyond("`_fx_partition` stays on every node")
def test_nothing_is_left_on_the_nodes(lesson):
    m = symbolic_trace(TwoViews())
    before = {node: set(vars(node)) for node in m.graph.nodes}
    lesson.split_module(m, m, in_stages(m, 2))
    equal(
        {node: set(vars(node)) - names for node, names in before.items()},
        {node: set() for node in before},
    )


@pytest.mark.beyond("torch takes the partition that became ready last")
def test_independent_partitions_keep_the_order_of_the_graph(lesson):
    m = symbolic_trace(lambda x: (torch.relu(x), torch.tanh(x), torch.sigmoid(x)))
    split = lesson.split_module(m, m, numbered(relu=2, tanh=0, sigmoid=1))
    equal(
        list(submodules(split)),
        ["submod_2", "submod_0", "submod_1"],
        cause=(
            lambda got: sorted(got) == ["submod_0", "submod_1", "submod_2"],
            "partitions that depend on nothing were reordered",
        ),
    )


@pytest.mark.beyond("torch says only that a cycle exists")
@pytest.mark.parametrize("told", ["submod_17", "submod_4", re.compile(r"\b(tanh|outer_0_0)\b")])
def test_the_error_of_a_cycle_names_submodules_and_a_value(lesson, told):
    m = symbolic_trace(Chain())
    try:
        lesson.split_module(m, m, numbered(tanh=17, outer_0_0=4, relu=17))
    except NotImplementedError:
        raise
    except RuntimeError as error:
        message = str(error)
    holds(
        re.search(told, message),
        "the partitions by submod_name, and a value that one of them makes for the other",
        got=message,
    )


@pytest.mark.beyond("one of the two modules is run twice")
def test_paths_that_look_alike_stay_apart(lesson):
    m = symbolic_trace(AlikePaths())
    split, x = lesson.split_module(m, m, lambda node: 0), torch.rand(2, 3)
    same_numbers(
        split(x),
        m(x),
        cause=(
            len({node.target for node in calls(split.submod_0.graph)}) < 3,
            "two paths became the same name: one of two modules is called in place of the other",
        ),
    )


@pytest.mark.beyond("torch drops the star: the model then takes one argument")
def test_any_number_of_arguments_and_original_names_go_together(lesson):
    class Sum(nn.Module):
        def forward(self, *terms):
            return torch.relu(terms[0]) + terms[1]

    m = symbolic_trace(Sum())
    split = lesson.split_module(m, m, in_stages(m, 2), keep_original_node_name=True)
    holds(
        next(iter(split.graph.nodes)).target.startswith("*"),
        "an argument with a star, such as *terms",
        got=next(iter(split.graph.nodes)).target,
    )
    x, y = torch.rand(3), torch.rand(3)
    same_numbers(split(x, y), m(x, y))


@pytest.mark.beyond("torch fails with `KeyError`")
def test_a_parameter_that_only_the_output_uses_keeps_its_place_in_the_original_order(lesson):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.rand(3))

        def forward(self, x):
            return torch.relu(x), self.scale

    m = symbolic_trace(Model())
    split = lesson.split_module(m, m, lambda node: 0, keep_original_order=True)
    x = torch.rand(3)
    same_numbers(split(x), m(x))


def test_partitions_are_called_in_the_original_order_if_asked(lesson):
    m = symbolic_trace(lambda x: x.relu().tanh() + x.neg())
    callback = numbered(relu=0, tanh=1, neg=2, add=3)
    split = lesson.split_module(m, m, callback, keep_original_order=True)
    called = [node.target for node in split.graph.find_nodes(op="call_module")]
    equal(called, [f"submod_{number}" for number in range(4)])


@pytest.mark.beyond("torch fails with `KeyError`")
def test_an_original_order_that_cannot_run_is_refused(lesson):
    m = symbolic_trace(lambda x: torch.relu(x) + torch.tanh(torch.sigmoid(x)))
    with refuses(
        RuntimeError,
        "submod_0",
        "submod_1",
        cause="submod_0 is called before submod_1, whose value it needs",
    ):
        callback = numbered(relu=0, sigmoid=1, tanh=1, add=0)
        lesson.split_module(m, m, callback, keep_original_order=True)


# --- autocast and gradient regions


def autocast_graph() -> GraphModule:
    """x @ x inside autocast, three times, in a row."""
    graph = Graph()
    x = graph.placeholder("x")
    enter = graph.call_function(_enter_autocast, ("cpu", torch.bfloat16, True, None))
    first = graph.call_function(torch.mm, (x, x))
    second = graph.call_function(torch.mm, (first, x))
    third = graph.call_function(torch.mm, (second, x))
    graph.call_function(_exit_autocast, (enter,))
    graph.output(graph.call_function(torch.mul, (third, 2.0)))
    return GraphModule(nn.Module(), graph)


def nested_autocast_graph() -> GraphModule:
    """bfloat16 around float32 around one product."""
    graph = Graph()
    x = graph.placeholder("x")
    outer = graph.call_function(_enter_autocast, ("cpu", torch.bfloat16, True, None))
    first = graph.call_function(torch.mm, (x, x))
    inner = graph.call_function(_enter_autocast, ("cpu", torch.bfloat16, False, None))
    second = graph.call_function(torch.mm, (x, x))
    graph.call_function(_exit_autocast, (inner,))
    third = graph.call_function(torch.mm, (x, x))
    graph.call_function(_exit_autocast, (outer,))
    graph.output((first, second, third))
    return GraphModule(nn.Module(), graph)


def grad_graph() -> GraphModule:
    """Gradients off for one product, and on again."""
    graph = Graph()
    x = graph.placeholder("x")
    first = graph.call_function(torch.mul, (x, 2))
    graph.call_function(torch._C._set_grad_enabled, (False,))
    second = graph.call_function(torch.mul, (first, 3))
    third = graph.call_function(torch.mul, (second, 4))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    fourth = graph.call_function(torch.mul, (first, third))
    graph.output((fourth, third, first))
    return GraphModule(nn.Module(), graph)


@pytest.fixture
def gradients_on():
    """A test that switches gradients leaves them on, whatever became of it."""
    yield
    torch.set_grad_enabled(True)


def mixed_graph() -> GraphModule:
    """Autocast while gradients are off."""
    graph = Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    enter = graph.call_function(_enter_autocast, ("cpu", torch.bfloat16, True, None))
    first = graph.call_function(torch.mm, (x, x))
    second = graph.call_function(torch.mm, (first, x))
    graph.call_function(_exit_autocast, (enter,))
    third = graph.call_function(torch.mul, (x, 2.0))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    graph.output((second, third, graph.call_function(torch.mul, (x, 3.0))))
    return GraphModule(nn.Module(), graph)


def crossed_autocast_graph() -> GraphModule:
    """The autocast that is entered first is left first: to be cut, and better not to be run."""
    graph = Graph()
    x = graph.placeholder("x")
    one = graph.call_function(_enter_autocast, ("cpu", torch.bfloat16, True, None))
    two = graph.call_function(_enter_autocast, ("cpu", torch.bfloat16, False, None))
    first = graph.call_function(torch.mm, (x, x))
    graph.call_function(_exit_autocast, (one,))
    second = graph.call_function(torch.mm, (first, x))
    graph.call_function(_exit_autocast, (two,))
    graph.output(graph.call_function(torch.mul, (second, 2.0)))
    return GraphModule(nn.Module(), graph)


REGIONS = {
    "autocast": autocast_graph,
    "nested": nested_autocast_graph,
    "gradients": grad_graph,
    "mixed": mixed_graph,
}


def mode_changes(split: GraphModule) -> list[list[str]]:
    """What each submodule switches, in order: `+1` enters the graph's first autocast, `-1` exits.

    `g` switches gradients.
    """
    return [
        [str(node.meta["change"]) for node in submodule.graph.nodes if "change" in node.meta]
        for _, submodule in sorted(submodules(split).items())
    ]


def marked(m: GraphModule) -> GraphModule:
    """The model, with a note of what it switches on each node that does."""
    enters = [node for node in m.graph.nodes if node.target is _enter_autocast]
    for node in m.graph.nodes:
        if node in enters:
            node.meta["change"] = f"+{enters.index(node) + 1}"
        elif node.target is _exit_autocast:
            node.meta["change"] = f"-{enters.index(node.args[0]) + 1}"
        elif node.target is torch._C._set_grad_enabled:
            node.meta["change"] = "g"
    return m


def cut_after(m: GraphModule, *last: str):
    """A callback that begins a new partition after each of the nodes named."""
    at = [node.name for node in calls(m.graph)]
    return lambda node: sum(at.index(node.name) > at.index(name) for name in last)


def test_a_partition_reenters_and_exits_early_what_reaches_beyond_it(lesson):
    m = marked(nested_autocast_graph())
    split = lesson.split_module(m, m, cut_after(m, "_enter_autocast_1", "mm_1"))
    equal(
        mode_changes(split),
        [["+1", "+2", "-2", "-1"], ["+1", "+2", "-2", "-1"], ["+1", "+2", "-2", "-1"]],
        cause=[
            (lambda got: any(len(row) < 4 for row in got), "a region is not entered, or not left"),
            (lambda got: "-1" in got[1] and got[1].index("-1") == 2, "the outer one is left first"),
        ],
    )


def test_autocast_regions_are_reentered_before_gradient_regions(lesson):
    m = marked(mixed_graph())
    split = lesson.split_module(m, m, cut_after(m, "_enter_autocast"))
    equal(
        mode_changes(split),
        [["g", "+1", "-1"], ["+1", "g", "-1", "g"]],
        cause=(lambda got: got[1][:2] == ["g", "+1"], "they are entered in the graph's order"),
    )


def test_an_exit_leaves_the_autocast_that_it_names(lesson):
    m = marked(crossed_autocast_graph())
    split = lesson.split_module(m, m, cut_after(m, "mm", "mm_1"))
    equal(
        mode_changes(split),
        [["+1", "+2", "-2", "-1"], ["+1", "+2", "-1", "-2"], ["+2", "-2"]],
        cause=(
            lambda got: got[2][:1] == ["+1"],
            "an exit was taken to end the region that was entered last",
        ),
    )


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_crossed_regions_are_cut_as_torch_cuts_them(lesson, stages):
    m = crossed_autocast_graph()
    same_submodules(
        lesson.split_module(m, m, in_stages(m, stages)),
        torch_split_module(m, m, in_stages(m, stages)),
    )


def test_nothing_crosses_from_a_mode_change(lesson):
    m = autocast_graph()
    split = lesson.split_module(m, m, cut_after(m, "mm"))
    equal(
        names(split.submod_1.graph.find_nodes(op="placeholder")),
        ["mm", "x"],
        cause=(lambda got: "_enter_autocast" in got, "the node of _enter_autocast was passed on"),
    )


def test_mode_changes_are_copied_before_the_inputs_and_after_the_nodes(lesson):
    m = nested_autocast_graph()
    split = lesson.split_module(m, m, cut_after(m, "_enter_autocast_1", "mm_1"))
    equal(
        [str(row).partition(" = ")[2] for row in rows(split.submod_1.graph)][2:],
        [
            "placeholder x()",
            "call_function mm(x, x)",
            "call_function _exit_autocast(_enter_autocast_1)",
            "call_function _exit_autocast(_enter_autocast)",
            "output output(mm)",
        ],
    )


@pytest.mark.parametrize("stages", [2, 3, 4, 8])
@pytest.mark.parametrize("region", REGIONS)
def test_regions_are_cut_as_torch_cuts_them(lesson, region, stages):
    m = REGIONS[region]()
    callback = in_stages(m, min(stages, len(calls(m.graph))))
    same_submodules(lesson.split_module(m, m, callback), torch_split_module(m, m, callback))


@pytest.mark.parametrize("region", REGIONS)
def test_a_cut_region_computes_what_the_whole_computes(lesson, region, gradients_on):
    m = REGIONS[region]()
    split = lesson.split_module(m, m, in_stages(m, 3))
    x = torch.rand(3, 3, requires_grad=True)
    ours, theirs = split(x), m(x)
    same_numbers(ours, theirs)
    equal(
        [value.requires_grad for value in tree_leaves(ours)],
        [value.requires_grad for value in tree_leaves(theirs)],
    )


@pytest.mark.beyond("torch fails with `KeyError`: it looks for the partition without its affix")
@pytest.mark.parametrize("region", REGIONS)
def test_an_affix_and_a_region_go_together(lesson, region):
    m = REGIONS[region]()
    split = split_with(lesson, m, in_stages(m, 3), partition_affix="pp")
    equal(list(submodules(split)), ["submod_pp_0", "submod_pp_1", "submod_pp_2"])


@pytest.mark.beyond("torch runs what comes before the switch after it")
def test_nothing_moves_behind_a_switch(lesson, gradients_on):
    graph = Graph()
    x = graph.placeholder("x")
    before = graph.call_function(torch.relu, (x,))
    graph.call_function(torch._C._set_grad_enabled, (False,))
    after = graph.call_function(torch.tanh, (x,))
    graph.output((before, after))
    m = GraphModule(nn.Module(), graph)
    split = lesson.split_module(m, m, numbered(relu=0, _set_grad_enabled=1, tanh=1))
    value, _ = split(torch.rand(3, requires_grad=True))
    holds(
        value.requires_grad,
        "relu, before gradients are switched off, to run with gradients",
        got=split.code,
        cause=(next(iter(submodules(split))) == "submod_1", "what switches was called first"),
    )


@pytest.mark.beyond("torch raises an `AssertionError`")
def test_numbers_that_go_down_are_refused_where_something_is_switched(lesson):
    m = autocast_graph()
    callback = numbered(_enter_autocast=1, mm=1, mm_1=0, mm_2=1, _exit_autocast=1, mul=1)
    with refuses(
        RuntimeError,
        "mm_1",
        "submod_0",
        cause="mm_1 was put into a partition from before the switch",
    ):
        lesson.split_module(m, m, callback)


@pytest.mark.beyond("torch raises an `AssertionError` that names nothing")
def test_an_autocast_without_an_end_is_refused(lesson):
    m = autocast_graph()
    leave = named(m.graph)["_exit_autocast"]
    m.graph.erase_node(leave)
    with refuses(
        RuntimeError,
        "_enter_autocast",
        cause="no node leaves this autocast: it goes on after the model has run",
    ):
        lesson.split_module(m, m, lambda node: 0)


@pytest.mark.beyond("torch fails with `KeyError`")
@pytest.mark.parametrize("named_enter", ["_enter_autocast", None])
def test_an_autocast_that_ends_twice_is_refused(lesson, named_enter):
    m = autocast_graph()
    nodes = named(m.graph)
    with m.graph.inserting_after(nodes["_exit_autocast"]):
        m.graph.call_function(_exit_autocast, (nodes[named_enter],) if named_enter else ())
    with refuses(RuntimeError, "_exit_autocast_1", cause="the second exit has nothing to leave"):
        lesson.split_module(m, m, lambda node: 0)


@pytest.mark.beyond("torch raises an `AssertionError`")
def test_a_switch_that_the_graph_computes_is_refused(lesson):
    graph = Graph()
    mode = graph.placeholder("mode")
    graph.call_function(torch._C._set_grad_enabled, (mode,))
    graph.output(mode)
    m = GraphModule(nn.Module(), graph)
    with refuses(
        RuntimeError,
        "_set_grad_enabled",
        "mode",
        cause="a partition that repeats the call would have to get its setting first",
    ):
        lesson.split_module(m, m, lambda node: 0)


# --- symbolic sizes


def symbolic_graph(*, size_first: bool) -> GraphModule:
    """relu, then add, of a tensor whose first size is symbolic."""
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        fake = torch.empty(mode.shape_env.create_unbacked_symint(), 3)
    graph = Graph()
    size = graph.placeholder("size") if size_first else None
    x = graph.placeholder("x")
    relu = graph.call_function(torch.relu, (x,))
    late = size or graph.call_method("size", (relu, 0))
    add = graph.call_function(torch.add, (relu, 1))
    late.meta["example_value"] = fake.shape[0]
    for node in (x, relu, add):
        node.meta["example_value"] = fake
    graph.output(add)
    return GraphModule(nn.Module(), graph)


def test_a_tensor_brings_its_symbolic_size_along(lesson):
    m = symbolic_graph(size_first=True)
    callback = numbered(relu=0, add=1)
    same_split(lesson.split_module(m, m, callback), torch_split_module(m, m, callback))


def sizes_graph() -> GraphModule:
    """Three symbols, held by more placeholders than there are; two belong to the tensor."""
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        first, second, other = (mode.shape_env.create_unbacked_symint() for _ in range(3))
        fake = torch.empty(second, first)
    held = {"b": second, "other": other, "a": first, "b_again": second, "text": "3"}
    held |= {"twice": first * 2, "x": fake}
    graph = Graph()
    for name, value in held.items():
        graph.placeholder(name).meta["example_value"] = value
    x = named(graph)["x"]
    relu = graph.call_function(torch.relu, (x,))
    relu.meta["example_value"] = fake
    graph.output(graph.call_function(torch.add, (relu, 1)))
    return GraphModule(nn.Module(), graph)


def test_a_tensor_brings_the_first_holder_of_each_of_its_sizes(lesson):
    m = sizes_graph()
    callback = numbered(relu=0, add=1)
    same_split(lesson.split_module(m, m, callback), torch_split_module(m, m, callback))


RAW_SIZES = {
    "argument": lambda size: ((size,), {}),
    "list": lambda size: (([1, (size,)],), {}),
    "keyword": lambda size: ((1,), {"size": size}),
    "dict": lambda size: ((1,), {"sizes": {"first": [size]}}),
    "none": lambda size: ((1, [2]), {"sizes": {"first": 3}}),
}


def graph_with_a_raw_size(place: str) -> GraphModule:
    """One call with a symbolic size among its arguments, which no node holds."""
    graph = Graph()
    arguments, options = RAW_SIZES[place](ShapeEnv().create_unbacked_symint())
    call = graph.create_node(
        "call_function", torch.full, arguments, options, name="filled", type_expr=torch.Tensor
    )
    graph.output(call)
    return GraphModule(nn.Module(), graph)


def heard_from(split_module, m: GraphModule) -> tuple[GraphModule, list[str]]:
    """The split model, and what was warned of meanwhile."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        split = split_module(m, m, lambda node: 0, keep_original_node_name=True)
    return split, [str(warning.message) for warning in heard]


@pytest.mark.filterwarnings("ignore:Raw SymInt")
@pytest.mark.parametrize("place", RAW_SIZES)
def test_a_symbolic_size_that_no_node_holds_is_kept_and_warned_of(lesson, place):
    m = graph_with_a_raw_size(place)
    ours, our_words = heard_from(lesson.split_module, m)
    theirs, their_words = heard_from(torch_split_module, m)
    same_split(ours, theirs)
    equal(
        our_words,
        their_words,
        cause=(lambda got: len(got) < len(their_words), "torch warns more often"),
    )


def test_a_tensor_that_stays_inside_brings_nothing_along(lesson):
    m = sizes_graph()
    del named(m.graph)["x"].meta["example_value"]
    same_split(lesson.split_module(m, m, lambda node: 0), torch_split_module(m, m, lambda node: 0))


@pytest.mark.beyond("torch makes the partition depend on itself: a cycle")
def test_a_size_taken_in_the_partition_itself_does_not_come_in(lesson):
    m = symbolic_graph(size_first=False)
    split = lesson.split_module(m, m, numbered(relu=0, size=1, add=1))
    equal(
        [node.name for node in split.submod_1.graph.find_nodes(op="placeholder")],
        ["relu"],
        cause=(lambda got: "size" in got, "the node that binds the symbol is in this partition"),
    )


@pytest.mark.beyond("torch fails with `KeyError`")
def test_a_size_that_no_node_holds_does_not_come_in(lesson):
    m = symbolic_graph(size_first=True)
    del named(m.graph)["size"].meta["example_value"]
    split = lesson.split_module(m, m, numbered(relu=0, add=1))
    equal([node.name for node in split.submod_1.graph.find_nodes(op="placeholder")], ["relu"])


# --- random graphs and trees


def test_whatever_torch_can_cut_has_the_same_submodules(lesson):
    def check(cut):
        theirs = outcome(torch_split_module, cut.m, cut.m, cut.callback)
        if theirs is None:
            with refuses(RuntimeError, cause="a cycle was not found"):
                lesson.split_module(cut.m, cut.m, cut.callback)
        else:
            same_submodules(lesson.split_module(cut.m, cut.m, cut.callback), theirs)

    for_any_cut(check, MANY)


@TUPLE_RETURN
def test_with_any_options_the_submodules_are_those_of_torch(lesson):
    choices = itertools.cycle(itertools.product((False, True), repeat=3))

    def check(cut):
        named, positional, wrapped = next(choices)
        options = {
            "keep_original_node_name": named,
            "keep_original_input_name": not positional,
            "tuple_return": wrapped,
        }
        our_paths, their_paths = {}, {}
        theirs = outcome(torch_split_module, cut.m, cut.m, cut.callback, their_paths, **options)
        if theirs is not None:
            ours = split_with(lesson, cut.m, cut.callback, qualname_map=our_paths, **options)
            same_submodules(ours, theirs)
            equal(our_paths, their_paths)

    for_any_cut(check, MANY)


def test_whatever_is_cut_computes_the_same_numbers_and_gradients(lesson):
    def check(cut):
        split = outcome(lesson.split_module, cut.m, cut.m, cut.callback)
        if split is None:
            return
        inputs = [torch.rand(3, requires_grad=True), torch.rand(3)]
        same_numbers(
            numbers_and_gradients(split, cut.m, inputs), numbers_and_gradients(cut.m, cut.m, inputs)
        )

    for_any_cut(check, MANY)


@pytest.mark.parametrize("seed", random_models.SEEDS)
def test_a_random_tree_is_cut_as_torch_cuts_it(lesson, seed):
    specimen = random_models.tree(seed)
    m = symbolic_trace(specimen.model)
    split = lesson.split_module(m, specimen.model, in_stages(m, 5))
    theirs = torch_split_module(m, specimen.model, in_stages(m, 5))
    # Which of two independent partitions goes first is another test's business.
    same_submodules(split, theirs)
    equal(Counter(targets_of(split)), Counter(targets_of(theirs)))
    same_numbers(split(*specimen.inputs), specimen.eager())


@pytest.mark.parametrize("seed", random_models.SEEDS)
def test_a_random_tree_in_scattered_pieces_computes_the_same(lesson, seed):
    specimen = random_models.tree(seed)
    m = symbolic_trace(specimen.model)
    numbers = growing_numbers(m.graph, random.Random(seed))
    split = lesson.split_module(m, specimen.model, numbers.__getitem__)
    same_submodules(split, torch_split_module(m, specimen.model, numbers.__getitem__))
    same_numbers(split(*specimen.inputs), specimen.eager())


def targets_of(gm: GraphModule) -> list[tuple[str, object]]:
    return [(node.op, node.target) for node in gm.graph.nodes]


def growing_numbers(graph: Graph, chance: random.Random) -> dict[Node, int]:
    """Partitions in any order along the graph, but never before one that a node needs."""
    numbers: dict[Node, int] = {}
    for node in calls(graph):
        least = max((numbers.get(needed, 0) for needed in node.all_input_nodes), default=0)
        numbers[node] = least + chance.choice([0, 0, 0, 1, 2])
    return numbers


@pytest.mark.parametrize("seed", range(20))
def test_a_random_tree_in_any_pieces_is_a_cycle_where_it_is_one_for_torch(lesson, seed):
    m = symbolic_trace(random_models.tree(seed).model)
    chance = random.Random(seed)
    numbers = {node: chance.randrange(2) for node in calls(m.graph)}
    try:
        torch_split_module(m, m, numbers.__getitem__)
    except RuntimeError:
        with refuses(RuntimeError, cause="a cycle was not found"):
            lesson.split_module(m, m, numbers.__getitem__)
    else:
        lesson.split_module(m, m, numbers.__getitem__)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_real_model_computes_the_same_numbers_and_gradients(lesson, name):
    model, image = model_and_image(name)
    m = symbolic_trace(model)
    splits = {
        stages: lesson.split_module(m, model, in_stages(m, stages))
        for stages in (2, 4, 8, len(calls(m.graph)))
    }
    expected = numbers_and_gradients(model, model, [image])
    for stages, split in splits.items():
        same_numbers(numbers_and_gradients(split, model, [image]), expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_pipeline_front_of_torch_takes_it_in_place_of_its_own(lesson, monkeypatch):
    def cut_at_the_second():
        torch.manual_seed(0)
        model = nn.Sequential(*(nn.Linear(3, 3) for _ in range(3)))
        places = {"1": SplitPoint.BEGINNING}
        return pipeline(model, (torch.rand(2, 3),), split_spec=places).split_gm

    def ours(m, root_m, callback, qualname_map=None, **options):
        return split_with(lesson, m, callback, qualname_map=qualname_map, **options)

    theirs = cut_at_the_second()
    monkeypatch.setattr("torch.distributed.pipelining._IR.split_module", ours)
    same_split(cut_at_the_second(), theirs)


@pytest.mark.parametrize("partitions", [lambda nodes: 4, lambda nodes: nodes], ids=["few", "many"])
def test_the_work_is_linear_in_the_nodes_and_in_the_partitions(lesson, partitions):
    def work(nodes: int) -> Callable[[], object]:
        gm = symbolic_trace(nn.Sequential(*(nn.ReLU() for _ in range(nodes))))
        return lambda: lesson.split_module(gm, gm, in_stages(gm, partitions(nodes)))

    factor = growth(work, 30)
    holds(
        factor < LINEAR, "twice the steps for twice the nodes", got=f"{factor:.1f} times the steps"
    )
