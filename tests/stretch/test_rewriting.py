"""``rewriting`` beyond the core: torch's options, replacements with parts, refusals, reasons."""

from __future__ import annotations

import copy
from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.fx import GraphModule, symbolic_trace
from torch.nn import functional as F

from tests import zoo
from tests.models.rewriting import (
    IMAGES,
    Regularised,
    Shared,
    UnderTwoNames,
    becomes,
    calls,
    fused_right,
    hooked,
    pair,
    pattern_of,
    pattern_to_plant,
    places,
    planted,
    relative_error,
    relu,
    replaced,
    settled,
    tanh,
)
from tests.oracle import rewriting as theirs
from tests.suite import equal, growth, holds, is_value, refuses, same_numbers
from tests.suite.versions import INSTALLED, that_run

LINEAR = 2.5


def graph_of(function):
    return symbolic_trace(function).graph


# --- finding --------------------------------------------------------------------------------------


@pytest.mark.beyond("they are compared by `==`: 1 is taken for 1.0")
def test_one_placeholder_takes_no_two_literals_of_different_types(lesson):
    equal(places(lesson, lambda x, y: (x + y) * y, lambda a: (a + 1) * 1.0), [])


@pytest.mark.parametrize("seed", range(20))
def test_all_planted_patterns_are_found_and_no_other(lesson, seed):
    gm, expected = planted(seed, size=200)
    found = lesson.match(pattern_to_plant, gm.graph)
    equal([str(each.nodes_map[each.anchor]) for each in found], expected)


@pytest.mark.parametrize("seed", range(20))
def test_planted_patterns_are_replaced(lesson, seed):
    gm, expected = planted(seed, size=60)
    inputs = [torch.rand(2, 3) for _ in "abc"]
    before = gm(*inputs)
    found = lesson.replace_pattern(gm, pattern_to_plant, pattern_to_plant)
    gm.graph.lint()
    equal(len(found), len(expected))
    same_numbers(gm(*inputs), before)


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("name", that_run(zoo.SMALL))
def test_patterns_cut_out_of_the_zoo_are_found_where_torch_finds_them(lesson, name, depth):
    gm = symbolic_trace(zoo.SMALL[name]().model)
    lesson.match(relu, gm.graph)
    for node in gm.graph.nodes:
        if node.op in ("call_function", "call_method", "call_module"):
            pattern = pattern_of(node, depth)
            ours, torchs = (
                [str(each.nodes_map[each.anchor]) for each in side.match(pattern, gm.graph)]
                for side in (lesson, theirs)
            )
            missing = [each for each in torchs if each not in ours]
            equal(missing, [])


def test_finding_takes_time_in_proportion_to_the_graph(lesson):
    def work(size):
        graph = planted(0, size)[0].graph
        return lambda: lesson.match(pattern_to_plant, graph)

    rate = growth(work, 300)
    holds(rate < LINEAR, "twice the work for twice the graph", got=f"{rate:.1f} times")


def test_replacing_takes_time_in_proportion_to_the_graph(lesson):
    def work(size):
        gm = planted(0, size)[0]
        return lambda: lesson.replace_pattern(gm, pattern_to_plant, lambda x, y: x - y)

    rate = growth(work, 300)
    holds(rate < LINEAR, "twice the work for twice the graph", got=f"{rate:.1f} times")


@pytest.mark.beyond("each place of one result is tried with each place of the other")
def test_finding_several_results_takes_time_in_proportion_to_the_graph(lesson):
    def work(size):
        graph = graph_of(lambda a: [(torch.sin(y := a + i), torch.cos(y)) for i in range(size)])
        return lambda: lesson.match(lambda x: (torch.sin(x), torch.cos(x)), graph)

    rate = growth(work, 50)
    holds(rate < LINEAR, "twice the work for twice the graph", got=f"{rate:.1f} times")


def test_a_constant_of_a_pattern_meets_any_tensor(lesson):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(3))
            self.buffer = torch.rand(3)

        def forward(self, x):
            return (x * self.weight, x * self.buffer)

    class Pattern(nn.Module):
        def __init__(self):
            super().__init__()
            self.anything = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return x * self.anything

    equal(places(lesson, Pattern(), Model()), ["mul"])


