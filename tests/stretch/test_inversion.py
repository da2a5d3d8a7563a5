"""``inversion`` beyond the core: every spelling, computed constants, modules as steps."""

from __future__ import annotations

import functools
import operator

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.models.inversion import (
    LOST,
    NOT_INVERTIBLE,
    Affine,
    LogAffine,
    WithWeights,
    X,
    gives,
    long_chain,
    numbers_of,
    random_chain,
    refused,
    undone,
)
from tests.suite import equal, growth, holds, refuses, same_graph, same_numbers

LINEAR = 2.5
FUNCTIONS = ["sin", "cos", "tan", "exp", "arcsin", "arccos", "arctan", "log"]


# --- functions, methods, operators ----------------------------------------------------------------


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_method_is_undone(lesson, name):
    undone(lesson, lambda x: getattr(x, name)())


@pytest.mark.parametrize("name", ["asin", "acos", "atan"])
def test_both_spellings_of_an_arc_function_are_known(lesson, name):
    undone(lesson, lambda x: getattr(torch, name)(x))
    undone(lesson, lambda x: getattr(x, name)())


def test_the_argument_may_be_passed_by_keyword(lesson):
    undone(lesson, lambda x: torch.exp(input=torch.sin(input=x)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: -x,
        torch.neg,
        torch.reciprocal,
        lambda x: x.reciprocal().neg(),
        torch.sigmoid,
        torch.tanh,
        lambda x: x.sinh().asinh().expm1(),
        torch.erf,
        torch.exp2,
        torch.special.expit,
        torch.rad2deg,
    ],
)
def test_more_functions_are_undone(lesson, function):
    undone(lesson, lambda x: function(x))


WITH_A_CONSTANT = {
    "torch.add": lambda x: torch.add(x, 2),
    "torch.sub": lambda x: torch.sub(x, 2.5),
    "torch.mul": lambda x: torch.mul(x, -3),
    "torch.div": lambda x: torch.div(x, 0.5),
    "torch.subtract": lambda x: torch.subtract(x, 2),
    "torch.multiply": lambda x: torch.multiply(x, 2),
    "torch.true_divide": lambda x: torch.true_divide(x, 2),
    "x += 2": lambda x: operator.iadd(x * 2, 2),
    "x.add": lambda x: x.add(2),
    "x.sub": lambda x: x.sub(2),
    "x.mul": lambda x: x.mul(2),
    "x.div": lambda x: x.div(2),
    "other by keyword": lambda x: torch.sub(x, other=2).mul(other=3),
    "both by keyword, in another order": lambda x: torch.sub(other=2, input=x),
}


@pytest.mark.parametrize("spelling", WITH_A_CONSTANT)
def test_an_operation_with_a_constant_is_undone(lesson, spelling):
    undone(lesson, WITH_A_CONSTANT[spelling])


@pytest.mark.parametrize("seed", range(30))
def test_a_random_chain_of_methods_is_undone(lesson, seed):
    chain = random_chain(seed, methods=True)
    inverse = lesson.invert(chain)
    gives(inverse, chain(X), X, roughly=True)
    gives(lesson.invert(inverse), X, chain(X), roughly=True)


def test_the_time_is_linear_in_the_length(lesson):
    holds(
        growth(lambda length: lambda: lesson.invert(long_chain(length)), 100) < LINEAR,
        "twice the steps to take about twice the work",
    )


@pytest.mark.slow
def test_ten_thousand_steps_are_undone(lesson):
    inverse = lesson.invert(long_chain(10_000))
    equal(len(inverse.graph.nodes), 10_002)


# --- constants ------------------------------------------------------------------------------------


def test_a_factor_may_be_as_large_as_a_number_can_be(lesson):
    undone(lesson, lambda x: x * 1.7e308)


def test_constants_may_be_computed(lesson):
    undone(lesson, LogAffine())


