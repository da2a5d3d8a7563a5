"""``inversion``: a chain of operations and its inverse, one after the other, change nothing."""

from __future__ import annotations

import functools
import math
import operator
import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, symbolic_trace

from tests.suite import (
    asking_more,
    equal,
    growth,
    holds,
    refuses,
    rows,
    same_graph,
    same_numbers,
    star_import,
)

LINEAR = 2.5
ROUND_TRIP = "the steps are undone in another order, by other functions, or with other constants"
ROUND_TRIP_HINT = "print `invert(f).code`: the last step of f has to be undone first"
# Within these values every function below has one inverse.
X = torch.linspace(0.1, 0.9, 5, dtype=torch.float64)


def undone(lesson, model: Callable, x: Tensor = X) -> GraphModule:
    """Fail unless the inverse gives back what the model was given; return the inverse."""
    inverse = lesson.invert(model)
    same_numbers(inverse(model(x)), x, cause=ROUND_TRIP, hint=ROUND_TRIP_HINT)
    return inverse


def seed_example(x: Tensor) -> Tensor:
    return torch.exp(torch.tan(x))


# --- the example ----------------------------------------------------------------------------------


def test_the_example_has_the_graph_of_its_inverse(lesson):
    expected = Graph()
    log = expected.call_function(torch.log, (expected.placeholder("output"),))
    expected.output(expected.call_function(torch.arctan, (log,)))
    expected.lint()
    actual = lesson.invert(seed_example).graph
    equal(
        [(row.op, row.name, row.args) for row in rows(actual)][:-1],
        [(row.op, row.name, row.args) for row in rows(expected)][:-1],
        cause="another order, other functions, or a placeholder with another name",
        hint="the output's name becomes the placeholder's: walk from there to the input",
    )


def test_the_example_prints_the_code_of_its_inverse(lesson):
    equal(
        lesson.invert(seed_example).code.split("\n")[3:],
        [
            "def forward(self, output):",
            "    log = torch.log(output);  output = None",
            "    arctan = torch.arctan(log);  log = None",
            "    return arctan",
            "    ",
        ],
        cause="another order, other functions, or a placeholder with another name",
        hint="the output's name becomes the placeholder's: walk from there to the input",
    )


def test_the_example_gives_back_the_numbers(lesson):
    values = torch.arange(5) + 1
    same_numbers(
        seed_example(lesson.invert(seed_example)(values)),
        values.float(),
        cause=ROUND_TRIP,
        hint=ROUND_TRIP_HINT,
    )


def test_what_a_star_import_brings_is_enough_to_invert(lesson):
    undone(star_import(lesson), seed_example)


def test_the_result_is_a_sound_graph_module(lesson):
    inverse = lesson.invert(seed_example)
    holds(isinstance(inverse, GraphModule), "a GraphModule", got=type(inverse))
    inverse.graph.lint()


# --- functions, methods, operators ----------------------------------------------------------------

FUNCTIONS = [torch.sin, torch.cos, torch.tan, torch.exp]
INVERSE_FUNCTIONS = [torch.arcsin, torch.arccos, torch.arctan, torch.log]


@pytest.mark.parametrize("function", FUNCTIONS + INVERSE_FUNCTIONS, ids=lambda f: f.__name__)
def test_a_function_is_undone(lesson, function):
    undone(lesson, lambda x: function(x))


@pytest.mark.parametrize("function", FUNCTIONS + INVERSE_FUNCTIONS, ids=lambda f: f.__name__)
def test_a_method_is_undone(lesson, function):
    undone(lesson, lambda x: getattr(x, function.__name__)())


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
@pytest.mark.stretch
def test_more_functions_are_undone(lesson, function):
    undone(lesson, lambda x: function(x))


# --- constants ------------------------------------------------------------------------------------

