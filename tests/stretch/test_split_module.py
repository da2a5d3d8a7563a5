"""Cutting a graph: torch's options, regions, symbolic sizes, and torch's mistakes."""

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.fx import PH, Graph, GraphModule, symbolic_trace
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.passes.split_module import split_module as torch_split_module

from tests import zoo
from tests.models.split_module import (
    Chain,
    Parts,
    TwoViews,
    calls,
    in_stages,
    named,
    numbered,
    numbers_and_gradients,
    outcome,
    random_cut,
    same_split,
    same_submodules,
    split_with,
    submodules,
)
from tests.suite import equal, holds, is_linear, refuses, same_numbers
from tests.suite.chance import by_chance, showing

TUPLE_RETURN = pytest.mark.since("2.12", "split_module takes tuple_return")


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
def test_each_option_makes_the_graphs_that_torch_makes(lesson, options):
    m = symbolic_trace(TwoViews())
    same_split(
        split_with(lesson, m, in_stages(m, 3), **options),
        torch_split_module(m, m, in_stages(m, 3), **options),
    )


# --- whole models


def test_unused_inputs_and_parameters_stay_in_the_outer_graph(lesson):
    graph = Graph()
    x, *_ = (graph.placeholder(name) for name in ("x", "unused", "optional", "last"))
    graph.get_attr("weight")
    graph.output(graph.call_function(torch.relu, (x,)))
    m = GraphModule(Parts(), graph)
    same_split(lesson.split_module(m, m, lambda node: 0), torch_split_module(m, m, lambda node: 0))


def test_a_module_with_the_name_of_a_submodule_keeps_its_parameters(lesson):
    adds = lambda model, x: torch.relu(x) + model.submod_0.weight
    m = symbolic_trace(zoo.Model(adds, submod_0=nn.Linear(3, 3)))
    split = lesson.split_module(m, m, lambda node: 0)
    x = torch.rand(3, 3)
    same_numbers(split(x), m(x))


# --- modules in the graph


@pytest.mark.since("2.13", "split_module reads a module where it is used")
def test_modules_in_the_graph_are_read_where_they_are_used(lesson):
    def apply_module(module, x):
        return module(x)

    root, graph = nn.Sequential(nn.Sequential(nn.Linear(3, 3))), Graph()
    relu = graph.call_function(torch.relu, (graph.placeholder("x"),))
    body = graph.get_attr("0.0")
    first = graph.call_function(apply_module, (body, relu))
    graph.output(graph.call_function(apply_module, (body, first)))
    m, callback = GraphModule(root, graph), numbered(relu=0, apply_module=1, apply_module_1=2)
    split = lesson.split_module(m, m, callback)
    same_split(split, torch_split_module(m, m, callback))
    holds(split.submod_1.get_submodule("0.0") is root[0][0], "the module itself")


@pytest.mark.parametrize(("op", "target"), [("call_module", "outer.0.0"), ("get_attr", "scale")])
def test_a_target_that_is_not_there_is_named(lesson, op, target):
    m = symbolic_trace(Chain() if op == "call_module" else TwoViews())
    delattr(m, target.partition(".")[0])
    with refuses(AttributeError, target, cause="the model was cut nevertheless"):
        lesson.split_module(m, m, lambda node: 0)


@pytest.mark.unasked
def test_the_submodules_are_in_training_mode_and_the_layers_keep_their_own(lesson):
    m = symbolic_trace(model := Chain().eval())
    split = lesson.split_module(m, model, in_stages(m, 2))
    modes = {each.training for each in submodules(split).values()}
    layers = {each.training for each in {*split.modules()} & {*model.modules()}}
    equal((modes, layers), ({True}, {False}))


# --- torch's mistakes


@pytest.mark.beyond("torch takes the leaves of the arguments, and returns those of the result")
def test_a_split_model_takes_and_returns_the_structures_of_the_model(lesson):
    function = lambda pair: (torch.relu(pair["a"]) + 1, pair["b"].tanh())
    m = symbolic_trace(function, concrete_args={"pair": {"a": PH, "b": PH}})
    split = lesson.split_module(m, m, in_stages(m, 2))
    pair = {"a": torch.rand(2), "b": torch.rand(2)}
    same_numbers(split(pair), m(pair))


def test_a_cut_of_an_exported_model_returns_what_the_graph_returns(lesson):
    m = torch.export.export(nn.Linear(2, 3), (x := torch.rand(2),)).module()
    split = lesson.split_module(m, m, lambda node: 0)
    same_numbers(split(x), (m(x),))