def test_computed_constants_follow_the_parameters(lesson):
    model = LogAffine()
    inverse = lesson.invert(model)
    inverse(X).sum().backward()
    holds(
        all(each.grad is not None for name, each in model.named_parameters() if name != "shift"),
        "a gradient at each parameter that is used",
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 1
    gives(inverse, model(X), X)


def test_the_inverse_of_the_inverse_has_the_parameters_of_the_model(lesson):
    model = Affine()
    twice = lesson.invert(lesson.invert(model))
    holds(twice.scale is model.scale, "the very parameter")
    gives(twice, X, model(X))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv"])
def test_a_tensor_may_stand_on_the_left(lesson, name):
    """Torch records a method of the tensor then."""
    undone(lesson, lambda x: getattr(operator, name)(torch.tensor(2.0), x))


class ScalesByAModule(nn.Module):
    """A module with an inverse is a step, and makes a constant as well."""

    def __init__(self, lesson):
        super().__init__()
        self.coupling = lesson.AdditiveCoupling(nn.Linear(1, 1), dim=0)
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0]))

    def forward(self, x):
        return self.coupling(x) + self.coupling(self.weight)


def test_a_module_may_be_a_step_and_make_a_constant(lesson):
    undone(lesson, ScalesByAModule(lesson), torch.tensor([0.5, 0.25]))


@pytest.mark.parametrize("case", LOST)
def test_a_constant_that_loses_the_input_is_refused(lesson, case):
    model, names = LOST[case]
    refused(lesson, model, *names)


# What changes a tensor, or draws random numbers, however it is spelled.
SIDE_EFFECTS = {
    "a method in place": lambda model: model.weight.mul_(2),
    "a method in place, of a computed tensor": lambda model: (model.weight + 1).exp_(),
    "a function in place": lambda model: torch.exp_(model.weight),
    "a function with out": lambda model: torch.add(model.weight, 1, out=model.weight),
    "an element that is set": lambda model: operator.setitem(model.buffer, 0, 2.0),
    "a functional in place": lambda model: F.relu(model.weight, inplace=True),
    "a module in place": lambda model: model.relu(model.weight),
    "an initializer": lambda model: nn.init.ones_(model.weight),
    "a buffer in place": lambda model: model.buffer.add_(1),
    "a parameter, by an operator": lambda model: operator.imul(model.weight, 2),
    "a buffer, by an operator": lambda model: operator.imul(model.buffer, 2),
    "a buffer, by out": lambda model: torch.neg(model.buffer, out=model.buffer),
    "a buffer, by its numbers": lambda model: model.buffer.data.zero_(),
    "running statistics": lambda model: model.norm(model.weight.expand(3, 2))[0],
    "running statistics, by a function": lambda model: F.batch_norm(
        model.weight.expand(3, 2), model.norm.running_mean, model.norm.running_var, training=True
    )[0],
    "random, like a parameter": lambda model: torch.rand_like(model.weight),
    "random, of a parameter": lambda model: torch.normal(model.weight, 1.0),
    "random, made on the way": lambda model: torch.randn(2),
    "random, like a buffer": lambda model: torch.bernoulli(model.buffer / 10),
    "dropout by a function": lambda model: F.dropout(model.weight),
    "dropout of a buffer": lambda model: F.dropout(model.buffer),
    "dropout by a module": lambda model: model.dropout(model.weight),
}


@pytest.mark.parametrize("case", SIDE_EFFECTS)
def test_a_constant_with_side_effects_is_refused_and_not_computed(lesson, case):
    model = WithWeights(SIDE_EFFECTS[case])
    numbers, state = numbers_of(model), torch.get_rng_state()
    try:
        refused(lesson, model)
    finally:
        ran = numbers_of(model) != numbers
        equal(numbers_of(model), numbers, cause=(ran, "`invert` ran what changes the model"))
        holds(
            torch.equal(torch.get_rng_state(), state),
            "the state of the random numbers to be as it was",
        )


