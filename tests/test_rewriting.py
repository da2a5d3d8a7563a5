"""``rewriting``: what your matcher finds and replaces, and what your fusion makes of a model."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from tests.models.rewriting import (
    IMAGES,
    NOTHING,
    becomes,
    calls,
    fused_right,
    matched,
    pair,
    paired,
    places,
    relu,
    replaced,
    settled,
    skip_on_torch,
    tanh,
    twice,
)
from tests.suite import equal, holds, is_value, refuses
from tests.suite.engine import is_graph_module, is_node, symbolic_trace
from tests.zoo import Model, resnet18

# --- step 1: one node of the pattern, and one of the graph ----------------------------------------

ADD = lambda x, y: x + y
CAT = lambda x, y: torch.cat([x, y])
RELU_OF_SUM = lambda x, y: relu(x + y)
RELU_OF_ONE = lambda x, y: torch.cat([relu(x), y])
ROWS = lambda x: torch.sum(x, dim=1)
HALF = lambda x: x * float("0.5")
SCALED = Model(lambda model, x: x * model.scale, scale=nn.Parameter(torch.ones(3)))


# A pattern, a function, and what the inputs of the pattern match at its result.
MATCHES = {
    "an input matches a literal": (ADD, lambda a: a + 2, ["a", "2"]),
    "two inputs match equal literals": (
        lambda x, y, z: torch.clamp(x, y, z),
        lambda a: torch.clamp(a, 2, 2),
        ["a", "2", "2"],
    ),
    "an input matches a list": (lambda x: torch.cat(x), CAT, ["[x, y]"]),
    "an input matches `None`": (
        lambda x, y: x.clamp(y, 1),
        lambda a: a.clamp(None, 1),
        ["a", "None"],
    ),
    "all calls on the way match": (RELU_OF_SUM, lambda a, b: relu(tanh(a) + b), ["tanh", "b"]),
    "elements of a list match": (RELU_OF_ONE, lambda a, b: torch.cat([relu(a), b]), ["a", "b"]),
    "a list matches a tuple": (CAT, lambda a, b: torch.cat((a, b)), ["a", "b"]),
    "a literal matches an equal one": (ROWS, ROWS, ["x"]),
    "an equal literal may be another object": (HALF, HALF, ["x"]),
    "an input matches one value, twice": (
        lambda x: x + relu(x),
        lambda a: a + relu(a),
        ["a"],
    ),
    "an input matches equal lists, twice": (
        lambda x: torch.cat(x).add(torch.stack(x)),
        lambda a, b: torch.cat([a, b]).add(torch.stack([a, b])),
        ["[a, b]"],
    ),
}


@pytest.mark.parametrize("case", MATCHES)
def test_a_pattern_matches(lesson, case):
    pattern, function, expected = MATCHES[case]
    lost = (lambda got: NOTHING in got, "an input isn't in the `nodes_map` that was passed in")
    equal(matched(lesson, pattern, function), expected, cause=lost)


# The reason why nothing matches: a pattern, and a function without a match of it.
NO_MATCH = {
    "the graph's list is longer": (lambda x: torch.cat([x]), CAT),
    "the graph's list is shorter": (CAT, lambda a: torch.cat([a])),
    "a node isn't a list": (CAT, lambda a: torch.cat(a)),
    "the functions differ": (relu, lambda a: tanh(a)),
    "the functions only share a name": (lambda x, y: torch.add(x, y), lambda a, b: a + b),
    "a method isn't a function": (relu, lambda a: a.relu()),
    "only the last calls are equal": (RELU_OF_SUM, lambda a, b: relu(a * b)),
    "the order of the arguments differs": (lambda x, y: relu(x) + y, lambda a, b: a + relu(b)),
    "the literals differ": (lambda x: x + 2, lambda a: a + 3),
    "the types of the literals differ": (lambda x: x + 1, lambda a: a + 1.0),
    "a bool isn't an int": (lambda x: x + 1, lambda a: a + True),
    "`None` is a literal too": (lambda x: x.clamp(None, 1), lambda a: a.clamp(0, 1)),
    "a node isn't a literal": (lambda x: x + 1, lambda a, b: a + b),
    "a parameter of the pattern isn't an input": (SCALED, lambda a, b: a * b),
    "a literal isn't a call": (lambda x: x + relu(x), lambda a: a + 1),
    "the keyword arguments differ": (ROWS, lambda a: torch.sum(a, dim=0)),
    "the elements of the lists differ": (RELU_OF_ONE, lambda a, b: torch.cat([tanh(a), b])),
    "`x` matches `a` and `b`": (lambda x: x + relu(x), lambda a, b: a + relu(b)),
    "one node of the pattern matches two": (twice(relu), lambda a: relu(a) * relu(a)),
    "two nodes of the pattern match one": (lambda x: relu(x) * relu(x), twice(relu)),
    "two inputs of the pattern match one node": (ADD, lambda a: a + a),
}


@pytest.mark.parametrize("reason", NO_MATCH)
def test_a_pattern_does_not_match_what_differs(lesson, reason):
    got = matched(lesson, *NO_MATCH[reason])
    holds(got is None, f"no match: {reason}", got=got)


@pytest.mark.parametrize("literals", [(1, 1.0), (1, True)], ids=str)
def test_an_input_that_is_repeated_matches_literals_of_one_type(lesson, literals):
    skip_on_torch(lesson, "torch compares them by `==`")
    got = matched(lesson, lambda x, y: x.clamp(y, y), lambda a: a.clamp(*literals))
    holds(got is None, "no match", got=got, hint="compare them with `same_value`")


def test_a_pattern_of_torch_matches_in_a_graph_of_torch(lesson):
    trace, hint = torch.fx.symbolic_trace, "`is_node` knows the nodes of torch, too"
    equal(matched(lesson, relu, relu, trace), ["x"], hint=hint)
    equal(matched(lesson, ADD, lambda a: a + a, trace), None, hint=hint)


# --- step 2: what may be replaced -----------------------------------------------------------------


def test_a_value_inside_may_only_be_used_inside(lesson):
    _, _, add, relu, mul, _ = symbolic_trace(lambda a, b: torch.relu(a + b) * 2).graph.nodes
    hint = "all users of `add` are inside, and those of `relu` don't count"
    equal(lesson.is_contained([add, relu]), True, hint=hint)
    equal(lesson.is_contained([add, mul]), False, hint="which nodes use `add`?")
    equal(lesson.is_contained([add]), True, hint="the anchor's users get the new value")


THREE = [
    (lambda a: (relu(tanh(b := a + 1)), b), False),
    (lambda a: (relu(b := tanh(a + 1)), b), False),
    (lambda a: tanh(b := a + 1) * b, True),
]


@pytest.mark.parametrize(("function", "expected"), THREE, ids=["first", "second", "inside"])
def test_the_users_of_every_node_but_the_last_are_inside(lesson, function, expected):
    hint = "each user of the first two has to be inside, and the graph's output is a user"
    _, *inside, _ = nodes = [*symbolic_trace(function).graph.nodes]
    equal(lesson.is_contained(inside), expected, hint=hint)
    equal(inside, nodes[1:-1], hint="leave the list as it is: `match` still needs it")


# --- step 3: all places in a graph ----------------------------------------------------------------


def test_every_place_is_found_in_order(lesson):
    function = lambda a, b: relu(a) * relu(relu(b))
    hint = "try every node, in the order of the graph, each with an empty `nodes_map`"
    equal(places(lesson, relu, function), ["relu", "relu_1", "relu_2"], hint=hint)
    for pattern in (lambda x: x.relu(), nn.Sequential(nn.ReLU())):
        equal(len(places(lesson, pattern, pattern)), 1, hint="the anchor may make any call")


def test_a_value_that_escapes_prevents_a_match(lesson):
    got = places(lesson, RELU_OF_SUM, lambda a, b: relu(y := a + b) * y)
    seen = (is_value(["relu"]), "`mul` uses `add`, which would be erased")
    equal(got, [], cause=seen, hint="call `is_contained`")


def test_inputs_and_result_of_a_match_may_be_used_anywhere(lesson):
    function = lambda a: ((y := tanh(a)) * (z := relu(y)), z - 1)
    hint = "only what is between inputs and result must not be used outside"
    equal(places(lesson, relu, function), ["relu"], hint=hint)


TAKEN = "remember which nodes are taken: those of the matches that count, and no others"


@pytest.mark.parametrize("length", range(2, 6))
def test_of_two_places_that_overlap_the_first_counts(lesson, length):
    def function(a):
        for _ in range(length):
            a = relu(a)
        return a

    got = places(lesson, lambda x: relu(relu(x)), function)
    expected = ["relu_1", "relu_3"][: length // 2]
    causes = [
        (lambda got: len(got) == length - 1, "places that overlap were kept"),
        (is_value(["relu_2"]), "the later of the two was kept"),
    ]
    equal(got, expected, cause=causes, hint=TAKEN)


def test_a_place_that_does_not_count_does_not_displace_the_next(lesson):
    got = places(lesson, lambda x: relu(relu(x)), lambda a: (relu(relu(y := relu(a))), y))
    equal(got, ["relu_2"], hint=TAKEN)


# --- step 4: another graph in its place -----------------------------------------------------------


ORDER = "each input of the replacement gets what the pattern's input at this position matches"
MINUS = lambda x, y: relu(y) - x, lambda y, x: relu(y) - x  # other positions
# A function, the pattern, what replaces it, and what the function becomes.
REPLACED = {
    "once": (lambda a: relu(a) + 1, relu, tanh, lambda a: tanh(a) + 1),
    "everywhere": (
        lambda a, b: torch.cat([relu(a), relu(relu(b))]),
        relu,
        tanh,
        lambda a, b: torch.cat([tanh(a), tanh(tanh(b))]),
    ),
    "not in what was inserted": (
        lambda a, b: relu(a) - relu(b),
        relu,
        lambda x: relu(x) * 2,
        lambda a, b: relu(a) * 2 - relu(b) * 2,
    ),
    "inputs in order": (lambda a, b: relu(a) - b, *MINUS, lambda a, b: relu(b) - a),
    "inputs in the other order": (lambda a, b: relu(b) - a, *MINUS, lambda a, b: relu(a) - b),
    "a literal": (lambda a: a + 3, ADD, lambda x, y: x * y, lambda a: a * 3),
    "a list": (
        lambda a, b: torch.cat([a, b]),
        lambda x: torch.cat(x),
        lambda x: torch.stack(x),
        lambda a, b: torch.stack([a, b]),
    ),
    "a result with many users": (twice(relu), relu, tanh, twice(tanh)),
    "a call with an effect": (
        lambda a: relu(a.add_(1)) * 2,
        lambda x: relu(x.add_(1)),
        tanh,
        lambda a: tanh(a) * 2,
    ),
    "by its input": (lambda a: relu(relu(a + 1)) * 2, relu, lambda x: x, lambda a: (a + 1) * 2),
}


@pytest.mark.parametrize("case", REPLACED)
def test_a_pattern_is_replaced(lesson, case):
    becomes(lesson, *REPLACED[case], hint=ORDER if case.startswith("inputs") else "")


def test_a_match_whose_input_is_another_match(lesson):
    def thrice(step):
        return lambda a: step(step(step(a)))

    old, new = (lambda x: relu(x + 1)), (lambda x: tanh(x) * 2)
    hint = "the input of a match is the result of another, which is replaced too"
    becomes(lesson, thrice(old), old, new, thrice(new), hint=hint)


def test_the_copy_is_inserted_before_the_last_node_of_the_match(lesson):
    gm = symbolic_trace(lambda a, b: relu(a) + tanh(b))
    lesson.replace_pattern(gm, lambda x, y: relu(x) + y, lambda x, y: y - relu(x))
    got = calls(gm.graph)
    early = (is_value(["relu", "sub", "tanh"]), "the copy uses `tanh`, which is computed after it")
    equal(got, ["tanh", "relu", "sub"], cause=early, hint="the match's last node is `add`")


def test_the_copy_is_computed_where_the_match_was(lesson):
    skip_on_torch(lesson, "torch computes it before its first user: wrong numbers")
    gm = symbolic_trace(lambda a: (y := relu(a), a.add_(1), y * 2)[2])
    lesson.replace_pattern(gm, relu, tanh)
    late = (
        is_value(["add_", "tanh", "mul"]),
        "the copy is computed after `add_` changed its input",
    )
    equal(calls(gm.graph), ["tanh", "add_", "mul"], cause=late, hint="insert it before `relu`")


def test_an_unused_call_outside_the_matches_stays(lesson):
    def function(a):
        a.add_(1)
        return relu(a)

    gm = symbolic_trace(function)
    lesson.replace_pattern(gm, relu, tanh)
    lost = (is_value(["tanh"]), "`add_`, which changes its input, was erased as unused")
    equal(calls(gm.graph), ["add_", "tanh"], cause=lost, hint="erase the nodes of the match only")


@pytest.mark.parametrize("trace", [symbolic_trace, torch.fx.symbolic_trace])
def test_the_matches_are_returned(lesson, trace):
    gm = trace(lambda a, b: relu(a) + relu(b))
    _, _, relu_0, relu_1, *_ = gm.graph.nodes
    found = lesson.replace_pattern(gm, relu, lambda x: tanh(x) + 1)
    holds(all(isinstance(each, lesson.Match) for each in found), "a list of `Match`", got=found)
    hint = "return what `match` returned, in its order"
    equal([each.nodes_map[each.anchor] for each in found], [relu_0, relu_1], hint=hint)
    equal(lesson.replace_pattern(gm, relu, tanh), [])
    arguments = [each for node in gm.graph.nodes for each in node.args if is_node(each)]
    foreign = [each for each in arguments if each.graph is not gm.graph]
    cause = (bool, "a copy uses nodes of the replacement's graph")
    equal(foreign, [], cause=cause, hint="trace the replacement with `traced_like`")


def test_a_diamond_is_erased_whole(lesson):
    def pattern(x):
        y = tanh(x)
        return relu(y) + torch.sigmoid(y)

    becomes(lesson, lambda a: pattern(a) * 2, pattern, relu, lambda a: relu(a) * 2)


def test_a_module_and_a_parameter_may_be_part_of_a_pattern(lesson):
    old = lambda model, x: relu(model.layer(x) * model.scale)
    parts = {"layer": nn.Linear(3, 3), "scale": nn.Parameter(torch.ones(3))}
    model = Model(lambda model, x: model.last(old(model, x)), last=nn.Linear(3, 3), **parts)
    gm = replaced(lesson, model, symbolic_trace(Model(old, **parts)), tanh)
    hint = "every node of the match is erased, parameters too"
    equal(calls(gm.graph), ["tanh", "last"], hint=hint)


# --- step 5: fuse ---------------------------------------------------------------------------------


def test_resnet18_is_fused(lesson):
    model = settled(resnet18().model)
    fused = fused_right(lesson, model, torch.rand(2, 3, 64, 64), nodes=51)
    names = list(fused.state_dict())
    of_norms = [name for name in names if "bn" in name or "running" in name]
    is_conv = lambda got: hasattr(fused.get_submodule(got[0].rpartition(".")[0]), "stride")
    causes = [
        (is_conv, "a convolution is at the path of its batch norm"),
        (lambda got: "bn1.running_mean" in got, "the batch norms are still submodules"),
    ]
    equal(of_norms, [], cause=causes)
    equal(len(names), len(model.state_dict()) - 20 * 4)


@pytest.mark.parametrize("bias", [True, False])
def test_a_convolution_and_its_batch_norm_are_one_convolution(lesson, bias):
    conv, _ = pair(bias=bias)
    model = nn.Sequential(conv, nn.BatchNorm2d(3, affine=bias))
    fused = fused_right(lesson, settled(model), IMAGES, nodes=3)
    equal(list(fused.state_dict()), ["0.weight", "0.bias"])
    holds(is_graph_module(fused), "a GraphModule", got=type(fused))


CONV, NORM = pair()
# A model, and how many nodes it has when it is fused.
FUSED = {
    "a pair that isn't adjacent": (
        paired(lambda model, x: model.norm((model.conv(x), z := relu(x))[0]) + z),
        5,
    ),
    "a layer between": (nn.Sequential(CONV, nn.ReLU(), NORM), 5),
    "in the other order": (nn.Sequential(NORM, CONV), 4),
    "a batch norm that is called twice, and its value used twice": (
        Model(
            lambda model, x: (y := model.norm(model.conv(x))) * model.norm(model.last(y)),
            conv=CONV,
            norm=NORM,
            last=nn.Conv2d(3, 3, 1),
        ),
        5,
    ),
    "a value that is used twice": (paired(lambda model, x: model.norm(y := model.conv(x)) + y), 5),
    "without statistics": (
        nn.Sequential(CONV, nn.BatchNorm2d(3, track_running_stats=False), *pair()),
        5,
    ),
}


@pytest.mark.parametrize("case", FUSED)
def test_a_pair_is_fused_and_other_layers_are_left_alone(lesson, case):
    model, nodes = FUSED[case]
    fused_right(lesson, settled(copy.deepcopy(model)), IMAGES, nodes=nodes)


HOOKED = nn.Sequential(*pair())
HOOKED[0].register_forward_hook(lambda module, args, result: result.relu())
# What else a convolution is used for, a model, and how many nodes it has.
LEFT_ALONE = {
    "called without the norm": (paired(lambda m, x: m.norm(m.conv(x)) - m.conv(x)), 6),
    "called for two norms": (paired(lambda m, x: m.norm(m.conv(x)) - m.other(m.conv(x))), 7),
    "its weight is read": (paired(lambda m, x: m.norm(m.conv(x)) * m.conv.weight.sum()), 7),
    "it has a hook": (HOOKED, 4),
}


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_a_convolution_that_does_more_is_left_alone(lesson, case):
    skip_on_torch(lesson, "torch fuses it: wrong numbers")
    model, nodes = LEFT_ALONE[case]
    fused_right(lesson, settled(copy.deepcopy(model)), IMAGES, nodes=nodes)


def test_training_mode_is_refused(lesson):
    with refuses((RuntimeError, AssertionError), "eval"):
        lesson.fuse(nn.Sequential(*pair()))


def test_the_model_is_not_changed_and_shares_no_parameters(lesson):
    model = settled(paired(lambda model, x: model.norm(model.conv(model.other(x))) + torch.ones(1)))
    before, names = copy.deepcopy(model.state_dict()), set(vars(model))
    ours = set(map(id, lesson.fuse(model).parameters()))
    after = model.state_dict()
    equal(list(after), list(before), hint="fuse a copy")
    changed = [name for name in before if not torch.equal(before[name], after[name])]
    equal(changed, [], cause=(bool, "the parameters of the model itself were changed"))
    shared = [name for name, each in model.named_parameters() if id(each) in ours]
    equal(shared, [], hint="fuse a copy")
    added = sorted(vars(model).keys() - names)
    equal(added, [], hint="trace a copy: a trace stores its constants on the model")