WITH_A_CONSTANT: dict[str, Callable] = {
    "x + 2": lambda x: x + 2,
    "2 + x": lambda x: 2 + x,
    "x - 2": lambda x: x - 2,
    "2 - x": lambda x: 2 - x,
    "x * 3": lambda x: x * 3,
    "3 * x": lambda x: 3 * x,
    "x / 2": lambda x: x / 2,
    "2 / x": lambda x: 2 / x,
    "torch.add": lambda x: torch.add(x, 2),
    "torch.sub": lambda x: torch.sub(x, 2.5),
    "torch.mul": lambda x: torch.mul(x, -3),
    "torch.div": lambda x: torch.div(x, 0.5),
    "torch.subtract": lambda x: torch.subtract(x, 2),
    "torch.multiply": lambda x: torch.multiply(x, 2),
    "torch.true_divide": lambda x: torch.true_divide(x, 2),
    "x.add": lambda x: x.add(2),
    "x.sub": lambda x: x.sub(2),
    "x.mul": lambda x: x.mul(2),
    "x.div": lambda x: x.div(2),
    "other by keyword": lambda x: torch.sub(x, other=2).mul(other=3),
    "both by keyword, in another order": lambda x: torch.sub(other=2, input=x),
    "operator.add": lambda x: operator.add(2, x),
}


@pytest.mark.parametrize("spelling", WITH_A_CONSTANT)
def test_an_operation_with_a_constant_is_undone(lesson, spelling):
    undone(lesson, WITH_A_CONSTANT[spelling])


def test_the_place_of_the_constant_matters(lesson):
    inverse = lesson.invert(lambda x: 2 - x / 4)
    same_numbers(
        inverse(torch.tensor(0.5)),
        torch.tensor(6.0),
        cause="`2 - x` was undone like `x - 2`",
        hint="y = 2 - x means x = 2 - y: look where the value stands",
    )


class Affine(nn.Module):
    """Constants of every kind: two parameters, a buffer, a plain tensor, one made on the way."""

    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor([0.3, -0.2, 0.1, 0.5, 0.0], dtype=torch.float64))
        self.shift = nn.Parameter(torch.rand(5, dtype=torch.float64))
        self.register_buffer("mean", torch.rand(5, dtype=torch.float64))
        self.unit = torch.tensor(2.0, dtype=torch.float64)

    def forward(self, x):
        x = (x - self.mean) * torch.exp(self.log_scale) + self.shift
        return x / self.unit + torch.tensor(0.25, dtype=torch.float64)


def test_constants_may_be_parameters_buffers_and_tensors(lesson):
    undone(lesson, Affine())


def test_a_factor_may_be_as_large_as_a_number_can_be(lesson):
    undone(lesson, lambda x: x * 1.7e308)


def test_parameters_are_shared_with_the_model(lesson):
    model = Affine()
    inverse = lesson.invert(model)
    with torch.no_grad():
        model.shift += 1
    same_numbers(
        inverse(model(X)),
        X,
        cause="the inverse has copies of the parameters",
        hint="put the parameters themselves into the new GraphModule",
    )


def test_gradients_reach_the_parameters_through_the_inverse(lesson):
    model = Affine()
    lesson.invert(model)(X).sum().backward()
    holds(
        all(parameter.grad is not None for parameter in model.parameters()),
        "a gradient at each parameter",
        cause="the inverse has the values of the parameters, and not the parameters",
        hint="refer to them by `get_attr` nodes",
    )


# --- the model and its inverse --------------------------------------------------------------------


def test_the_model_given_is_not_changed(lesson):
    model = Affine()
    before = set(vars(model))
    lesson.invert(model)
    equal(
        set(vars(model)) - before,
        set(),
        cause="the trace stored a constant on the model",
        hint="trace a copy that shares parameters and submodules",
    )


def test_a_graph_module_is_inverted_and_not_changed(lesson):
    gm = symbolic_trace(seed_example)
    before = rows(gm.graph)
    inverse = lesson.invert(gm)
    same_numbers(inverse(gm(X)), X, cause=ROUND_TRIP, hint=ROUND_TRIP_HINT)
    equal(rows(gm.graph), before, cause="the graph given was edited", hint="build a new one")


def test_nested_modules_are_one_chain(lesson):
    class Sine(nn.Module):
        def forward(self, x):
            return torch.sin(x) * 0.5

    undone(lesson, nn.Sequential(Sine(), nn.Sequential(Affine(), Sine())))


def test_a_model_that_does_nothing_is_its_own_inverse(lesson):
    same_numbers(lesson.invert(lambda x: x)(X), X, cause="the empty chain was forgotten")