def test_a_pattern_may_be_a_graph(lesson):
    equal(places(lesson, graph_of(relu), lambda a: relu(a) + 1), ["relu"])


@pytest.mark.beyond("only one under the same path, and of any type")
def test_a_module_of_a_pattern_matches_any_module_of_its_type(lesson):
    pattern = nn.Sequential(nn.Sigmoid(), nn.ReLU())
    other_path = nn.Sequential(nn.Identity(), nn.Sigmoid(), nn.ReLU())
    equal(places(lesson, pattern, other_path), ["_2"])
    equal(places(lesson, pattern, nn.Sequential(nn.Tanh(), nn.ReLU())), [])


SUM = lambda x: torch.sum(x, dim=1)


@pytest.mark.beyond("they are compared in the order in which they were written")
def test_keyword_arguments_may_stand_in_any_order(lesson):
    pattern = lambda x: torch.sum(x, dim=1, keepdim=True)
    equal(places(lesson, pattern, lambda a: torch.sum(a, keepdim=True, dim=1)), ["sum_1"])


@pytest.mark.beyond("compared as written, but for overloads such as aten's")
@pytest.mark.parametrize(
    "pattern, function",
    [
        (SUM, lambda a: torch.sum(a, 1)),
        (SUM, lambda a: torch.sum(input=a, dim=1)),
        (SUM, lambda a: torch.sum(a, 1, keepdim=False)),
        (lambda x: torch.sum(x, 1), lambda a: torch.sum(a, 1, False)),
        (lambda x: torch.max(x, dim=1), lambda a: torch.max(a, 1)),
        (lambda x, y: torch.add(x, y), lambda a, b: torch.add(a, other=b)),
        (lambda x: F.gelu(x), lambda a: F.gelu(input=a, approximate="none")),
    ],
    ids=["position", "input", "default", "last", "overload", "other", "builtin"],
)
def test_an_argument_may_be_passed_by_position_or_by_name(lesson, pattern, function):
    equal(len(places(lesson, pattern, function)), 1)


def test_an_argument_of_an_overload_may_be_passed_by_position_or_by_name(lesson):
    add = torch.ops.aten.add.Tensor
    pattern = lambda x, y: add(x, y, alpha=1)
    equal(len(places(lesson, pattern, lambda a, b: add(a, b))), 1)
    equal(len(places(lesson, pattern, lambda a, b: add(a, b, alpha=2))), 0)


@pytest.mark.beyond("compared as written")
def test_an_argument_of_a_module_may_be_passed_by_position_or_by_name(lesson):
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, a):
            return self.linear(input=a)

    equal(places(lesson, nn.Sequential(nn.Linear(3, 3)), Named()), ["linear"])


def test_another_default_is_another_value(lesson):
    equal(places(lesson, SUM, lambda a: torch.sum(a, 1, keepdim=True)), [])


def test_without_a_signature_the_keywords_must_be_the_same(lesson):
    pattern = lambda x: torch.nonzero(x, as_tuple=True)
    equal(places(lesson, pattern, pattern), ["nonzero"])
    equal(places(lesson, pattern, lambda a: torch.nonzero(a)), [])
    equal(places(lesson, lambda x: torch.nonzero(x), pattern), [])


@pytest.mark.beyond("compared by `==`: nodes inside them are never equal to those of a pattern")
def test_slices_and_dicts_are_containers(lesson):
    equal(places(lesson, lambda x, n: x[:, n:], lambda a, b: a[:, b:]), ["getitem"])
    equal(places(lesson, lambda x, n: x[:, n:], lambda a, b: a[:, :b]), [])
    pattern = lambda x, y: x.update({"key": torch.relu(y)})
    equal(places(lesson, pattern, lambda a, b: a.update({"key": torch.relu(b)})), ["update"])
    equal(places(lesson, pattern, lambda a, b: a.update({"yek": torch.relu(b)})), [])


@pytest.mark.beyond("an unused input is a `KeyError`, an input alone matches every node")
@pytest.mark.parametrize(
    "pattern, word",
    [(lambda x, y: torch.relu(x), "`y`"), (lambda x: x, "nothing"), (lambda x: 1, "nothing")],
    ids=["an unused input", "an input alone", "a literal alone"],
)
def test_a_pattern_that_cannot_be_replaced_is_refused(lesson, pattern, word):
    with refuses(ValueError, word):
        lesson.match(pattern, graph_of(relu))


