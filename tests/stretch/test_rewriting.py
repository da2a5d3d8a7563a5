"""``rewriting`` beyond the core: several results, filters, replacements with parts, more layers."""

from __future__ import annotations

import copy
import itertools
from collections import OrderedDict
from random import Random

import pytest
import torch
from torch import nn
from torch.fx import Tracer, symbolic_trace

from tests import zoo
from tests.models.rewriting import (
    IMAGES,
    becomes,
    calls,
    fused_right,
    matched,
    pair,
    paired,
    pattern_of,
    pattern_to_plant,
    places,
    planted,
    relu,
    replaced,
    settled,
    tanh,
)
from tests.oracle import of_torch
from tests.suite import equal, holds, is_linear, is_value, refuses, rest_slow, same_numbers
from tests.suite.chance import by_chance, showing
from tests.suite.versions import INSTALLED, that_run


def graph_of(function):
    return symbolic_trace(function).graph


def places_in(side, pattern, graph):
    """The names of the nodes at which a pattern is found."""
    return [str(each.nodes_map[each.anchor]) for each in side.match(pattern, graph)]


SAME_TYPE = "equal in Python, and yet they compute different things: compare the types too"

# --- finding --------------------------------------------------------------------------------------


@by_chance(12)
def test_all_planted_patterns_are_found_and_no_other(lesson, chance):
    gm, expected = planted(chance, size=chance.randrange(150))
    inputs = [torch.rand(2, 3) for _ in "abc"]
    before = gm(*inputs)
    with showing(gm.code.strip()):
        equal(places_in(lesson, pattern_to_plant, gm.graph), expected)
        lesson.replace_pattern(gm, pattern_to_plant, pattern_to_plant)
        gm.graph.lint()
        same_numbers(gm(*inputs), before)


@pytest.mark.parametrize("depth", rest_slow([2, 1, 0], quick=1))
@pytest.mark.parametrize("name", that_run(zoo.SMALL))
def test_patterns_cut_out_of_the_zoo_are_found_where_torch_finds_them(lesson, name, depth):
    graph = graph_of(zoo.SMALL[name]().model)
    lesson.match(relu, graph)
    for node in graph.nodes:
        if node.op in ("call_function", "call_method", "call_module"):
            pattern = pattern_of(node, depth)
            ours, theirs = (
                places_in(side, pattern, graph) for side in (lesson, of_torch("rewriting"))
            )
            equal([each for each in theirs if each not in ours], [])


def test_replacing_takes_time_in_proportion_to_the_graph(lesson):
    def work(size):
        gm = planted(Random(0), size)[0]
        return lambda: lesson.replace_pattern(gm, pattern_to_plant, lambda x, y: x - y)

    is_linear(work, 300, "graph")


@pytest.mark.beyond("each place of one result is tried with each place of the other")
def test_finding_several_results_takes_time_in_proportion_to_the_graph(lesson):
    def work(size):
        graph = graph_of(lambda a: [(torch.sin(y := a + i), torch.cos(y)) for i in range(size)])
        return lambda: lesson.match(lambda x: (torch.sin(x), torch.cos(x)), graph)

    is_linear(work, 25, "graph")


def scales(function):
    """A model that multiplies a function of the input with a parameter."""
    scale = nn.Parameter(torch.full((4,), 7.0))
    return zoo.Model(lambda model, x: function(x) * model.scale, scale=scale)


def test_a_tensor_of_a_pattern_matches_any_tensor_of_its_type(lesson):
    pattern = scales(lambda x: x)
    equal(places(lesson, pattern, nn.Sequential(scales(torch.sin))), ["mul"])
    equal(places(lesson, pattern, zoo.Buffers()), [])


def test_modules_are_compared_by_their_paths_if_a_graph_does_not_know_its_module(lesson):
    model = nn.Sequential(nn.Sigmoid(), nn.ReLU(), nn.Tanh())
    graph, pattern = Tracer().trace(model), graph_of(model[:2])
    equal(len(lesson.SubgraphMatcher(pattern).match(graph)), 1)


