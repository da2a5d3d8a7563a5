"""``inversion``: a chain of operations, followed by its inverse, changes nothing."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn

from tests.models.inversion import (
    NO_CHAIN,
    NO_STEP,
    Affine,
    X,
    builder_for,
    chain_of,
    computes,
    constants_of,
    numbers_of,
    random_chain,
    refused,
    refused_by,
    seed_example,
    undone,
    undone_twice,
    with_state,
)
from tests.suite import equal, holds, is_value, noting, refuses, rows, same_numbers
from tests.suite.chance import by_chance
from tests.suite.engine import graph_module, is_graph_module, symbolic_trace

FUNCTIONS = [torch.sin, torch.cos, torch.tan, torch.exp]
INVERSE_FUNCTIONS = [torch.arcsin, torch.arccos, torch.arctan, torch.log]


# --- step 1: which function undoes which ----------------------------------------------------------


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "exp"])
def test_each_of_a_pair_is_the_inverse_of_the_other(lesson, name):
    function = getattr(torch, name)
    inverse = lesson.inverse_of(function)
    holds(
        lesson.inverse_of(inverse) is function,
        f"the inverse of the inverse of {name} to be {name}",
        hint="`INVERSES` has both functions of a pair",
    )


def test_an_unknown_function_is_refused_by_name(lesson):
    hint = "raise an error that says which function it is, and how to register its inverse"
    with refuses(lesson.NotInvertibleError, "relu", hint=hint):
        lesson.inverse_of(torch.relu)


def test_both_functions_of_a_new_pair_are_known(lesson):
    ndtr, ndtri = torch.special.ndtr, torch.special.ndtri
    lesson.add_inverse(ndtr, ndtri)
    equal([lesson.inverse_of(ndtr), lesson.inverse_of(ndtri)], [ndtri, ndtr])


@pytest.mark.parametrize("place", [0, 1])
def test_a_later_pair_wins(lesson, place):
    half, first, second = (lambda x, factor=factor: x * factor for factor in (0.5, 1, 2))
    for other in (first, second):
        lesson.add_inverse(*((half, other) if place == 0 else (other, half)))
    inverse = lesson.inverse_of(half)
    names = {half: "the function itself", first: "its first inverse", second: "its second inverse"}
    stays = (inverse is first, "the first pair stays: a later one has to overwrite it")
    equal(names.get(inverse, inverse), "its second inverse", cause=stays)


def test_a_function_that_only_shares_its_name_with_a_known_one_is_another(lesson):
    def exp(x):
        return x + 1

    found = []
    by_name = (lambda _: found == [torch.log], "it was looked up by its name, and not by itself")
    with refuses(lesson.NotInvertibleError, "exp", cause=by_name):
        found.append(lesson.inverse_of(exp))
    lesson.add_inverse(exp, lambda y: y - 1)
    equal(lesson.inverse_of(torch.exp), torch.log)


# --- step 2: is the graph a chain? ----------------------------------------------------------------


def test_the_chain_leads_from_the_placeholder_to_the_output(lesson):
    graph = symbolic_trace(seed_example).graph
    equal([node.name for node in lesson.find_chain(graph)], ["x", "tan", "exp", "output"])


def test_constants_are_not_in_the_chain(lesson):
    gm = symbolic_trace(Affine())
    equal(
        [node.name for node in lesson.find_chain(gm.graph)],
        [node.name for node in chain_of(gm.graph)],
        cause=(lambda names: "scale" in names, "a node that reads a parameter is in the chain"),
        hint="begin at the placeholder, and go from each node to the one that uses it",
    )


@pytest.mark.parametrize("case", NO_CHAIN)
def test_a_graph_that_is_not_a_chain_is_refused(lesson, case):
    model, names = NO_CHAIN[case]
    graph = symbolic_trace(model).graph
    hint = "ask for one input, for one user of each value, and for one value in the output"
    refused_by(lesson, lambda: lesson.find_chain(graph), *names, hint=hint)


# --- step 3: solve one operation ------------------------------------------------------------------


def solved(lesson, function, operands: list, place: int):
    """Let the lesson solve for one operand, which it doesn't get, and compute it."""
    result = function(*operands)
    operands = ["unknown" if at == place else each for at, each in enumerate(operands)]
    inverse, arguments = lesson.solve(function, operands, place, result)
    return inverse(*arguments)


@pytest.mark.parametrize("function", FUNCTIONS + INVERSE_FUNCTIONS, ids=lambda f: f.__name__)
def test_a_function_is_solved_for_its_operand(lesson, function):
    same_numbers(solved(lesson, function, [X], 0), X, hint="use `inverse_of`")


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv"])
def test_an_operation_is_solved_for_either_operand(lesson, name, place):
    operands, spelling = [0.25, 8.0], ("x, c", "c, x")[place]
    result = solved(lesson, getattr(operator, name), operands, place)
    equal(result, operands[place], hint=f"solve `y = {name}({spelling})` for `x` on paper")