@pytest.mark.parametrize(
    "model", [seed_example, lambda x: 2 - torch.sin(x) / 3, lambda x: x.exp().log() * 2]
)
def test_the_inverse_of_the_inverse_is_the_model(lesson, model):
    twice = lesson.invert(lesson.invert(model))
    same_numbers(twice(X), model(X), cause=ROUND_TRIP, hint=ROUND_TRIP_HINT)


# --- random chains --------------------------------------------------------------------------------

# Where each function has one inverse, and a gentle slope.
DOMAINS = {
    "sin": (-1.2, 1.2),
    "cos": (0.3, 2.8),
    "tan": (-1.2, 1.2),
    "exp": (-4.0, 3.0),
    "arcsin": (-0.9, 0.9),
    "arccos": (-0.9, 0.9),
    "arctan": (-5.0, 5.0),
    "log": (0.05, math.inf),
}
EVERYWHERE = (-math.inf, math.inf)
OPERATIONS = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
}


def random_chain(seed: int) -> Callable[[Tensor], Tensor]:
    """Up to 30 operations and constants, chosen so that each can be undone where it is applied."""
    chance = random.Random(seed)
    x = X.clone().requires_grad_()
    value, steps, length = x, [], chance.randint(1, 30)
    while len(steps) < length:
        step, (low, high) = random_step(chance)
        if ((value > low) & (value < high)).all() and is_gentle(step(value), x):
            value, steps = step(value), [*steps, step]

    def chain(x: Tensor) -> Tensor:
        for step in steps:
            x = step(x)
        return x

    return chain


def is_gentle(result: Tensor, x: Tensor) -> bool:
    """Whether rounding errors stay small on the way back."""
    (slope,) = torch.autograd.grad(result.sum(), x, retain_graph=True)
    return bool(((slope.abs() > 1e-3) & (slope.abs() < 1e3) & (result.abs() < 1e3)).all())


def random_step(chance: random.Random) -> tuple[Callable, tuple[float, float]]:
    """A function, a method or an operation with a constant, and its domain."""
    constant = chance.uniform(0.5, 2)
    name = chance.choice([*DOMAINS, *OPERATIONS])
    if name in DOMAINS and chance.random() < 0.5:
        return getattr(torch, name), DOMAINS[name]
    if name in DOMAINS:
        return lambda x: getattr(x, name)(), DOMAINS[name]
    operation = OPERATIONS[name]
    if chance.random() < 0.5 and name != "divide":
        return lambda x: operation(constant, x), EVERYWHERE
    return lambda x: operation(x, constant), EVERYWHERE


CHAINS = pytest.mark.parametrize("seed", [*range(8), *map(asking_more, range(8, 30))])


@CHAINS
def test_a_random_chain_is_undone(lesson, seed):
    chain = random_chain(seed)
    inverse = lesson.invert(chain)
    same_numbers(inverse(chain(X)).float(), X.float(), cause=ROUND_TRIP, hint=ROUND_TRIP_HINT)


@CHAINS
def test_a_random_chain_inverted_twice_is_itself(lesson, seed):
    chain = random_chain(seed)
    twice = lesson.invert(lesson.invert(chain))
    same_numbers(twice(X).float(), chain(X).float(), cause=ROUND_TRIP, hint=ROUND_TRIP_HINT)


def long_chain(length: int) -> Callable[[Tensor], Tensor]:
    def chain(x: Tensor) -> Tensor:
        for number in range(length):
            x = x.arctan() if number % 2 else x.tan()
        return x

    return chain


@pytest.mark.stretch
def test_the_time_is_linear_in_the_length(lesson):
    holds(
        growth(lambda length: lambda: lesson.invert(long_chain(length)), 100) < LINEAR,
        "twice the steps to take about twice the work",
        cause="for each step the whole graph is looked through",
        hint="a node knows its inputs and its users",
    )


@pytest.mark.stretch
@pytest.mark.slow
def test_ten_thousand_steps_are_undone(lesson):
    inverse = lesson.invert(long_chain(10_000))
    equal(
        len(inverse.graph.nodes),
        10_002,
        cause="steps are missing or doubled",
        hint="a loop, no recursion: Python's stack isn't that deep",
    )