MATCHED = {
    "the whole graph": lambda a: (a.relu(), a.sin()),
    "not the output": lambda a: a.relu() + a.sin(),
    "overlaps": lambda a: ((b := a.exp()).relu(), b.sin(), b.sin()),
}
FLAGS = ["match_output", "match_placeholder", "remove_overlapping_matches"]


@pytest.mark.parametrize("function", MATCHED.values(), ids=MATCHED)
@pytest.mark.parametrize("values", [*itertools.product([False, True], repeat=3)], ids=str)
def test_a_matcher_has_the_options_of_torchs(lesson, function, values):
    pattern, graph = graph_of(lambda x: (x.relu(), x.sin())), graph_of(function)
    options = dict(zip(FLAGS, values, strict=True))
    ours, theirs = (
        [str(each.nodes_map) for each in side.SubgraphMatcher(pattern, **options).match(graph)]
        for side in (lesson, of_torch("rewriting"))
    )
    equal(ours, theirs)


@pytest.mark.beyond("only one under the same path, and of any type")
def test_a_module_of_a_pattern_matches_any_module_of_its_type(lesson):
    pattern = nn.Sequential(nn.Sigmoid(), nn.ReLU())
    other_path = nn.Sequential(nn.Identity(), nn.Sigmoid(), nn.ReLU())
    equal(places(lesson, pattern, other_path), ["_2"])
    equal(places(lesson, pattern, nn.Sequential(nn.Tanh(), nn.ReLU())), [])


SUM = lambda x: torch.sum(x, dim=1)


@pytest.mark.beyond("compared as written, except for overloads such as aten's")
@pytest.mark.parametrize(
    "pattern, function",
    [
        (SUM, lambda a: torch.sum(a, 1)),
        (SUM, lambda a: torch.sum(a, 1, keepdim=False)),
        (SUM, lambda a: torch.sum(keepdim=False, dim=1, input=a)),
        (lambda x: torch.max(x, dim=1), lambda a: torch.max(a, 1)),
        (lambda x, y: torch.add(x, y), lambda a, b: torch.add(a, other=b)),
    ],
    ids=["position", "default", "order", "overload", "other"],
)
def test_an_argument_may_be_passed_by_position_or_by_name(lesson, pattern, function):
    equal(len(places(lesson, pattern, function)), 1)


def test_an_argument_of_an_overload_may_be_passed_by_position_or_by_name(lesson):
    add = torch.ops.aten.add.Tensor
    pattern = lambda x, y: add(x, y, alpha=1)
    equal(len(places(lesson, pattern, lambda a, b: add(a, b))), 1)
    equal(len(places(lesson, pattern, lambda a, b: add(a, b, alpha=2))), 0)


@pytest.mark.beyond("an unused input is a `KeyError`, an input alone matches every node")
@pytest.mark.parametrize("pattern", [lambda x, y: torch.relu(x), lambda x: x, lambda x: 1])
def test_a_pattern_that_cannot_be_replaced_is_refused(lesson, pattern):
    with refuses(ValueError, "inputs"):
        lesson.match(pattern, graph_of(relu))


@pytest.mark.beyond("the literals that an input matches are compared by `==`")
@pytest.mark.parametrize("literals", [(1, 1.0), (1, True), (0, -0.0)], ids=str)
def test_an_input_that_is_repeated_matches_literals_of_one_type(lesson, literals):
    pattern = lambda x, y: torch.clamp(x, y, y)
    got = matched(lesson, pattern, lambda a: torch.clamp(a, *literals))
    holds(got is None, f"no match: {SAME_TYPE}", got=got, hint="compare them with `same_value`")


# --- several results ------------------------------------------------------------------------------

BOTH = lambda x, y: (torch.relu(x), x + y)
OTHERS = lambda x, y: (torch.tanh(x), x - y)


def test_a_pattern_may_have_several_results(lesson):
    def everywhere(pattern):
        return lambda a, b: [torch.mul(*pattern(each, b)) for each in (a, a * 2, a * 3)]

    becomes(lesson, everywhere(BOTH), BOTH, OTHERS, everywhere(OTHERS))