def add(x, y):
    return x + 2 * y


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("function", [operator.pow, torch.exp, add], ids=lambda f: f.__name__)
def test_an_operation_that_cannot_be_solved_is_refused(lesson, function, place):
    name = function.__name__
    hint = f"two operands belong to the four operators, and this {name} isn't one of them"
    refused_by(lesson, lambda: lesson.solve(function, [2, 2], place, "y"), name, hint=hint)


# --- step 4: constants ----------------------------------------------------------------------------


def test_the_value_of_a_constant_is_the_attribute_it_reads(lesson):
    model = nn.Sequential(Affine())
    builder = builder_for(lesson, model)
    (scale,) = [node for node in constants_of(builder) if node.target == "0.scale"]
    value = builder.value_of(scale)
    holds(value is model[0].scale, "the parameter itself", got=value)


def test_constants_are_copied_in_order_and_looked_up(lesson):
    builder = builder_for(lesson, Affine())
    builder.copy_constants()
    expected = [(node.op, node.target) for node in constants_of(builder)]
    equal([(node.op, node.target) for node in builder.graph.nodes], expected)
    for found in (builder.copies, builder.values):
        equal(list(found), constants_of(builder), hint="the keys are nodes of the chain's graph")
    equal([node.target for node in builder.copies.values()], [target for _, target in expected])
    same_numbers(
        {node.target: value for node, value in builder.values.items()},
        {target: getattr(builder.root, target) for _, target in expected},
    )


def test_a_constant_that_changes_the_model_is_refused_by_name(lesson):
    model = with_state(lambda model, x: (model.weight.mul_(2), x + model.weight)[1])
    builder = builder_for(lesson, model)
    try:
        refused_by(lesson, builder.copy_constants, "mul_", "weight")
    finally:
        ran = (is_value([2.0, 4.0]), "the operation that changes the weight was run")
        hint = "a constant is a number or the value of a `get_attr` node: refuse others"
        equal(model.weight.tolist(), [1.0, 2.0], cause=ran, hint=hint)


@pytest.mark.parametrize("zero", [0, 0.0, torch.tensor([1.0, 0.0])], ids=["0", "0.0", "tensor"])
@pytest.mark.parametrize("inverse", [operator.mul, operator.truediv])
def test_a_zero_that_is_a_factor_is_refused(lesson, inverse, zero):
    builder = builder_for(lesson, seed_example)
    hint = (
        "`x * 0`, `0 / x` and `x / 0` lose `x`: look at a number, and at each element of a tensor"
    )
    refused_by(lesson, lambda: builder.check_constant(zero, inverse), hint=hint)


@pytest.mark.parametrize("zero", [0, torch.zeros(2)], ids=["0", "tensor"])
@pytest.mark.parametrize("inverse", [operator.add, operator.sub])
def test_a_zero_that_is_a_term_is_fine(lesson, inverse, zero):
    builder_for(lesson, seed_example).check_constant(zero, inverse)


# --- step 5: undo the steps -----------------------------------------------------------------------


def test_a_step_has_a_function_and_operands(lesson):
    builder = builder_for(lesson, lambda x: 2 - x)
    function, operands = builder.call_of(builder.chain[1])
    holds(function is operator.sub, "operator.sub", got=function)
    equal(list(operands), [2, builder.chain[0]])


def test_a_step_with_a_constant_uses_the_copy(lesson):
    model = with_state(lambda model, x: model.weight - x)
    builder = builder_for(lesson, model)
    x, step, _ = builder.chain
    result = builder.graph.placeholder("result")
    builder.copy_constants()
    builder.graph.output(builder.undo(step, x, result))
    builder.graph.lint()
    computes(
        graph_module(model, builder.graph), torch.tensor([1.0, 3.0]), torch.tensor([0.0, -1.0])
    )


@pytest.mark.parametrize("model", [lambda x: x * x, lambda x: torch.cat([x])], ids=["*", "cat"])
def test_a_step_whose_input_isnt_one_operand_is_refused(lesson, model):
    lesson.add_inverse(torch.cat, lambda y: y[0])
    builder = builder_for(lesson, model)
    x, step, _ = builder.chain
    result = builder.graph.placeholder("result")
    hint = "count the operands that are the input: not twice, and not in a list"
    refused_by(lesson, lambda: builder.undo(step, x, result), hint=hint)


def test_the_steps_are_undone_from_the_last_to_the_first(lesson):
    _, *steps, _ = (node.name for node in builder_for(lesson, seed_example).build().graph.nodes)
    forwards = (
        lambda names: names == ["arctan", "log"],
        "the steps are undone in the order in which they were done: begin with the last",
    )
    equal(steps, ["log", "arctan"], cause=forwards)