@pytest.mark.beyond("the copy uses a node that is to be erased: a `RuntimeError`")
def test_an_input_that_holds_a_node_of_the_match_is_no_match(lesson):
    def function(a, b):
        y = relu(a)
        return y + torch.cat([y, b])

    equal(places(lesson, lambda x, y: relu(x) + torch.cat(y), function), [])


# --- several results ------------------------------------------------------------------------------

BOTH = lambda x, y: (torch.relu(x), x + y)
OTHERS = lambda x, y: (torch.tanh(x), x - y)


def test_a_pattern_may_have_several_results(lesson):
    becomes(
        lesson,
        lambda a, b: torch.relu(a) * (a + b),
        BOTH,
        OTHERS,
        lambda a, b: torch.tanh(a) * (a - b),
    )


def test_a_result_may_be_used_by_another(lesson):
    def function(a, f=torch.relu, g=torch.sin):
        y = f(a)
        return y * g(y)

    becomes(
        lesson,
        lambda a: function(a),
        lambda x: (y := torch.relu(x), torch.sin(y)),
        lambda x: (y := torch.tanh(x), torch.cos(y)),
        lambda a: function(a, torch.tanh, torch.cos),
    )


DEPENDS = "the second result is computed from the first, outside of the match"


def test_results_that_depend_on_each_other_outside_are_no_match(lesson):
    def function(a):
        y = torch.relu(a)
        return y, torch.sin(torch.cos(y) + a)

    found = lesson.match(lambda x, z: (torch.relu(x), torch.sin(z)), graph_of(function))
    equal(found, [], cause=(bool, DEPENDS))


def test_of_places_with_several_results_all_are_found(lesson):
    def function(a, b):
        return [(torch.relu(each) * (each + b)) for each in (a, a * 2, a * 3)]

    found = lesson.match(BOTH, graph_of(function))
    equal(len(found), 3)


@pytest.mark.beyond("the copy is made to use its own result: a node is used before it is defined")
@pytest.mark.parametrize(
    "function",
    [lambda a, f, g: f(a) * g(a), lambda a, f, g: torch.sin(g(a)) * f(a)],
    ids=["used after", "used before"],
)
def test_a_result_may_be_an_input(lesson, function):
    becomes(
        lesson,
        lambda a: function(a, torch.relu, lambda x: x),
        lambda x: (torch.relu(x), x),
        lambda x: (torch.tanh(x), x + 1),
        lambda a: function(a, torch.tanh, lambda x: x + 1),
    )


@pytest.mark.beyond("an `AttributeError`: it has no users")
def test_a_result_may_be_an_input_that_is_a_number_or_a_list(lesson):
    pattern, new = (lambda x, y: (torch.sum(x, y), y)), (lambda x, y: (torch.mean(x, y), x))
    becomes(lesson, lambda a: torch.sum(a, 1), pattern, new, lambda a: torch.mean(a, 1))
    becomes(lesson, lambda a: torch.sum(a, [1]), pattern, new, lambda a: torch.mean(a, [1]))


@pytest.mark.beyond("a node is used before it is defined")
def test_what_stands_between_the_results_moves_behind(lesson):
    def function(a, b, f=torch.relu, g=torch.add):
        y = f(a)
        z = y * 2
        return z - g(a, torch.sin(b))

    pattern, new = (
        (lambda x, y: (torch.relu(x), torch.add(x, y))),
        (lambda x, y: (torch.tanh(x), torch.sub(x, y))),
    )
    expected = lambda a, b: function(a, b, torch.tanh, torch.sub)
    becomes(lesson, lambda a, b: function(a, b), pattern, new, expected)


# --- torch's options ------------------------------------------------------------------------------


def found_by(lesson, pattern, function, **options):
    found = lesson.SubgraphMatcher(graph_of(pattern), **options).match(graph_of(function))
    return [[str(node) for node in each.returning_nodes] for each in found]


def test_a_match_tells_inputs_and_results(lesson):
    matcher = lesson.SubgraphMatcher(graph_of(BOTH))
    (found,) = matcher.match(graph_of(lambda a, b: torch.relu(a) * (a + b)))
    equal([str(each) for each in found.placeholder_nodes], ["a", "b"])
    equal([str(each) for each in found.returning_nodes], ["relu", "add"])
    equal([str(each) for each in found.anchors], ["relu", "add"])