@pytest.mark.beyond("torch asks up to six times if autocast or gradients are switched")
def test_the_callback_is_called_once_per_node_even_in_an_autocast_region(lesson):
    m, asked = switching("autocast"), Counter()
    lesson.split_module(m, m, lambda node: asked.update([node.name]) or 0)
    equal(dict(asked), {node.name: 1 for node in calls(m.graph)})


@pytest.mark.beyond("`_fx_partition` stays on every node")
def test_no_attribute_is_left_on_the_nodes(lesson):
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
    equal(list(submodules(split)), ["submod_2", "submod_0", "submod_1"])


@pytest.mark.beyond("torch says only that a cycle exists")
def test_the_error_of_a_cycle_names_submodules_and_a_value(lesson):
    m = symbolic_trace(lambda x: x.relu().relu().relu())
    with refuses(RuntimeError, "submod_17", "submod_4", "relu", cause="the cycle was not found"):
        lesson.split_module(m, m, numbered(relu=17, relu_1=4, relu_2=17))


@pytest.mark.beyond("torch runs one of the two modules twice")
def test_paths_that_are_equal_when_flattened_stay_apart(lesson):
    graph, paths = Graph(), ("a.b_c", "a_b.c", "a.b.c", "a_b.c")
    value = graph.placeholder("x")
    for path in paths:
        value = graph.call_module(path, (value,))
    graph.output(value)
    m = GraphModule({path: nn.Linear(3, 3) for path in paths}, graph)
    split, x = lesson.split_module(m, m, lambda node: 0), torch.rand(2, 3)
    names = [node.target for node in calls(split.submod_0.graph)]
    equal(names, ["a_b_c", "a_b_c_1", "a_b_c_2", "a_b_c_1"])
    same_numbers(split(x), m(x))


@pytest.mark.beyond("torch drops the star, so the model takes one argument")
def test_starred_arguments_keep_their_star_under_original_names(lesson):
    m = symbolic_trace(lambda *terms: torch.relu(terms[0]) + terms[1])
    split = lesson.split_module(m, m, in_stages(m, 2), keep_original_node_name=True)
    x, y = torch.rand(3), torch.rand(3)
    same_numbers(split(x, y), m(x, y))


# --- autocast and gradient regions


@pytest.fixture
def gradients_on():
    """Switch gradients on again after a test that switches them off."""
    yield
    torch.set_grad_enabled(True)


REGIONS = {
    "autocast": "enter:half mm mul mm exit:half mul",
    "nested": "enter:half mm enter:full mm exit:full mm exit:half",
    "gradients": "mul off mul mul on mul",
    "mixed": "off enter:half mm mul exit:half mul on mul",
}
# It can be cut, but shouldn't be run: autocasts don't end in this order.
CROSSED = "enter:half enter:full mm exit:half mul exit:full mul"


def switching(region: str) -> GraphModule:
    """Products of x and of the value before, with switches of autocast and gradients between."""
    graph, entered, values = Graph(), {}, []
    x = last = graph.placeholder("x")
    for word in REGIONS.get(region, region).split():
        verb, _, kind = word.partition(":")
        if verb in ("mm", "mul"):
            last = graph.call_function(getattr(torch, verb), (x if verb == "mm" else last, x))
            values.append(last)
        elif verb == "enter":
            settings = ("cpu", torch.bfloat16, kind == "half", None)
            entered[kind] = graph.call_function(_enter_autocast, settings)
        elif verb == "exit":
            graph.call_function(_exit_autocast, (entered[kind],))
        else:
            graph.call_function(torch._C._set_grad_enabled, (verb == "on",))
    graph.output(tuple(values))
    return GraphModule(nn.Module(), graph)


@pytest.mark.parametrize("stages", [2, 3, 4, 8])
@pytest.mark.parametrize("region", [*REGIONS, CROSSED])
def test_regions_are_cut_as_torch_cuts_them(lesson, region, stages):
    m = switching(region)
    callback = in_stages(m, min(stages, len(calls(m.graph))))
    same_submodules(lesson.split_module(m, m, callback), torch_split_module(m, m, callback))


@pytest.mark.parametrize("region", REGIONS)
def test_a_cut_region_computes_the_same_numbers(lesson, region, gradients_on):
    m = switching(region)
    split = lesson.split_module(m, m, in_stages(m, 3))
    x = torch.rand(3, 3, requires_grad=True)
    ours, theirs = split(x), m(x)
    same_numbers(ours, theirs)
    equal([value.requires_grad for value in ours], [value.requires_grad for value in theirs])


@pytest.mark.beyond("torch raises a `KeyError`: it looks for the partition without its affix")
def test_an_affix_works_where_a_region_is_cut(lesson):
    m = switching("mixed")
    split = split_with(lesson, m, in_stages(m, 3), partition_affix="pp")
    equal(list(submodules(split)), ["submod_pp_0", "submod_pp_1", "submod_pp_2"])


