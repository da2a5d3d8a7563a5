"""``create_args_for_root``: your mixin as the first base of torch's own ``Tracer``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from random import Random
from unittest.mock import ANY

import pytest
import torch
from torch import nn
from torch.fx import Node, Proxy

from tests import zoo
from tests.models.placeholders import (
    arguments_for,
    called,
    graph_module,
    names,
    placeholders,
    same_trace,
    signature_of,
    twice,
)
from tests.suite import barred, equal, holds, is_value, noting, own, refuses, same_numbers
from tests.suite.chance import by_chance, function_of, showing

# --- step 1: a placeholder per parameter ----------------------------------------------------------


def plain(x, y=1):
    return [x, y]


plain.__annotations__ = {"y": int, "return": list}


def test_a_function_has_these_inputs(lesson):
    """``ANY`` is equal to all values, even to ``Parameter.empty``."""
    functions = plain, lambda x=ANY, *rest, flag=True, by, **options: rest
    order = ["x", "flag", "by", "*rest", "**options"]
    equal(
        [[tuple(each) for each in lesson.inputs_of(function)] for function in functions],
        [
            [("x", (), None), ("y", (1,), int)],
            list(zip(order, [(ANY,), (True,), (), (), ()], [None] * 5, strict=True)),
        ],
        cause=[
            (
                lambda got: {*names(got[1])} == {*order} and names(got[1]) != order,
                "the parameters are in another order",
            ),
            (
                lambda got: got[0][1][1] == (1,) and got[1][0] == ("x", (), None),
                "a default was compared with `==`: compare with `Parameter.empty` by identity",
            ),
        ],
    )


def test_the_arguments_are_the_proxies(lesson):
    call, args, tracer = arguments_for(lesson, lambda x, *, y: [x, y], concrete_args={})
    kept = names(placeholders(tracer.graph))
    holds(
        [type(argument) for argument in args] == [Proxy, Proxy]
        and [argument.node for argument in args] == list(tracer.graph.nodes),
        "a list with the proxy of each placeholder, `x` and `y`",
        got=args,
        cause=[
            (kept == ["y"], "the first parameter was taken for `self`, but a function has none"),
            (isinstance(args[0], Node), "nodes were returned"),
            (isinstance(args[0], str), "names were returned"),
        ],
        hint="the function is called with these: `create_proxy` returns what you need",
    )
    equal(called(call, 1, 2), [1, 2], hint="the callable is `call_by_position(root_fn, len(args))`")


def test_a_default_is_kept(lesson):
    def function(x, zero=0, none=None, *, flag=False, pair=(1, 2)):
        return x

    equal(
        [default for _, default, _ in signature_of(lesson, function)],
        [(), (0,), (None,), (False,), ((1, 2),)],
        cause=(
            lambda got: got[0] == () and () in got[1:] and got[4],
            "a default that is None or false was taken for no default: compare with "
            "`inspect.Parameter.empty` by identity",
        ),
    )


def test_an_annotation_becomes_the_type_of_the_node(lesson):
    def function(w, x, y, *, z):
        return x

    def starred(*rest, **options):
        return rest

    function.__annotations__ = {"x": torch.Tensor, "y": "int", "z": int, "return": torch.Tensor}
    starred.__annotations__ = {"rest": float, "options": float}
    equal(
        [kind for each in (function, starred) for *_, kind in signature_of(lesson, each)],
        [None, torch.Tensor, "int", int, None, None],
        cause=[
            (lambda got: inspect.Parameter.empty in got, "no annotation is None as a type"),
            (is_value([None] * 6), "the annotation wasn't handed to `create_proxy`"),
            (
                lambda got: float in got,
                "`*rest: float` says that each element is a float; the single placeholder isn't",
            ),
        ],
    )


def test_a_placeholder_has_the_parameters_name_as_its_target(lesson):
    """A node can't have the name of a builtin, so it is renamed; its target isn't."""
    equal(
        names(signature_of(lesson, lambda input, sum: input)),
        ["input", "sum"],
        cause=(is_value(["input_1", "sum_1"]), "the target is the name of the node"),
    )


def test_every_kind_of_parameter_becomes_one_placeholder(lesson):
    def function(first, /, x, *rest, flag=True, **options):
        local = x
        return local

    expected = ["first", "x", "flag", "*rest", "**options"]
    equal(
        names(signature_of(lesson, function)),
        expected,
        cause=[
            (lambda got: "first" not in got, "parameters before `/` were passed over"),
            (is_value(expected[:3]), "`*args` or `**kwargs` were left out"),
            (lambda got: "local" in got, "a local variable was taken for a parameter"),
            (lambda got: {*got} == {*expected}, "the parameters are in another order"),
        ],
    )


def test_the_placeholders_are_your_own(lesson):
    with barred(torch.fx.Tracer, "create_args_for_root"):
        found = signature_of(lesson, lambda x, *, y=1: x)
    equal(found, [("x", (), None), ("y", (1,), None)])


def test_a_placeholder_is_made_by_the_most_derived_method(lesson):
    class Counting(own(lesson.Placeholders, "create_args_for_root"), torch.fx.Tracer):
        def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None) -> Proxy:
            made.append((target, type_expr))
            return super().create_proxy(kind, target, args, kwargs, name, type_expr)

    made: list[tuple] = []
    Counting().trace(plain)
    hint = "call `self.create_proxy` with `type_expr`, so that subclasses have their say"
    equal(made, [("x", None), ("y", int)], hint=hint)


# --- step 2: self ---------------------------------------------------------------------------------


def test_self_is_known_by_its_place(lesson):
    class Model(nn.Module):
        def forward(this, x):
            return x

    model = Model()
    _, (owner, *_), tracer = arguments_for(lesson, Model.forward, model)
    equal(
        [names(placeholders(tracer.graph)), names(signature_of(lesson, lambda self, x: x))],
        [["x"], ["self", "x"]],
        cause=[
            (lambda got: got[1] == ["x"], "the parameter called `self` was left out"),
            (lambda got: "this" in got[0], "the root became a placeholder"),
        ],
        hint="`is_module` says whether the first parameter is the root, whatever its name",
    )
    holds(owner is model, "the root itself as the first argument", got=owner)
    call, _, _ = arguments_for(lesson, lambda this, x, *rest: [x, rest], model)
    uncounted = (lambda got: "2 positional" in str(got), "`count` includes the root's parameter")
    equal(called(call, model, 1, 2), [1, 2], cause=uncounted)


def test_forward_without_self_is_refused(lesson):
    class Careless(nn.Module):
        def forward(*inputs, **options):
            return inputs[1]

    taken = "`forward(*inputs, **options)` was taken, though it has no parameter for the root"
    with refuses(RuntimeError, "self", cause=taken):
        arguments_for(lesson, Careless.forward, Careless())
    # A function that isn't a method needs no root.
    equal(names(signature_of(lesson, Careless.forward)), ["*inputs", "**options"])


# --- step 3: the function that is called ----------------------------------------------------------


def test_a_function_that_takes_all_by_position_is_returned_itself(lesson):
    got = lesson.call_by_position(plain, 2)
    holds(got is plain, "the given function: it doesn't need new code", got=got)


STARRED = {
    "keyword-only": (lambda x, *, y: [x, y], [1, 2]),
    "args": (lambda x, *rest: [x, rest], [1, 2]),
    "kwargs": (lambda x, **options: [x, options], [1, 2]),
    "keyword-only and kwargs": (lambda *, y=3, **options: [y, options], [1, 2]),
    "both": (lambda *rest, **options: [rest, options], [1, 2]),
}


@pytest.mark.parametrize("kind", STARRED)
def test_any_other_function_can_be_called_by_position(lesson, kind):
    function, expected = STARRED[kind]
    hint = "new code: all parameters are positional, and no flag CO_VARARGS or CO_VARKEYWORDS"
    left = "a flag, or the count of keyword-only parameters, asks for more variables than there are"
    too_small = (lambda error: "co_varnames is too small" in str(error), left)
    with noting(cause=too_small, hint=hint, on=(ValueError,)):
        by_position = lesson.call_by_position(function, 2)
    equal(
        called(by_position, 1, 2),
        expected,
        cause=[
            (lambda got: "takes" in str(got), "not all parameters can be passed by position"),
            (lambda got: (2,) in got, "it still packs its arguments into a tuple or a dict"),
        ],
        hint=hint,
    )


A_GLOBAL_OF_THIS_FILE = 1


def test_a_variadic_function_keeps_its_closure_its_globals_and_its_variables(lesson):
    factor = 3

    def function(x, *rest, y):
        local = A_GLOBAL_OF_THIS_FILE
        return [factor, locals()]

    before = function.__code__
    by_position, _, _ = arguments_for(lesson, function)
    flags = (
        lambda got: not by_position.__code__.co_flags & inspect.CO_OPTIMIZED,
        "the new code has lost its other flags: take out two, `co_flags & ~…`",
    )
    equal(
        called(by_position, 1, 2, (3,)),
        [3, {"x": 1, "y": 2, "rest": (3,), "local": 1, "factor": 3}],
        cause=[
            (lambda got: isinstance(got, NameError), "the new function lost its globals"),
            (lambda got: "'local'" in str(got.args), "a local variable was taken for a parameter"),
            flags,
        ],
    )
    holds(function.__code__ is before, "the code of the caller's own function as it was")


# --- step 4: decorated functions ------------------------------------------------------------------


def test_a_decorated_function_is_seen_through(lesson):
    @twice
    @twice
    def function(x, y: int = 1):
        return x + y

    equal(
        signature_of(lesson, function),
        [("x", (), None), ("y", (1,), "int")],
        cause=(
            lambda got: "*args" in names(got),
            "the wrapper's own `*args, **kwargs` were taken for the signature",
        ),
    )


def test_a_decorated_function_is_returned_itself(lesson):
    functions = [twice(plain), twice(lambda x, *rest: rest)]
    got = [lesson.call_by_position(function, 2) for function in functions]
    same = [result is function for result, function in zip(got, functions, strict=True)]
    patched = (lambda _: got[1].__code__.co_name == "wrapper", "the wrapper got new code")
    equal(same, [True, True], cause=[(got[0] is plain, "the inner one was returned"), patched])


def test_a_decorated_function_still_runs_its_decorator(lesson):
    same_numbers(
        graph_module(lesson, twice(lambda x: x + 1))(torch.ones(2)),
        torch.full((2,), 4.0),
        cause=(
            lambda got: got.tolist() == [2.0, 2.0],
            "the inner function is called instead of the decorated one",
        ),
    )


# --- the whole: inside the real engine ------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["KeywordOnly", "PositionalOnly", "Variadic", "NoInput", "Operators"]
)
def test_a_trace_with_it_is_the_trace_of_torch(lesson, name):
    same_trace(lesson, lambda: zoo.SMALL[name]().model)


def random_root(chance: Random) -> str:
    """The text of a function or method with a random signature; it gives back what it gets."""
    names = list("abcdefg"[: chance.randint(0, 7)])
    first_default = chance.randint(0, 7)
    parameters = [
        name
        + chance.choice(["", ": int", ": float"])
        + (f" = {chance.choice(DEFAULTS)}" if number >= first_default else "")
        for number, name in enumerate(names)
    ]
    keyword_only = chance.randint(0, len(names))
    star = chance.choice(["*rest", "*" if keyword_only < len(names) else "*rest"])
    parameters.insert(keyword_only, star)
    parameters.insert(chance.randint(0, keyword_only), "/")
    is_module = chance.random() < 0.5 or parameters[0] == "/"
    signature = ", ".join(["self"] * is_module + parameters + chance.choice([[], ["**options"]]))
    results = "".join(f"{name}, " for name in names)
    return f"def forward({signature}): return ({results})"


def root_of(source: str) -> Callable | nn.Module:
    """The function of a text; for a method, a module that has it."""
    forward = function_of(source)
    return type("Random", (nn.Module,), {"forward": forward})() if "(self" in source else forward


DEFAULTS = ["None", "0", "False", "'text'", "(1, 2.5)", "()", "-1.5"]


@by_chance(20)
def test_a_random_signature_is_traced_as_by_torch(lesson, chance):
    source = random_root(chance)
    with showing(source):
        same_trace(lesson, lambda: root_of(source))