def test_overlapping_matches_may_be_kept(lesson):
    pattern = lambda x: torch.relu(torch.relu(x))
    function = lambda a: torch.relu(torch.relu(torch.relu(a)))
    equal(found_by(lesson, pattern, function), [["relu_1"]])
    got = found_by(lesson, pattern, function, remove_overlapping_matches=False)
    equal(got, [["relu_1"], ["relu_2"]])


def test_literals_may_be_ignored(lesson):
    pattern, function = (lambda x: x * 2), (lambda a, b: a * 3 + a * b + 2 * a)
    equal(found_by(lesson, pattern, function), [])
    got = found_by(lesson, pattern, function, ignore_literals=True)
    equal(got, [["mul"], ["mul_1"], ["mul_2"]])


def test_the_output_may_have_to_match(lesson):
    pattern = lambda x: torch.relu(x)
    equal(found_by(lesson, pattern, lambda a: torch.relu(a + 1), match_output=True), [["relu"]])
    equal(found_by(lesson, pattern, lambda a: torch.relu(a) + 1, match_output=True), [])


def test_placeholders_may_have_to_match(lesson):
    pattern = lambda x: torch.relu(x)
    equal(found_by(lesson, pattern, lambda a: torch.relu(a), match_placeholder=True), [["relu"]])
    equal(found_by(lesson, pattern, lambda a: torch.relu(a + 1), match_placeholder=True), [])


# --- filters and callbacks ------------------------------------------------------------------------


def test_a_match_begins_empty(lesson):
    first, second = (lesson.InternalMatch([]) for _ in range(2))
    first.nodes_map["key"] = 1
    equal(second.nodes_map, {})


def test_a_filter_chooses(lesson):
    gm = symbolic_trace(lambda a, b: torch.relu(a) + torch.relu(b))
    asked = []

    def only_b(found, graph, pattern):
        asked.append((graph is gm.graph, calls(pattern), str(found.placeholder_nodes[0])))
        return asked[-1][-1] == "b"

    got = lesson.replace_pattern_with_filters(gm, relu, tanh, [only_b])
    equal(asked, [(True, ["relu"], "a"), (True, ["relu"], "b")])
    equal(calls(gm.graph), ["relu", "tanh", "add"])
    equal([[str(node) for node in each.replacements] for each in got], [["tanh"]])
    holds(isinstance(got[0], lesson.ReplacedPatterns), "a list of `ReplacedPatterns`", got=got)


def test_all_filters_must_agree(lesson):
    gm = symbolic_trace(lambda a: torch.relu(a))
    filters = [lambda *match: True, lambda *match: False]
    equal(lesson.replace_pattern_with_filters(gm, relu, tanh, filters), [])


@pytest.mark.beyond(
    "overlaps are removed first, and a match that is refused later has displaced others"
)
def test_what_a_filter_refuses_does_not_overlap_with_others(lesson):
    gm = symbolic_trace(lambda a: torch.relu(torch.relu(torch.relu(a))))

    def not_first(found, graph, pattern):
        return str(found.returning_nodes[0]) != "relu_1"

    pattern = lambda x: torch.relu(torch.relu(x))
    lesson.replace_pattern_with_filters(gm, pattern, tanh, [not_first])
    equal(calls(gm.graph), ["relu", "tanh"])


def test_a_callback_makes_the_replacement(lesson):
    gm = symbolic_trace(lambda a: (a * 2) + (a * 3))

    def shifted(found, graph, pattern):
        equal((graph is gm.graph, calls(pattern)), (True, ["mul"]))
        factor = found.placeholder_nodes[1]
        return graph_of(lambda x, y: x << (factor - 1))

    lesson.replace_pattern_with_filters(gm, lambda x, y: x * y, replacement_callback=shifted)
    equal([node.args[1] for node in gm.graph.nodes if "shift" in node.name], [1, 2])


def test_literals_may_be_ignored_in_a_replacement(lesson):
    gm = symbolic_trace(lambda a: a * 7)
    lesson.replace_pattern_with_filters(gm, lambda x: x * 2, tanh, ignore_literals=True)
    equal(calls(gm.graph), ["tanh"])