def test_a_result_may_be_used_by_another(lesson):
    def two(f, g):
        return lambda a: (y := f(a), g(y))

    def product(f, g):
        return lambda a: torch.mul(*two(f, g)(a))

    old, new = (torch.relu, torch.sin), (torch.tanh, torch.cos)
    becomes(lesson, product(*old), two(*old), two(*new), product(*new))


def test_results_that_depend_on_each_other_outside_dont_match(lesson):
    function = lambda a: ((y := torch.relu(a)), torch.sin(torch.cos(y) + a))
    found = lesson.match(lambda x, z: (torch.relu(x), torch.sin(z)), graph_of(function))
    equal(found, [], cause=(bool, "outside the match, the second result needs the first"))


@pytest.mark.beyond("a node is used before it is defined")
def test_a_node_between_two_results_moves_after_the_replacement(lesson):
    def between(f, g):
        return lambda a, b: (f(a) * 2) - g(a, torch.sin(b))

    pattern = lambda x, y: (torch.relu(x), torch.add(x, y))
    new = lambda x, y: (torch.tanh(x), torch.sub(x, y))
    becomes(lesson, between(torch.relu, torch.add), pattern, new, between(torch.tanh, torch.sub))


# --- filters and callbacks ------------------------------------------------------------------------


def test_a_filter_chooses(lesson):
    gm = symbolic_trace(lambda a, b: torch.relu(a) + torch.relu(b))
    asked = []

    def only_b(found, graph, pattern):
        asked.append((graph is gm.graph, calls(pattern), str(found.placeholder_nodes[0])))
        return asked[-1][-1] == "b"

    got = lesson.replace_pattern_with_filters(gm, relu, tanh, [only_b])
    equal(asked, [(True, ["relu"], "a"), (True, ["relu"], "b")])
    equal(calls(gm.graph), ["relu", "tanh", "add"])
    holds(isinstance(got[0], lesson.ReplacedPatterns), "a list of `ReplacedPatterns`", got=got)
    equal([[str(node) for node in each.replacements] for each in got], [["tanh"]])


@pytest.mark.beyond("overlaps are removed first, so a match that is refused displaces others")
def test_a_match_that_a_filter_refuses_does_not_displace_another(lesson):
    gm = symbolic_trace(lambda a: relu(relu(relu(a))))
    not_first = lambda found, graph, pattern: str(found.returning_nodes[0]) != "relu_1"
    lesson.replace_pattern_with_filters(gm, lambda x: relu(relu(x)), tanh, [not_first])
    equal(calls(gm.graph), ["relu", "tanh"])


def test_a_callback_makes_the_replacement(lesson):
    gm = symbolic_trace(lambda a: (a * 2) + (a * 3))

    def shifted(found, graph, pattern):
        equal((graph is gm.graph, calls(pattern)), (True, ["mul"]))
        factor = found.placeholder_nodes[1]
        return graph_of(lambda x, y: x << (factor - 1))

    lesson.replace_pattern_with_filters(gm, lambda x, y: x * y, replacement_callback=shifted)
    equal([node.args[1] for node in gm.graph.nodes if "shift" in node.name], [1, 2])


def test_literals_may_be_ignored(lesson):
    gm = symbolic_trace(lambda a: a * 7)
    lesson.replace_pattern_with_filters(gm, lambda x: x * 2, tanh, ignore_literals=True)
    equal(calls(gm.graph), ["tanh"])


# --- replacements --------------------------------------------------------------------------------


@pytest.mark.parametrize("new", [lambda x, y: x + y, lambda x: (x, x + 1)])
def test_a_replacement_of_other_inputs_or_results_is_refused(lesson, new):
    gm = symbolic_trace(relu)
    with refuses((ValueError, AssertionError), ""):
        lesson.replace_pattern(gm, relu, new)


def scaled():
    """A replacement with modules and a parameter."""
    return zoo.Model(
        lambda model, x: model.inner(x) * model.scale,
        inner=nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)),
        scale=nn.Parameter(torch.rand(4)),
    )


