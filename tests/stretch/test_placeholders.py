"""``placeholders``: concrete arguments, containers, decorated functions."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn
from torch.fx import PH
from torch.fx._symbolic_trace import PHWithMeta
from torch.fx.proxy import TraceError
from torch.utils._pytree import tree_structure

from tests import zoo
from tests.models.placeholders import (
    graph_module,
    names,
    placeholders,
    plugged,
    same_trace,
    twice,
)
from tests.suite import equal, noting, refuses, same_numbers, warns_of


def branching(x, flag, scale=2):
    return x * scale if flag else x - scale


def nested(x, flag):
    return x["left"] + x["both"][0] * x["both"][1] if flag else x


nested.__annotations__ = {"x": dict, "flag": bool}


class Branching(nn.Module):
    def forward(self, x, flag, scale=2):
        return branching(x, flag, scale)


class AnyNumber(nn.Module):
    def forward(self, *args):
        return args[0] - args[1]


class TakesAPair(nn.Module):
    def forward(self, x, y):
        return x[0] + x[1] * y


CONCRETE = {
    "a flag and a number": (branching, {"flag": False, "scale": 3}),
    "None": (lambda x, mask=None: x if mask is None else x * mask, {"mask": None}),
    "a tuple": (branching, (PH, True, 3)),
    "a tuple for a module": (Branching(), (PH, True, 3)),
    "two of any number": (lambda x, *others: x - others[0], (PH, PH)),
    "three of any number for a module": (AnyNumber(), (PH, PH, PH)),
    "containers": (nested, {"x": {"left": PH, "both": (PH, PH)}, "flag": True}),
    "a container for a module": (TakesAPair(), {"x": [PH, PH]}),
}


@pytest.mark.parametrize("kind", CONCRETE)
def test_a_trace_with_concrete_arguments_is_the_trace_of_torch(lesson, kind):
    root, concrete = CONCRETE[kind]
    unused = "`concrete_args` wasn't used for this parameter: the function got a proxy"
    with noting(cause=unused, on=(TraceError,)):
        same_trace(lesson, lambda: root, concrete_args=concrete)


def test_a_value_that_cannot_be_checked_causes_a_warning(lesson):
    with warns_of("flag"):
        graph_module(lesson, branching, concrete_args={"flag": torch.tensor(data=True)})


def test_concrete_arguments_belong_to_one_trace(lesson):
    tracer = plugged(lesson)
    tracer.trace(branching, {"flag": True})
    graph = tracer.trace(lambda x, flag: x + flag)
    equal(names(placeholders(graph)), ["x", "flag"])


def test_a_forward_of_any_number_of_arguments_without_self_is_refused(lesson):
    class WithoutSelf(nn.Module):
        def forward(*args):
            return args[1]

    with refuses(RuntimeError, "self"):
        plugged(lesson).trace(WithoutSelf(), (PH, PH))


@pytest.mark.beyond("a value that isn't a placeholder becomes an input as well")
def test_one_of_any_number_of_arguments_may_be_known(lesson):
    traced = graph_module(lesson, AnyNumber(), concrete_args=(PH, 3))
    (sub,) = traced.graph.find_nodes(op="call_function", target=operator.sub)
    equal(sub.args[1], 3)
    with refuses(AssertionError, "input_1"):
        traced(5, 4)


@pytest.mark.beyond("there are no parameters to count")
def test_a_function_of_nothing_but_any_number_of_arguments_takes_a_tuple(lesson):
    traced = graph_module(lesson, lambda *args: args[0] - args[1], concrete_args=(PH, PH))
    equal(traced(5, 3), 2)


@pytest.mark.parametrize("concrete", [(PH,), (PH,) * 4], ids=len)
def test_too_few_or_too_many_concrete_arguments_are_refused(lesson, concrete):
    with refuses(RuntimeError, str(len(concrete)), cause="`zip` was asked to count them"):
        plugged(lesson).trace(branching, concrete)


# --- defaults ------------------------------------------------------------------------------------


@pytest.mark.beyond("the default becomes a node, and the code names it before that node runs")
@pytest.mark.parametrize("default", [torch.ones(2), zoo.Pair(1, [2])], ids=type)
def test_a_default_does_not_become_a_node(lesson, default):
    def function(x, other=default):
        return x + other

    graph = plugged(lesson).trace(function)
    _, other, *_ = graph.nodes
    equal([node.name for node in graph.nodes], ["x", "other", "add", "output"])
    equal(type(other.args[0]), type(default))


# --- containers ----------------------------------------------------------------------------------


STRUCTURES = {
    "list of one": [PH],
    "nothing in nothing": ((), {}),
    "named tuple": zoo.Pair(PH, (PH,)),
    "a value and an input": [2, PH, None],
}


@pytest.mark.parametrize("kind", STRUCTURES)
def test_the_function_gets_the_structure_that_was_given(lesson, kind):
    def function(x, y):
        seen.append(tree_structure(x))
        return [x, type(x) is type(STRUCTURES[kind]), y]

    seen: list = []
    same_trace(
        lesson,
        lambda: function,
        cause=(lambda graph: seen[0] != seen[1], "the function got another container"),
        concrete_args={"x": STRUCTURES[kind]},
    )


@pytest.mark.unasked
def test_a_node_has_the_attributes_of_its_placeholder(lesson):
    in_a_dict = plugged(lesson).trace(lambda x: x["a"], {"x": {"a": PHWithMeta("key")}})
    one_of_any = plugged(lesson).trace(AnyNumber(), (PHWithMeta("key"), PH))
    equal([next(iter(graph.nodes)).ph_key for graph in (in_a_dict, one_of_any)], ["key", "key"])


def test_the_structure_of_the_output_is_rebuilt(lesson):
    def function(x):
        return {"sum": x["left"] + x["both"][0], "all": [x["left"], (x["both"][1],)]}

    structure = {"left": PH, "both": (PH, PH)}
    traced = graph_module(lesson, function, concrete_args={"x": structure})
    value = {"left": torch.ones(2), "both": (torch.zeros(2), torch.ones(2))}
    same_numbers(traced(value), function(value))


# --- decorated functions -------------------------------------------------------------------------


@pytest.mark.beyond("torch gives the wrapper new code with the counts of the function inside")
def test_a_decorator_survives_keyword_only_parameters(lesson):
    @twice
    def function(x, *, by=1):
        return x + by

    same_numbers(graph_module(lesson, function)(torch.ones(2), 3), torch.full((2,), 8.0))


@pytest.mark.beyond("a tuple and a dict are taken for all positional and keyword arguments")
def test_an_argument_that_is_a_tuple_is_not_taken_for_all_arguments(lesson):
    def function(pair, key):
        return pair[0] * key["key"]

    structures = {"pair": (PH,), "key": {"key": PH}}
    equal(graph_module(lesson, function, concrete_args=structures)((2,), {"key": 3}), 6)


@pytest.mark.beyond("an error about the code object of the wrapper")
@pytest.mark.parametrize(
    "fn", [twice(lambda x, *rest: x), twice(lambda x, **rest: x)], ids=["args", "kwargs"]
)
def test_a_decorated_function_that_has_to_unpack_a_proxy_is_refused(lesson, fn):
    with refuses(TypeError, "decorated", "rest", "that calls it"):
        plugged(lesson).trace(fn)


def test_a_decorated_forward_with_keywords_can_be_called_by_another(lesson):
    class Decorated(nn.Module):
        @twice
        def forward(self, x, mask=None, **kwargs):
            return x + 1

    with refuses((TypeError, ValueError)):
        plugged(lesson).trace(Decorated())
    same_trace(lesson, lambda: nn.Sequential(Decorated()))
