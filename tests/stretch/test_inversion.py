"""``inversion`` beyond the core: every spelling, and constants that are computed."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.models.inversion import (
    Affine,
    LogAffine,
    X,
    computes,
    numbers_of,
    random_chain,
    refused,
    undone,
    undone_twice,
    with_state,
)
from tests.suite import equal, holds, is_linear
from tests.suite.chance import by_chance

# --- functions, methods, operators ----------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: -x,
        torch.neg,
        lambda x: x.reciprocal().neg(),
        torch.sigmoid,
        torch.tanh,
        lambda x: x.sinh().asinh().expm1(),
        torch.erf,
        torch.exp2,
        torch.special.expit,
        torch.rad2deg,
        torch.asin,
        lambda x: x.acos().atan(),
        lambda x: torch.exp(input=torch.sin(input=x)),
    ],
)
def test_more_functions_are_undone(lesson, function):
    undone(lesson, lambda x: function(x))


WITH_A_CONSTANT = {
    "torch.add": lambda x: torch.add(x, 2),
    "torch.sub": lambda x: torch.sub(x, 2.5),
    "torch.mul": lambda x: torch.mul(x, -3),
    "torch.div": lambda x: torch.div(x, 0.5),
    "a tensor on the left": lambda x: torch.tensor(2.0) / (torch.tensor(3.0) - x),
    "methods": lambda x: x.add(2).sub(0.5).mul(3).div(2),
    "other by keyword": lambda x: torch.sub(x, other=2).mul(other=3),
    "both by keyword, in another order": lambda x: torch.sub(other=2, input=x),
}


@pytest.mark.parametrize("spelling", WITH_A_CONSTANT)
def test_an_operation_with_a_constant_is_undone(lesson, spelling):
    undone(lesson, WITH_A_CONSTANT[spelling])


def test_a_module_that_cannot_be_recorded_is_refused(lesson):
    refused(lesson, nn.Sequential(nn.Tanh(), nn.GRU(2, 2)), "_1")


@by_chance(16)
def test_a_random_chain_of_methods_is_undone(lesson, chance):
    undone_twice(lesson, random_chain(chance, "x.{}()"))


def test_the_time_is_linear_in_the_length(lesson):
    def work(length: int) -> Callable[[], object]:
        chain = nn.Sequential(*(with_state(lambda model, x: torch.tan(x)) for _ in range(length)))
        return lambda: lesson.invert(chain)

    is_linear(work, 100, "length")


# --- constants ------------------------------------------------------------------------------------


def test_constants_may_be_computed(lesson):
    undone(lesson, LogAffine())


def test_computed_constants_follow_the_parameters(lesson):
    model = LogAffine()
    inverse = lesson.invert(model)
    inverse(X).sum().backward()
    without = [name for name, each in model.named_parameters() if each.grad is None]
    equal(without, ["shift"], hint="`shift` isn't used; compute the others in the inverse")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 1
    computes(inverse, model(X), X)


def test_the_inverse_of_the_inverse_has_the_parameters_of_the_model(lesson):
    model = Affine()
    twice = lesson.invert(lesson.invert(model))
    holds(twice.scale is model.scale, "the very parameter")
    computes(twice, X, model(X))


LOST = {
    "infinity as a term": (lambda x: x + math.inf, "add"),
    "no number as a factor": (lambda x: x * math.nan, "mul"),
    "a third operand": (lambda x: x.add(2, 3), "add"),
    "an operand that is a name": (lambda x: x + "a", "add"),
}


@pytest.mark.parametrize("case", LOST)
def test_a_constant_that_loses_the_input_is_refused(lesson, case):
    refused(lesson, *LOST[case])


# Each changes a tensor or draws random numbers.
SIDE_EFFECTS = {
    "a method in place": lambda model: model.weight.mul_(2),
    "a function in place": lambda model: torch.exp_(model.weight),
    "a function with out": lambda model: torch.add(model.weight, 1, out=model.weight),
    "an option in place": lambda model: F.relu(model.weight, inplace=True),
    "an element that is set": lambda model: operator.setitem(model.buffer, 0, 2.0),
    "a buffer, by an operator": lambda model: operator.imul(model.buffer, 2),
    "random, like a parameter": lambda model: torch.rand_like(model.weight),
    "random, while tracing": lambda model: torch.randn(2),
    "dropout by a module": lambda model: model.dropout(model.weight),
}


@pytest.mark.parametrize("case", SIDE_EFFECTS)
def test_a_constant_with_side_effects_is_refused_and_not_computed(lesson, case):
    model = with_state(lambda model, x: x + SIDE_EFFECTS[case](model))
    numbers, state = numbers_of(model), torch.get_rng_state()
    try:
        refused(lesson, model)
    finally:
        ran = (bool, "`invert` ran the operation that changes the model")
        equal(numbers_of(model), numbers, cause=ran)
        drawn = not torch.equal(torch.get_rng_state(), state)
        equal(drawn, False, cause=(bool, "`invert` drew random numbers"))


def test_dropout_in_eval_mode_has_no_side_effect(lesson):
    model = with_state(lambda model, x: x + model.dropout(model.weight)).eval()
    undone(lesson, model, torch.tensor([0.5, 0.25]))