# --- what can't be inverted -----------------------------------------------------------------------


def unused(x, y):
    return torch.exp(x)


class ForgetsItsInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.answer = nn.Parameter(torch.rand(2))

    def forward(self, x):
        torch.exp(x)
        return self.answer + 1


class ComputesAConstantByAModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 5)

    def forward(self, x):
        return x + self.linear(self.linear.bias)


NOT_INVERTIBLE: dict[str, tuple[Callable, str]] = {
    "a value used twice, then joined": (lambda x: x + torch.exp(x), "x"),
    "a value used twice by one node": (lambda x: x * x, "mul"),
    "a value used for nothing besides": (lambda x: (torch.sin(x), torch.exp(x))[1], "x"),
    "an unused input": (unused, "'y'"),
    "two inputs": (lambda x, y: x + y, "add"),
    "two inputs, one with a default": (lambda x, y=2: x * y, "mul"),
    "an unknown function": (lambda x: torch.relu(x), "relu"),
    "an unknown method": (lambda x: x.cumsum(0), "cumsum"),
    "an output that is a tuple": (lambda x: (torch.exp(x),), "output"),
    "an output that is a dict": (lambda x: {"y": torch.exp(x)}, "output"),
    "an output that is a constant": (lambda x: 3, "output"),
    "an output that the input doesn't reach": (ForgetsItsInput(), "output"),
    "no input": (lambda: 3, "output"),
    "data moved without inverse: flatten": (lambda x: x.flatten(), "flatten"),
    "data moved without inverse: cat": (lambda x: torch.cat([x]), "cat"),
    "data dropped: an element": (lambda x: x[0], "getitem"),
    "data dropped: the shape": (lambda x: x.shape, "getattr"),
    "zero as a factor": (lambda x: 0 * x, "mul"),
    "zero as a dividend": (lambda x: 0 / x, "truediv"),
    "zero in a tensor": (lambda x: x * torch.tensor([1.0, 0.0]), "mul"),
    "infinity as a term": (lambda x: x + math.inf, "add"),
    "no number as a factor": (lambda x: x * math.nan, "mul"),
    "a list as a term": (lambda x: operator.add(x, [1, 2]), "add"),
    "a square": (lambda x: x**2, "pow"),
    "torch.square": (lambda x: torch.square(x), "square"),
    "an absolute value": (lambda x: torch.abs(x), "abs"),
    "rounding": (lambda x: torch.round(x), "round"),
    "floor division": (lambda x: x // 2, "floordiv"),
    "a remainder": (lambda x: x % 2, "mod"),
    "rounding by keyword": (lambda x: torch.div(x, 2, rounding_mode="floor"), "div"),
    "a cast to integers": (lambda x: x.int(), "int"),
    "a cast by argument": (lambda x: x.to(torch.int64), "to"),
    "a keyword that changes the meaning": (lambda x: torch.add(x, 2, alpha=0), "add"),
    "an operation in place": (lambda x: x.mul_(2), "mul_"),
    "a known function with more arguments": (lambda x: torch.logit(x, 0.4), "logit"),
    "a leaf module": (nn.Sequential(nn.Linear(2, 2)), "_0"),
    "a value inside a structure": (lambda x: torch.stack([x]), "stack"),
    "a constant from a module": (ComputesAConstantByAModule(), "linear"),
}


@pytest.mark.parametrize("case", NOT_INVERTIBLE)
def test_what_has_no_inverse_is_refused(lesson, case):
    model, node = NOT_INVERTIBLE[case]
    with refuses(
        lesson.NotInvertibleError,
        node,
        cause=f"{case}: inverted all the same, or refused without naming the node",
        hint="a step has one input, one user and a known inverse; refuse everything else",
    ):
        lesson.invert(model)


def refusal(lesson, model: Callable) -> str:
    """What the error says; empty if there is none."""
    try:
        lesson.invert(model)
    except lesson.NotInvertibleError as error:
        return str(error)
    return ""


def test_the_error_gives_the_reason(lesson):
    reasons = {
        "used twice": refusal(lesson, lambda x: x * x),
        "two inputs": refusal(lesson, lambda x, y: x * y),
        "zero": refusal(lesson, lambda x: 0 * x),
        "no number": refusal(lesson, lambda x: operator.mul(x, [2])),
    }
    equal(
        len(set(reasons.values()) - {""}),
        len(reasons),
        cause="the error names the node, and not what is wrong with it: all of these are `mul`",
        hint="say at each place where you refuse what was found there",
    )


@pytest.mark.stretch
@pytest.mark.parametrize("case", NOT_INVERTIBLE)
def test_the_error_can_be_read_by_people(lesson, case):
    message = refusal(lesson, NOT_INVERTIBLE[case][0])
    holds(
        message and "None" not in message and "<" not in message,
        "a sentence without `None` and without objects like `<function f at 0x7f>`",
        got=message,
        cause="a name was not found, or an object was printed in its place",
        hint="a function has a `__name__`, a module has a class; a method is a word",
    )


class DividesByABuffer(nn.Module):
    def __init__(self, divisor: Tensor):
        super().__init__()
        self.register_buffer("divisor", divisor)

    def forward(self, x):
        return x / self.divisor


def test_a_buffer_that_holds_zero_is_no_factor(lesson):
    undone(lesson, DividesByABuffer(torch.tensor(2.0)))
    with refuses(
        lesson.NotInvertibleError,
        "truediv",
        cause="only numbers were checked, and not the values of attributes",
        hint="look the attribute up and check all its elements",
    ):
        lesson.invert(DividesByABuffer(torch.tensor([1.0, 0.0])))


def test_the_error_is_a_runtime_error(lesson):
    with refuses(
        RuntimeError, "relu", cause="callers that catch RuntimeError aren't told any more"
    ):
        lesson.invert(lambda x: torch.relu(x))


# --- the registry ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "exp"])
def test_each_of_a_pair_is_the_inverse_of_the_other(lesson, name):
    function = getattr(torch, name)
    inverse = lesson.inverse_of(function)
    holds(
        lesson.inverse_of(inverse) is function,
        f"the inverse of the inverse of {name} to be {name}",
        cause="the pair was registered one way only",
        hint="write both entries",
    )


def test_an_unknown_function_is_refused_by_name(lesson):
    with refuses(
        lesson.NotInvertibleError,
        "relu",
        cause="a KeyError came out, or None",
        hint="say which function it is, and how to register its inverse",
    ):
        lesson.inverse_of(torch.relu)


@pytest.mark.stretch
def test_what_has_no_name_is_refused_by_what_it_is(lesson):
    with refuses(
        lesson.NotInvertibleError,
        "functools.partial",
        cause="not everything that can be called has a `__name__`",
        hint="without a name, show the object itself",
    ):
        lesson.inverse_of(functools.partial(torch.add, 1))


@pytest.mark.stretch
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
        cause="the object was printed",
        hint="a function has a `__name__`",
    )