@pytest.mark.parametrize(
    "constant",
    [
        lambda model: F.dropout(model.dropout(model.weight), training=False),
        lambda model: model.norm(model.weight.expand(3, 2))[0],
    ],
    ids=["dropout", "batch norm"],
)
def test_what_is_only_switched_off_is_no_side_effect(lesson, constant):
    undone(lesson, WithWeights(constant).eval(), torch.tensor([0.5, 0.25]))


def test_a_constant_is_computed_with_its_keywords(lesson):
    """Without ``alpha`` the factor is zero, which would be refused."""
    weight = torch.tensor([1.0, 2.0])
    undone(lesson, lambda x: x * torch.sub(weight, weight, alpha=2), torch.tensor([0.5, 0.25]))


@pytest.mark.parametrize("name", ["weight", "buffer", "last"])
def test_what_forward_assigns_stays_away_from_the_model(lesson, name):
    class Assigns(WithWeights):
        def forward(self, x):
            value = nn.Parameter(self.buffer) if name == "weight" else self.buffer + 1
            setattr(self, name, value)
            return x * 2

    model = Assigns(lambda model: model.weight)
    attributes, numbers = sorted(vars(model)), numbers_of(model)
    lesson.invert(model)
    equal(sorted(vars(model)), attributes)
    equal(numbers_of(model), numbers)


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", {**NOT_INVERTIBLE, **LOST})
def test_the_error_can_be_read_by_people(lesson, case):
    message = refused(lesson, {**NOT_INVERTIBLE, **LOST}[case][0])
    holds(
        message and "None" not in message and "<" not in message,
        "a sentence without `None` and without objects like `<function f at 0x7f>`",
        got=message,
    )


def test_what_has_no_name_is_refused_by_what_it_is(lesson):
    with refuses(lesson.NotInvertibleError, "functools.partial"):
        lesson.inverse_of(functools.partial(torch.add, 1))


def test_a_function_without_an_inverse_is_called_by_its_name(lesson):
    message = ""
    try:
        lesson.inverse_of(torch.relu)
    except lesson.NotInvertibleError as error:
        message = str(error)
    holds(
        "relu" in message and "<" not in message,
        "relu, and not <built-in method relu of type object at 0x7f>",
        got=message,
        cause=(lambda message: "<" in message, "the object was printed"),
    )


@pytest.mark.parametrize("pair", [(torch.sin, "asin"), ("asin", torch.sin)])
def test_what_cannot_be_called_is_no_function_of_a_pair(lesson, pair):
    with refuses(TypeError, "asin", cause="the pair was registered, and fails when it is used"):
        lesson.add_inverse(*pair)


# --- functions written in Python ------------------------------------------------------------------


def shear(x):
    return x + 100


def unshear(x):
    return x - 100


def test_a_function_written_in_python_is_one_step_once_it_is_registered(lesson):
    lesson.add_inverse(shear, unshear)
    inverse = undone(lesson, lambda x: shear(torch.exp(x)))
    names = [node.name for node in inverse.graph.nodes][1:-1]
    equal(
        names,
        ["unshear", "log"],
        cause=(names == ["sub", "log"], "the function was traced through"),
    )


# --- modules that know their inverse --------------------------------------------------------------


def halves(lesson) -> dict[str, nn.Module]:
    torch.manual_seed(0)
    small = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    return {
        "coupling": lesson.AdditiveCoupling(small),
        "block": lesson.RevBlock(small, nn.Linear(2, 2)),
        "other dimension": lesson.AdditiveCoupling(nn.Linear(4, 4), dim=0),
    }


BATCH = torch.linspace(-1, 1, 24).reshape(6, 4)


@pytest.mark.parametrize("name", ["coupling", "block", "other dimension"])
def test_a_module_undoes_itself(lesson, name):
    module = halves(lesson)[name]
    holds(not torch.equal(module(BATCH), BATCH), "the module to change something")
    same_numbers(module.inverse(module(BATCH)), BATCH)