@pytest.mark.beyond("torch runs code from before the switch after it")
def test_no_node_moves_to_the_other_side_of_a_gradient_switch(lesson, gradients_on):
    m = switching("mm off mm")
    split = lesson.split_module(m, m, numbered(mm=0, _set_grad_enabled=1, mm_1=1))
    value, _ = split(torch.rand(3, 3, requires_grad=True))
    holds(value.requires_grad, "mm, before the switch, to run with gradients", got=split.code)


@pytest.mark.beyond("torch raises an `AssertionError`")
def test_an_error_names_the_node_where_partition_numbers_go_down_in_a_region(lesson):
    m = switching("enter:half mm mm mm exit:half")
    callback = numbered(_enter_autocast=1, mm=1, mm_1=0, mm_2=1, _exit_autocast=1)
    with refuses(RuntimeError, "mm_1", "submod_0", cause="mm_1 ran before the switch"):
        lesson.split_module(m, m, callback)


@pytest.mark.parametrize("stages", [1, 2])
def test_an_autocast_that_is_never_exited_is_refused(lesson, stages):
    m = switching("enter:half mm mul")
    with refuses((RuntimeError, AssertionError), "exit", cause="the model was cut nevertheless"):
        lesson.split_module(m, m, in_stages(m, stages))


# --- symbolic sizes


def sizes_graph() -> GraphModule:
    """Three symbols, some of which several placeholders hold; two of them belong to the tensor."""
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


def test_a_tensor_comes_with_the_first_holder_of_each_of_its_sizes(lesson):
    m = sizes_graph()
    callback = numbered(relu=0, add=1)
    same_split(lesson.split_module(m, m, callback), torch_split_module(m, m, callback))


@pytest.mark.beyond("torch makes the partition depend on itself, and finds a cycle")
def test_a_size_that_the_partition_itself_makes_is_not_an_input(lesson):
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        fake = torch.empty(mode.shape_env.create_unbacked_symint(), 3)
    graph = Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(torch.relu, (x,))
    graph.call_method("size", (relu, 0)).meta["example_value"] = fake.shape[0]
    add = graph.call_function(torch.add, (relu, 1))
    for node in (x, relu, add):
        node.meta["example_value"] = fake
    graph.output(add)
    m = GraphModule(nn.Module(), graph)
    split = lesson.split_module(m, m, numbered(relu=0, size=1, add=1))
    equal([node.name for node in split.submod_1.graph.find_nodes(op="placeholder")], ["relu"])


@pytest.mark.beyond("torch raises a `KeyError`")
def test_a_size_that_no_node_holds_is_not_an_input(lesson):
    m = sizes_graph()
    for name in ("a", "b", "b_again"):
        del named(m.graph)[name].meta["example_value"]
    split = lesson.split_module(m, m, numbered(relu=0, add=1))
    equal([node.name for node in split.submod_1.graph.find_nodes(op="placeholder")], ["relu"])


# --- random graphs, and real models


@TUPLE_RETURN
@by_chance(30)
def test_random_cuts_with_options_have_the_submodules_that_torch_makes(lesson, chance):
    m, callback, words = random_cut(chance)
    our_paths, their_paths = {}, {}
    options = {
        "keep_original_node_name": chance.choice((False, True)),
        "keep_original_input_name": chance.choice((True, False)),
        "tuple_return": chance.choice((False, True)),
    }
    theirs = outcome(torch_split_module, m, m, callback, their_paths, **options)
    if theirs is not None:
        with showing(f"{words}\noptions: {options}"):
            ours = split_with(lesson, m, callback, qualname_map=our_paths, **options)
            same_submodules(ours, theirs)
            equal(our_paths, their_paths)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "vit_b_16", "convnext_tiny"])
def test_a_real_model_computes_the_same_numbers_and_gradients(lesson, name):
    model, inputs, _ = vars(zoo.classifier(name)).values()
    m = symbolic_trace(model)
    expected = numbers_and_gradients(model, model, inputs)
    for stages in (2, 8, len(calls(m.graph))):
        split = lesson.split_module(m, model, in_stages(m, stages))
        same_numbers(numbers_and_gradients(split, model, inputs), expected)


@pytest.mark.parametrize("partitions", [lambda nodes: 4, lambda nodes: nodes], ids=["few", "many"])
def test_the_work_is_linear_in_the_nodes_and_in_the_partitions(lesson, partitions):
    def work(nodes: int) -> Callable[[], object]:
        gm = symbolic_trace(nn.Sequential(*(nn.ReLU() for _ in range(nodes))))
        return lambda: lesson.split_module(gm, gm, in_stages(gm, partitions(nodes)))

    is_linear(work, 30, "nodes")