@pytest.mark.parametrize("pair", [(torch.sin, "asin"), ("asin", torch.sin)])
def test_what_cannot_be_called_is_no_function_of_a_pair(lesson, pair):
    with refuses(
        TypeError,
        "asin",
        cause="the pair was registered, and fails when it is used",
        hint="look whether both can be called, and name the one that can't",
    ):
        lesson.add_inverse(*pair)


def shear(x):
    return x + 100


def unshear(x):
    return x - 100


def test_a_pair_of_ones_own_is_used_both_ways(lesson):
    lesson.add_inverse(torch.special.ndtr, torch.special.ndtri)
    undone(lesson, lambda x: torch.special.ndtr(x))
    undone(lesson, lambda x: torch.special.ndtri(x))


def test_a_later_pair_wins(lesson):
    def again(x):
        return torch.log(x)

    def half(x):
        return x / 2

    lesson.add_inverse(half, lambda x: x)
    lesson.add_inverse(half, again)
    equal(
        lesson.inverse_of(half),
        again,
        cause="the first pair with a function stays for ever",
        hint="overwrite what was registered before",
    )


def test_a_function_that_is_only_called_like_a_known_one_is_unknown(lesson):
    def exp(x):
        return x + 1

    with refuses(
        lesson.NotInvertibleError,
        "exp",
        cause="functions were looked up by their names",
        hint="the function itself is the key: two functions may have one name",
    ):
        lesson.inverse_of(exp)