@pytest.mark.beyond("an assertion")
def test_a_replacement_or_a_callback_is_needed(lesson):
    with refuses(ValueError, "replacement_callback"):
        lesson.replace_pattern_with_filters(symbolic_trace(relu), relu)


# --- what is put there ----------------------------------------------------------------------------


@pytest.mark.parametrize("form", [lambda new: new, lambda new: new.graph])
def test_what_is_put_there_may_be_used_again(lesson, form):
    new = symbolic_trace(lambda x: tanh(x) + 1)
    before = calls(new.graph)
    replaced(lesson, lambda a: relu(a) * relu(a), relu, form(new))
    equal(calls(new.graph), before)


@pytest.mark.beyond("an assertion with two numbers")
@pytest.mark.parametrize(
    "new, word",
    [(lambda x, y: x + y, "inputs"), (lambda x: (x, x + 1), "results")],
    ids=["inputs", "results"],
)
def test_a_replacement_of_other_inputs_or_results_is_refused(lesson, new, word):
    gm = symbolic_trace(relu)
    with refuses(ValueError, f" 1 {word}", " 2"):
        lesson.replace_pattern(gm, relu, new)
    equal(calls(gm.graph), ["relu"])


@pytest.mark.beyond("a `TypeError`: it has no length")
def test_a_number_may_be_put_there(lesson):
    becomes(lesson, lambda a: a * relu(a), relu, lambda x: 3, lambda a: a * 3)