def test_the_example_prints_the_code_of_its_inverse(lesson):
    inverse = lesson.invert(seed_example)
    holds(is_graph_module(inverse), "a GraphModule", got=type(inverse))
    inverse.graph.lint()
    lines = [
        "def forward(self, output):",
        "    log = torch.log(output);  output = None",
        "    arctan = torch.arctan(log);  log = None",
        "    return arctan",
    ]
    equal(inverse.code.strip(), "\n".join(lines))


def test_the_placeholder_has_the_name_of_the_output_node(lesson):
    """If an input is called `output`, the output node isn't. The constants follow."""
    placeholder, constant, *_ = lesson.invert(lambda output: output + torch.ones(2)).graph.nodes
    ops = [placeholder.op, constant.op]
    equal(ops, ["placeholder", "get_attr"], hint="first the placeholder, then the constants")
    equal(placeholder.name, "output_1", hint="ask the model's output node for its name")


@pytest.mark.parametrize("case", NO_STEP)
def test_a_model_with_a_step_without_an_inverse_is_refused(lesson, case):
    model, names = NO_STEP[case]
    refused(lesson, model, *names)


def test_parameters_and_buffers_are_shared_with_the_model(lesson):
    affine = Affine()
    model = nn.Sequential(affine)
    inverse = lesson.invert(model)
    found = [*inverse.parameters(), *inverse.buffers()]
    ours = model.state_dict(keep_vars=True)
    lost = [name for name, own in ours.items() if not any(own is each for each in found)]
    hint = "a shallow copy of a module shares its parameters and buffers, a deep copy doesn't"
    equal(lost, [], cause=(bool, "the inverse doesn't have these of the model"), hint=hint)
    with torch.no_grad():
        affine.shift += 1
        affine.mean += 1
    computes(inverse, model(X), X)


def test_the_model_given_is_not_changed(lesson):
    model = nn.Sequential(Affine())
    attributes, numbers = set(vars(model)), numbers_of(model)
    lesson.invert(model)
    stored = (lambda names: "_tensor_constant0" in names, "the trace stored a constant on it")
    hint = "trace a copy that shares parameters and submodules"
    equal(set(vars(model)) ^ attributes, set(), cause=stored, hint=hint)
    equal(numbers_of(model), numbers)
    shared = (is_value([True, False]), "the copy's submodules are those of the model")
    equal([each.training for each in model.modules()], [True, True], cause=shared)


def test_a_module_of_torch_is_undone_by_what_undoes_its_function(lesson):
    lesson.add_inverse(torch.tanh, torch.arctanh)
    left = (lambda error: "_0" in str(error), "the call of the module was left in the graph")
    hint = "`inline_all` puts what a module computes in the place of its call"
    with noting(cause=left, hint=hint, on=(lesson.NotInvertibleError,)):
        undone(lesson, nn.Sequential(nn.Tanh(), Affine()))


# --- the whole: the model and its inverse ---------------------------------------------------------


def test_a_constant_may_be_used_by_several_steps(lesson):
    model = with_state(lambda model, x: model.weight - x * model.weight)
    undone(lesson, model, torch.tensor([0.5, 0.25]))


def test_a_graph_module_is_inverted_and_not_changed(lesson):
    gm = symbolic_trace(seed_example)
    before = rows(gm.graph)
    inverse = lesson.invert(gm)
    equal(rows(gm.graph), before, hint="build a new graph, and leave the given one as it is")
    computes(inverse, gm(X), X)


def test_a_model_that_does_nothing_is_its_own_inverse(lesson):
    computes(lesson.invert(lambda x: x), X, X)


@by_chance(8)
def test_a_random_chain_is_undone_and_inverted_twice_it_is_itself(lesson, chance):
    undone_twice(lesson, random_chain(chance, "torch.{}(x)"))


# --- the whole: what can't be inverted ------------------------------------------------------------


def test_the_error_states_the_reason(lesson):
    reasons = {
        refused(lesson, lambda x, y: x * y, "mul", "x", "y"),
        refused(lesson, lambda x: 0 * x, "mul"),
        refused(lesson, lambda x: torch.abs(x), "abs").replace("abs", "mul"),
    }
    expected = "another reason for each: two inputs, a zero, an unknown operation"
    holds(len(reasons) == 3, expected, got="\n".join(reasons))


def test_a_constant_that_changes_the_model_is_refused(lesson):
    model = with_state(lambda model, x: x + model.weight.mul_(2))
    try:
        refused(lesson, model, "mul_", "add", "weight")
    finally:
        ran = (is_value([2.0, 4.0]), "`invert` ran the operation that changes the weight")
        hint = "a constant is a number or the value of a `get_attr` node: refuse others"
        equal(model.weight.tolist(), [1.0, 2.0], cause=ran, hint=hint)


def test_a_change_of_the_model_outside_the_chain_is_refused(lesson):
    model = with_state(lambda model, x: (model.weight.mul_(2), x + model.weight)[1])
    refused(lesson, model, "mul_", "weight")