@pytest.mark.stretch
def test_a_function_written_in_python_is_one_step_once_it_is_registered(lesson):
    lesson.add_inverse(shear, unshear)
    inverse = undone(lesson, lambda x: shear(torch.exp(x)))
    equal(
        [node.name for node in inverse.graph.nodes][1:-1],
        ["unshear", "log"],
        cause="the function was traced through",
        hint="a tracer takes `autowrap_functions`: those are recorded as one call",
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


@pytest.mark.stretch
@pytest.mark.parametrize("name", ["coupling", "block", "other dimension"])
def test_a_module_undoes_itself(lesson, name):
    module = halves(lesson)[name]
    holds(not torch.equal(module(BATCH), BATCH), "the module to change something")
    same_numbers(
        module.inverse(module(BATCH)),
        BATCH,
        cause="the halves are mended in the order in which they were changed",
        hint="what was changed last has to be mended first",
    )


@pytest.mark.stretch
def test_a_coupling_leaves_the_first_half_alone(lesson):
    module = lesson.AdditiveCoupling(nn.Linear(2, 2))
    changed = module(BATCH)
    same_numbers(changed[:, :2], BATCH[:, :2], cause="the first half was changed")
    same_numbers(changed[:, 2:], BATCH[:, 2:] + module.f(BATCH[:, :2]), cause="another amount")


@pytest.mark.stretch
def test_a_block_uses_the_new_first_half(lesson):
    f, g = nn.Linear(2, 2), nn.Linear(2, 2)
    left, right = BATCH[:, :2], BATCH[:, 2:]
    left = left + f(right)
    same_numbers(
        lesson.RevBlock(f, g)(BATCH),
        torch.cat((left, right + g(left)), 1),
        cause="the second half was changed by the old first half",
        hint="c = a + f(b), then d = b + g(c)",
    )


@pytest.mark.stretch
@pytest.mark.parametrize("name", ["coupling", "block"])
def test_a_module_with_an_inverse_is_one_step(lesson, name):
    model = nn.Sequential(halves(lesson)[name], nn.Sigmoid(), halves(lesson)[name])
    inverse = undone(lesson, model, BATCH)
    equal(
        [node.op for node in inverse.graph.nodes][1:-1],
        ["call_module", "call_function", "call_module"],
        cause="the module was traced through, where it has two values at once",
        hint="a module with a method `inverse` is a leaf",
    )


@pytest.mark.stretch
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


@pytest.mark.stretch
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
        hint="one argument, and none by keyword; refuse everything else",
    ):
        lesson.invert(Model())


@pytest.mark.stretch
def test_an_inverted_module_can_be_run_the_other_way(lesson):
    layer = lesson.AdditiveCoupling(nn.Linear(2, 2))
    inverse = lesson.Inverse(layer)
    same_numbers(inverse.inverse(BATCH), layer(BATCH), cause="the inverse of an inverse is lost")
    same_numbers(inverse(BATCH), layer.inverse(BATCH), cause="it doesn't run `inverse`")


@pytest.mark.stretch
def test_an_attribute_called_inverse_is_no_method(lesson):
    class Flagged(nn.Module):
        inverse = True

        def forward(self, x):
            return x + 1

    undone(lesson, nn.Sequential(Flagged()), BATCH)


@pytest.mark.stretch
def test_the_inverse_of_the_inverse_has_the_module_itself(lesson):
    model = nn.Sequential(halves(lesson)["block"])
    twice = lesson.invert(lesson.invert(model))
    holds(
        twice.get_submodule("0") is model[0],
        "the module that was given",
        got=twice.get_submodule("0"),
        cause="an inverse was wrapped once more",
        hint="the inverse of `Inverse(module)` is `module`",
    )


@pytest.mark.stretch
def test_the_parameters_of_a_module_are_shared_with_its_inverse(lesson):
    model = nn.Sequential(halves(lesson)["coupling"])
    inverse = lesson.invert(model)
    holds(
        set(inverse.parameters()) == set(model.parameters()),
        "the same parameters",
        cause="the inverse has a copy of the module",
        hint="wrap the module, and call its `inverse`",
    )
    same_graph(lesson.invert(model).graph, inverse.graph, cause="the model was changed")