def test_a_coupling_leaves_the_first_half_alone(lesson):
    module = lesson.AdditiveCoupling(nn.Linear(2, 2))
    changed = module(BATCH)
    same_numbers(changed[:, :2], BATCH[:, :2])
    same_numbers(changed[:, 2:], BATCH[:, 2:] + module.f(BATCH[:, :2]))


def test_a_block_uses_the_new_first_half(lesson):
    f, g = nn.Linear(2, 2), nn.Linear(2, 2)
    left, right = BATCH[:, :2], BATCH[:, 2:]
    left = left + f(right)
    same_numbers(lesson.RevBlock(f, g)(BATCH), torch.cat((left, right + g(left)), 1))


@pytest.mark.parametrize("name", ["coupling", "block"])
def test_a_module_with_an_inverse_is_one_step(lesson, name):
    model = nn.Sequential(halves(lesson)[name], nn.Sigmoid(), halves(lesson)[name])
    inverse = undone(lesson, model, BATCH)
    equal(
        [node.op for node in inverse.graph.nodes][1:-1],
        ["call_module", "call_function", "call_module"],
    )


class NestedStep(nn.Module):
    """One step called twice, whose inverse would be called like the constant."""

    def __init__(self, lesson):
        super().__init__()
        self.flow = nn.Sequential(halves(lesson)["coupling"])
        self.flow_0_inverse = nn.Parameter(torch.tensor(3.0))

    def forward(self, x):
        return self.flow(self.flow(x) + self.flow_0_inverse)


def test_a_nested_module_is_undone_at_each_call_beside_an_attribute_of_any_name(lesson):
    undone(lesson, NestedStep(lesson), BATCH)


def test_any_module_with_a_method_inverse_is_one_step(lesson):
    class Doubling(nn.Module):
        def forward(self, x):
            return torch.cat([x, x])

        def inverse(self, y):
            return y[: len(y) // 2]

    undone(lesson, nn.Sequential(Doubling()), BATCH)


class Scaling(nn.Module):
    """Its inverse knows one factor; a call may ask for another."""

    def forward(self, x, factor=2.0):
        return x * factor

    def inverse(self, y):
        return y / 2.0


@pytest.mark.parametrize("how", ["by position", "by keyword"])
def test_a_module_that_is_given_more_than_the_value_is_refused(lesson, how):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scaling = Scaling()

        def forward(self, x):
            return self.scaling(x, 3.0) if how == "by position" else self.scaling(x, factor=3.0)

    with refuses(
        lesson.NotInvertibleError,
        "scaling",
        cause="`inverse` takes the result alone: what else the call was given is lost",
    ):
        lesson.invert(Model())


def test_an_inverted_module_can_be_run_the_other_way(lesson):
    layer = lesson.AdditiveCoupling(nn.Linear(2, 2))
    inverse = lesson.Inverse(layer)
    same_numbers(inverse.inverse(BATCH), layer(BATCH))
    same_numbers(inverse(BATCH), layer.inverse(BATCH))


def test_an_attribute_called_inverse_is_no_method(lesson):
    class Flagged(nn.Module):
        inverse = True

        def forward(self, x):
            return x + 1

    undone(lesson, nn.Sequential(Flagged()), BATCH)


def test_the_inverse_of_the_inverse_has_the_module_itself(lesson):
    model = nn.Sequential(halves(lesson)["block"])
    twice = lesson.invert(lesson.invert(model))
    (step,) = twice.graph.find_nodes(op="call_module")
    module = twice.get_submodule(step.target)
    holds(module is model[0], "the module that was given", got=module)


def test_the_parameters_of_a_module_are_shared_with_its_inverse(lesson):
    model = nn.Sequential(halves(lesson)["coupling"])
    inverse = lesson.invert(model)
    holds(set(inverse.parameters()) == set(model.parameters()), "the same parameters")
    same_graph(lesson.invert(model).graph, inverse.graph)