def test_a_replacement_brings_its_modules_and_parameters(lesson):
    x, new = torch.rand(2, 4), scaled()
    gm = replaced(lesson, lambda a: torch.relu(a) + 1, relu, new)
    same_numbers(before := gm(x), new(x) + 1)
    equal(sorted(gm.state_dict()), sorted(new.state_dict()))
    for parameter in new.parameters():
        nn.init.zeros_(parameter)
    same_numbers(gm(x), before)


def test_a_module_that_was_replaced_is_removed(lesson):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    new = nn.Sequential(OrderedDict(other=nn.Linear(3, 3)))
    gm = replaced(lesson, model, nn.Sequential(nn.Linear(3, 3), nn.ReLU()), new)
    left = (lambda got: "0" in got, "the submodule that was replaced is still an attribute")
    equal([name for name, _ in gm.named_children()], ["2", "other"], cause=left)


def test_an_attribute_that_the_module_has_is_used(lesson):
    gm = replaced(lesson, scales(torch.relu), relu, scaled())
    equal(gm.scale[0].item(), 7.0)


def adds(function, constant):
    return zoo.Model(lambda model, x: function(x) + torch.tensor(constant))


@pytest.mark.beyond("both are called `_tensor_constant0`, and the model's wins: wrong numbers")
def test_constants_do_not_collide(lesson):
    gm = replaced(lesson, adds(torch.relu, 5.0), relu, adds(torch.tanh, 2.0))
    same_numbers(gm(torch.zeros(1)), torch.tensor([7.0]))


@pytest.mark.beyond("they are on the module that was traced, which is discarded")
def test_a_function_brings_its_constants(lesson):
    new = lambda x: torch.tanh(x) + torch.tensor(2.0)
    gm = replaced(lesson, lambda a: torch.relu(a) * torch.relu(a), relu, new)
    same_numbers(gm(torch.zeros(1)), torch.tensor([4.0]))
    equal(len(list(gm.buffers())) + len([k for k in vars(gm) if "constant" in k]), 1)


@pytest.mark.beyond("it is computed before its first user: wrong numbers after `x.add_(1)`")
def test_a_replacement_is_computed_where_the_match_was(lesson):
    def around(f):
        return lambda a: (y := f(a), a.add_(1), y * 2)[2]

    gm = replaced(lesson, around(torch.sin), lambda x: torch.sin(x), lambda x: torch.cos(x))
    same_numbers(gm(torch.zeros(2)), around(torch.cos)(torch.zeros(2)))


@pytest.mark.beyond("the list keeps a node that was erased", condition=INSTALLED < (2, 15))
def test_an_input_in_a_list_is_updated_when_it_is_replaced(lesson):
    nested = lambda join: lambda a, b: join([join([a, b]), b])
    gm = replaced(lesson, nested(torch.cat), lambda x: torch.cat(x), lambda x: torch.stack(x))
    equal(gm.code, symbolic_trace(nested(torch.stack)).code)


def test_a_returned_match_has_the_new_node_of_an_input_that_was_replaced(lesson):
    gm = symbolic_trace(lambda a: torch.relu(torch.relu(a)))
    first, second = lesson.replace_pattern(gm, relu, tanh)
    _, tanh_0, *_ = gm.graph.nodes
    holds(tanh_0 in second.nodes_map.values(), "the new node", got=second.nodes_map)
    holds(first.anchor is second.anchor, "the anchor is the node of the pattern")


@pytest.mark.unasked
@pytest.mark.beyond("torch finds patterns in its own graphs only")
def test_matches_in_a_row_are_replaced_in_a_graph_that_is_not_torchs(lesson):
    engine = pytest.importorskip("solutions.stretch.engine")
    gm = engine.symbolic_trace(nn.Sequential(nn.ReLU(), nn.ReLU()))
    lesson.replace_pattern(gm, nn.Sequential(nn.ReLU()), tanh)
    gm.graph.lint()
    same_numbers(gm(torch.ones(2)), torch.ones(2).tanh().tanh())