class Scaled(nn.Module):
    """A replacement with modules and a parameter."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        self.scale = nn.Parameter(torch.rand(3))

    def forward(self, x):
        return self.inner(x) * self.scale


def test_a_replacement_brings_its_modules_and_parameters(lesson):
    x, new = torch.rand(2, 3), Scaled()
    gm = replaced(lesson, lambda a: torch.relu(a) + 1, relu, new)
    same_numbers(gm(x), new(x) + 1)
    names = ["inner.0.bias", "inner.0.weight", "inner.1.bias", "inner.1.weight", "scale"]
    equal(sorted(gm.state_dict()), names)
    before = gm(x)
    for parameter in new.parameters():
        nn.init.zeros_(parameter)
    same_numbers(gm(x), before)


def test_a_module_that_was_replaced_by_another_is_gone(lesson):
    def named(**layers):
        return nn.Sequential(OrderedDict(layers))

    model = named(old=nn.Linear(3, 3), act=nn.ReLU(), last=nn.Linear(3, 3))
    new = named(other=nn.Linear(3, 3))
    gm = replaced(lesson, model, named(old=nn.Linear(3, 3), act=nn.ReLU()), new)
    left = (lambda got: "old" in got, "the submodule that was replaced is still an attribute")
    equal([name for name, _ in gm.named_children()], ["last", "other"], cause=left)


def test_what_the_module_has_comes_first(lesson):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.full((3,), 7.0))

        def forward(self, x):
            return torch.relu(x) * self.scale

    gm = replaced(lesson, Model(), relu, Scaled())
    equal(gm.scale[0].item(), 7.0)


class Adds(nn.Module):
    def __init__(self, function, constant):
        super().__init__()
        self.function, self.constant = function, constant

    def forward(self, x):
        return self.function(x) + torch.tensor(self.constant)


@pytest.mark.beyond("both are called `_tensor_constant0`, and the model's wins: wrong numbers")
def test_constants_do_not_collide(lesson):
    gm = replaced(lesson, Adds(torch.relu, 5.0), relu, Adds(torch.tanh, 2.0))
    same_numbers(gm(torch.zeros(1)), torch.tensor([7.0]))


@pytest.mark.beyond("they are on the module that was traced, which is thrown away")
def test_a_function_brings_its_constants(lesson):
    new = lambda x: torch.tanh(x) + torch.tensor(2.0)
    gm = replaced(lesson, lambda a: torch.relu(a) * torch.relu(a), relu, new)
    same_numbers(gm(torch.zeros(1)), torch.tensor([4.0]))
    equal(len(list(gm.buffers())) + len([k for k in vars(gm) if "constant" in k]), 1)


@pytest.mark.beyond(
    "it stands before the first user, after what happens until then: wrong numbers after "
    "`x.add_(1)`"
)
def test_what_is_put_there_is_computed_where_the_match_was(lesson):
    def function(a, f=torch.sin):
        y = f(a)
        a.add_(1)
        return y * 2

    gm = replaced(lesson, lambda a: function(a), lambda x: torch.sin(x), lambda x: torch.cos(x))
    same_numbers(gm(torch.zeros(2)), function(torch.zeros(2), torch.cos))


@pytest.mark.beyond("the list keeps a node that was erased", condition=INSTALLED < (2, 15))
def test_an_input_that_is_a_list_follows_what_was_replaced(lesson):
    cat = lambda a, b: torch.cat([torch.cat([a, b]), b])
    stack = lambda a, b: torch.stack([torch.stack([a, b]), b])
    gm = replaced(lesson, cat, lambda x: torch.cat(x), lambda x: torch.stack(x))
    equal(gm.code, symbolic_trace(stack).code)


def test_an_input_that_was_replaced_is_told(lesson):
    gm = symbolic_trace(lambda a: torch.relu(torch.relu(a)))
    first, second = lesson.replace_pattern(gm, relu, tanh)
    _, tanh_0, *_ = gm.graph.nodes
    holds(tanh_0 in second.nodes_map.values(), "the new node", got=second.nodes_map)
    holds(first.anchor is second.anchor, "the anchor is the node of the pattern")


@pytest.mark.parametrize("name", that_run(zoo.SMALL))
def test_a_model_of_the_zoo_computes_the_same_after_replacing_like_by_like(lesson, name):
    specimen = zoo.SMALL[name]()
    gm = symbolic_trace(specimen.model)
    expected = copy.deepcopy(specimen).eager()
    lesson.replace_pattern(gm, relu, relu)
    calls = [node for node in gm.graph.nodes if node.op in ("call_function", "call_method")]
    for pattern in [pattern_of(node, 0) for node in calls if node.users]:
        lesson.replace_pattern(gm, pattern, copy.deepcopy(pattern))
    gm.graph.lint()
    same_numbers(gm(*specimen.inputs, **specimen.kwargs), expected)


# --- fuse -----------------------------------------------------------------------------------------

KINDS = {
    "Conv1d": lambda **o: (nn.Conv1d(4, 6, 3, **o), nn.BatchNorm1d(6), (2, 4, 9)),
    "Conv2d": lambda **o: (nn.Conv2d(4, 6, 3, **o), nn.BatchNorm2d(6), (2, 4, 5, 5)),
    "Conv3d": lambda **o: (nn.Conv3d(4, 6, 3, **o), nn.BatchNorm3d(6), (2, 4, 5, 5, 5)),
    "Linear": lambda **o: (nn.Linear(4, 6), nn.BatchNorm1d(6), (5, 4)),
}
TRANSPOSED = {
    "1d": lambda **o: (nn.ConvTranspose1d(4, 6, 3, **o), nn.BatchNorm1d(6), (2, 4, 9)),
    "2d": lambda **o: (nn.ConvTranspose2d(4, 6, 3, **o), nn.BatchNorm2d(6), (2, 4, 5, 5)),
    "3d": lambda **o: (nn.ConvTranspose3d(4, 6, 3, **o), nn.BatchNorm3d(6), (2, 4, 5, 5, 5)),
}
OPTIONS = [{}, {"bias": False}, {"stride": 2, "padding": 1, "dilation": 2}]


@pytest.mark.parametrize("options", [*OPTIONS, {"groups": 2}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_and_its_batch_norm_are_one_layer(lesson, kind, options):
    conv, norm, shape = KINDS[kind](**options)
    fused_right(lesson, settled(nn.Sequential(conv, norm)), torch.rand(shape), nodes=3)


@pytest.mark.beyond("it is left as it is")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", TRANSPOSED)
def test_a_transposed_convolution_is_fused_too(lesson, kind, options):
    conv, norm, shape = TRANSPOSED[kind](**options)
    fused_right(lesson, settled(nn.Sequential(conv, norm)), torch.rand(shape), nodes=3)


@pytest.mark.parametrize("kind", TRANSPOSED)
def test_a_transposed_convolution_with_groups_stays(lesson, kind):
    conv, norm, shape = TRANSPOSED[kind](groups=2)
    fused_right(lesson, settled(nn.Sequential(conv, norm)), torch.rand(shape), nodes=4)


def test_a_batch_norm_without_statistics_stays(lesson):
    conv, _ = pair()
    model = settled(nn.Sequential(conv, nn.BatchNorm2d(3, track_running_stats=False)))
    fused_right(lesson, model, IMAGES, nodes=4)


def test_one_batch_norm_after_the_other(lesson):
    fused_right(lesson, settled(nn.Sequential(*pair(), nn.BatchNorm2d(3))), IMAGES, nodes=3)


@pytest.mark.beyond("it gets the weight for both batch norms: wrong numbers")
@pytest.mark.parametrize("model", [Shared, UnderTwoNames])
def test_a_convolution_that_is_called_twice_is_not_fused(lesson, model):
    fused_right(lesson, settled(model()), IMAGES)


@pytest.mark.beyond("the fused weight is read: wrong numbers")
@pytest.mark.parametrize("model", [Regularised, lambda: nn.Sequential(Regularised())])
def test_a_convolution_whose_weight_is_read_is_not_fused(lesson, model):
    fused_right(lesson, settled(model()), IMAGES)


def test_a_module_may_be_called_with_a_number(lesson):
    class Doubling(nn.Sequential):
        def forward(self, x):
            return super().forward(x) * self[2](2.0)

    model = settled(Doubling(*pair(), nn.Identity()))
    fused_right(lesson, model, IMAGES, nodes=6)


@pytest.mark.beyond("hooks of the batch norm are lost: wrong numbers")
@pytest.mark.parametrize(
    "number, kind",
    [(0, "register_forward_hook"), (1, "register_forward_hook"), (1, "register_forward_pre_hook")],
)
def test_layers_with_hooks_are_not_fused(lesson, number, kind):
    fused_right(lesson, settled(hooked(number, kind)), IMAGES)


@pytest.mark.beyond("an assertion")
def test_a_linear_layer_of_other_features_is_not_fused(lesson):
    model = settled(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(2)))
    fused_right(lesson, model, torch.rand(5, 2, 4), nodes=4)


def test_training_mode_is_refused(lesson):
    with refuses((RuntimeError, AssertionError), "eval"):
        lesson.fuse(nn.Sequential(*pair()))


@pytest.mark.beyond('an assertion: "Fusion only for eval!"')
def test_what_is_in_training_mode_is_named(lesson):
    model = settled(nn.Sequential(nn.Sequential(*pair())))
    model[0][1].train()
    with refuses(RuntimeError, "`0.1`", "training"):
        lesson.fuse(model)


def test_what_is_frozen_stays_frozen(lesson):
    model = settled(nn.Sequential(*pair()))
    model.requires_grad_(False)
    equal([each.requires_grad for each in lesson.fuse(model).parameters()], [False, False])


def test_half_precision_stays(lesson):
    model = settled(nn.Sequential(*pair())).bfloat16()
    equal({each.dtype for each in lesson.fuse(model).parameters()}, {torch.bfloat16})


def test_in_place_shares_what_is_not_fused(lesson):
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
    equal(len(gm.graph.nodes), 4, cause=(is_value(3), "it was edited"))
    holds(isinstance(fused, GraphModule), "a GraphModule")


def test_what_is_no_graph_module_is_traced_in_any_case(lesson):
    model = settled(nn.Sequential(*pair()))
    expected = len(lesson.fuse(model).graph.nodes)
    equal(len(lesson.fuse(model, no_trace=True).graph.nodes), expected)


CLASSIFIERS = zoo.torchvision_models("classification")


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_torchvisions_classifiers_compute_the_same_when_fused(lesson, name):
    specimen = zoo.classifier(name)
    model = settled(specimen.model)
    fused = lesson.fuse(model)
    with torch.no_grad():
        error = relative_error(fused(*specimen.inputs), model(*specimen.inputs))
    holds(error <= 1e-5, "the numbers that the eager model gives", got=f"relative error {error}")


# --- explain --------------------------------------------------------------------------------------


def explained(lesson, function, pattern):
    return lesson.explain(symbolic_trace(function), pattern)


# A function, a pattern that isn't found, how many of its nodes agree, and a word of the reason.
MISSES = {
    "a namesake": (lambda a: F.relu(a + 1), lambda x: torch.relu(x + 1), 1, "another function"),
    "a method": (lambda a: a.relu(), relu, 0, "call_method, not call_function"),
    "a literal": (lambda a: torch.relu(a + 1), lambda x: torch.relu(x + 2), 1, "1, not 2"),
    "a keyword": (
        lambda a: torch.sum(torch.relu(a), dim=0),
        lambda x: torch.sum(torch.relu(x), dim=1),
        1,
        "0, not 1",
    ),
    "the order": (
        lambda a, b: torch.tanh(b) - torch.relu(a),
        lambda x, y: torch.relu(x) - torch.tanh(y),
        2,
        "another order",
    ),
    "an edge": (
        lambda a, b: torch.relu(a) + torch.relu(b),
        lambda x: torch.relu(x) + torch.relu(x),
        2,
        "a, not b",
    ),
    "a value that escapes": (
        lambda a: (y := a + 1, torch.relu(y)),
        lambda x: torch.relu(x + 1),
        1,
        "also used by output",
    ),
    "an input": (
        lambda a: torch.relu(a),
        lambda x: torch.relu(torch.tanh(x)),
        1,
        "placeholder, not",
    ),
    "a list": (
        lambda a, b: torch.cat([a, b]),
        lambda x, y, z: torch.cat([x, y, z]),
        0,
        "[a, b], not [x, y, z]",
    ),
    "one node for two": (
        lambda a: (y := torch.relu(a)) * y,
        lambda x: torch.relu(x) * torch.relu(x),
        1,
        "two nodes of the pattern",
    ),
}


@pytest.mark.beyond("an empty list, and nothing else", run=False)
@pytest.mark.parametrize("case", MISSES)
def test_the_nearest_miss_is_explained(lesson, case):
    function, pattern, agreeing, reason = MISSES[case]
    got = explained(lesson, function, pattern)
    equal(got.matches, [])
    holds(reason in str(got), reason, got=str(got))
    equal(got.agreeing, agreeing)


@pytest.mark.beyond("the same", run=False)
def test_the_nearest_of_several_is_explained(lesson):
    function = lambda a: torch.relu(torch.sin(a * 2)) + torch.relu(torch.tanh(a * 3) * 1)
    got = explained(lesson, function, lambda x: torch.relu(torch.tanh(x * 3)))
    lines = [line.split() for line in str(got).splitlines()]
    equal(lines[0][:2], ["not", "found;"])
    holds(any("mul_1" in line for line in lines), "the place with `tanh(a * 3)`", got=str(got))


class Layer(nn.Module):
    """A linear layer, and a function before and after it."""

    def __init__(self, before, after):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.before, self.after = before, after

    def forward(self, x):
        return self.after(self.linear(self.before(x)))


TABLE = """\
not found; at the nearest miss 1 of 3 nodes agree
  pattern                    graph
  sin = torch.sin(x)         x                                placeholder, not call_function
  linear = self.linear(sin)  linear = self.linear(x)
  relu = torch.relu(linear)  sigmoid = torch.sigmoid(linear)  another function"""


@pytest.mark.beyond("the same", run=False)
def test_an_explanation_is_a_table(lesson):
    got = explained(lesson, Layer(lambda x: x, torch.sigmoid), Layer(torch.sin, torch.relu))
    equal(str(got), TABLE)


NOTHING = """\
not found; at the nearest miss 0 of 1 nodes agree
  pattern               graph
  relu = torch.relu(x)  -"""


@pytest.mark.beyond("the same", run=False)
def test_a_graph_that_computes_nothing_has_nothing_to_compare(lesson):
    equal(str(explained(lesson, lambda a: a, relu)), NOTHING)


@pytest.mark.beyond("the same", run=False)
def test_what_is_found_needs_no_explanation(lesson):
    got = explained(lesson, lambda a: torch.relu(a + 1), relu)
    equal(len(got.matches), 1)
    equal(str(got), "found 1 times, at relu")


@pytest.mark.beyond("the same", run=False)
def test_explaining_takes_time_in_proportion_to_the_graph(lesson):
    def work(size):
        gm = planted(0, size)[0]
        return lambda: lesson.explain(gm, lambda x: torch.sigmoid(torch.relu(x)))

    rate = growth(work, 200)
    holds(rate < LINEAR, "twice the work for twice the graph", got=f"{rate:.1f} times")