@pytest.mark.parametrize("name", that_run(zoo.SMALL))
def test_a_model_of_the_zoo_computes_the_same_after_replacing_like_by_like(lesson, name):
    specimen = zoo.SMALL[name]()
    gm, expected = symbolic_trace(specimen.model), copy.deepcopy(specimen).eager()
    lesson.replace_pattern(gm, relu, relu)
    calls = [node for node in gm.graph.nodes if node.op in ("call_function", "call_method")]
    for pattern in [pattern_of(node, 0) for node in calls if node.users]:
        lesson.replace_pattern(gm, pattern, copy.deepcopy(pattern))
    gm.graph.lint()
    same_numbers(gm(*specimen.inputs, **specimen.kwargs), expected)


# --- fuse -----------------------------------------------------------------------------------------

KINDS = {
    "Conv1d": (lambda: (nn.Conv1d(4, 6, 3, bias=False), nn.BatchNorm1d(6)), (2, 4, 9)),
    "Conv3d": (lambda: (nn.Conv3d(4, 6, 3, groups=2), nn.BatchNorm3d(6)), (2, 4, 5, 5, 5)),
    "Linear": (lambda: (nn.Linear(4, 6), nn.BatchNorm1d(6)), (5, 4)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_and_its_batch_norm_are_one_layer(lesson, kind):
    layers, shape = KINDS[kind]
    fused_right(lesson, settled(nn.Sequential(*layers())), torch.rand(shape), nodes=3)


def test_two_batch_norms_in_a_row_are_fused(lesson):
    fused_right(lesson, settled(nn.Sequential(*pair(), nn.BatchNorm2d(3))), IMAGES, nodes=3)


@pytest.mark.beyond("it is fused with both batch norms: wrong numbers")
def test_a_convolution_that_is_called_twice_is_not_fused(lesson):
    model = paired(lambda model, x: model.norm(model.conv(x)) + model.other(model.conv(x)))
    fused_right(lesson, settled(model), IMAGES)


@pytest.mark.beyond("the fused weight is read: wrong numbers")
@pytest.mark.parametrize("around", [lambda model: model, nn.Sequential])
def test_a_convolution_whose_weight_is_read_is_not_fused(lesson, around):
    model = paired(lambda model, x: model.norm(model.conv(x)) * model.conv.weight.sum())
    fused_right(lesson, settled(around(model)), IMAGES)


@pytest.mark.beyond("hooks of the batch norm are lost: wrong numbers")
@pytest.mark.parametrize(
    ("number", "kind"), [(0, "forward_hook"), (1, "forward_hook"), (1, "forward_pre_hook")]
)
def test_layers_with_hooks_are_not_fused(lesson, number, kind):
    model = settled(nn.Sequential(*pair()))
    register = getattr(model[number], f"register_{kind}")
    register(lambda module, args, *result: (result or args)[0].relu())
    fused_right(lesson, model, IMAGES)


def test_a_module_may_be_called_with_a_number(lesson):
    model = paired(lambda model, x: model.norm(model.conv(x)) * model.same(2.0))
    model.same = nn.Identity()
    fused_right(lesson, settled(model), IMAGES, nodes=5)


def test_in_place_shares_the_modules_that_are_not_fused(lesson):
    model = settled(nn.Sequential(*pair(), nn.Conv2d(3, 3, 1)))
    copied = dict(lesson.fuse(model).named_modules())["2"]
    holds(copied is not model[2], "a copy of the module")
    shared = dict(lesson.fuse(model, inplace=True).named_modules())["2"]
    holds(shared is model[2], "the very module of the model")


def test_a_graph_module_need_not_be_traced_again(lesson):
    gm = symbolic_trace(settled(nn.Sequential(*pair())))
    gm.graph.find_nodes(op="call_module")[0].meta["mark"] = True
    traced, fused = lesson.fuse(gm), lesson.fuse(gm, no_trace=True)
    equal([node.meta.get("mark") for node in traced.graph.nodes], [None, None, None])
    equal([node.meta.get("mark") for node in fused.graph.nodes], [None, True, None])
    equal(len(gm.graph.nodes), 4, cause=(is_value(3), "the given graph was edited"))


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.torchvision_models("classification"))
def test_torchvisions_classifiers_compute_the_same_when_fused(lesson, name):
    specimen = zoo.classifier(name)
    fused_right(lesson, settled(specimen.model), *specimen.inputs)
