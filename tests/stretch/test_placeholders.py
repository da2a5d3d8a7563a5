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
    branching,
    graph_module,
    names,
    nested,
    placeholders,
    plugged,
    same_trace,
    twice,
    untyped,
)
from tests.suite import equal, noting, refuses, same_numbers, warns_of


@pytest.mark.parametrize(
    "concrete",
    [{"flag": True}, {"flag": False, "scale": 3}],
    ids=repr,
)
def test_a_concrete_argument_decides_the_branch(lesson, concrete):
    unused = "`concrete_args` wasn't used for this parameter: the function got a proxy"
    with noting(cause=unused, on=(TraceError,)):
        same_trace(lesson, lambda: branching, concrete_args=concrete)


@pytest.mark.filterwarnings("ignore:Was not able to add assertion")
def test_a_wrong_value_for_a_concrete_argument_is_noticed(lesson):
    traced = graph_module(lesson, branching, concrete_args={"flag": True})
    with refuses(
        AssertionError,
        "flag",
        "True",
        cause="the graph doesn't check the value for which it was traced",
    ):
        traced(torch.ones(1), False, 2)


def test_a_concrete_none_is_checked(lesson):
    def function(x, mask=None):
        return x if mask is None else x * mask

    same_trace(lesson, lambda: function, concrete_args={"mask": None})


def test_a_value_that_cannot_be_checked_causes_a_warning(lesson):
    with warns_of("flag"):
        graph_module(lesson, branching, concrete_args={"flag": torch.tensor(data=True)})


def test_concrete_arguments_belong_to_one_trace(lesson):
    tracer = plugged(lesson)
    tracer.trace(branching, {"flag": True})
    graphs = [each.trace(lambda x, flag: x + flag) for each in (tracer, plugged(lesson))]
    equal(
        [names(placeholders(graph)) for graph in graphs],
        [["x", "flag"], ["x", "flag"]],
        cause=(
            lambda got: "flag_1" in got[0] + got[1],
            "concrete arguments were kept for the next one",
        ),
    )


def test_a_concrete_argument_has_no_annotation(lesson):
    def function(x, flag):
        return x["a"] if flag else x["b"]

    function.__annotations__ = {"x": dict, "flag": bool}
    same_trace(
        lesson,
        lambda: function,
        cause=(lambda graph: not untyped(graph), "a leaf was given the type of the whole"),
        concrete_args={"x": {"a": PH, "b": PH}, "flag": True},
    )


class Branching(nn.Module):
    def forward(self, x, flag, scale=2):
        return branching(x, flag, scale)


@pytest.mark.parametrize("build", [lambda: branching, Branching], ids=["function", "module"])
def test_concrete_arguments_may_be_a_tuple(lesson, build):
    same_trace(lesson, build, concrete_args=(PH, True, 3))


class AnyNumber(nn.Module):
    def forward(self, *args):
        return args[0] - args[1]


def first_and_others(x, *others):
    return x - others[0]


@pytest.mark.parametrize("build", [AnyNumber, lambda: first_and_others], ids=["module", "function"])
@pytest.mark.parametrize("concrete", [(PH, PH), (PH, PH, PH)], ids=len)
def test_a_tuple_says_how_many_arguments_there_are(lesson, build, concrete):
    same_trace(lesson, build, concrete_args=concrete)


def test_a_forward_of_any_number_of_arguments_without_self_is_refused(lesson):
    class WithoutSelf(nn.Module):
        def forward(*args):
            return args[1]

    with refuses(RuntimeError, "self"):
        plugged(lesson).trace(WithoutSelf(), (PH, PH))


@pytest.mark.unasked
def test_one_of_any_number_of_arguments_has_the_attributes_of_its_placeholder(lesson):
    graph = plugged(lesson).trace(AnyNumber(), (PH, PHWithMeta("key")))
    _, second, *_ = graph.nodes
    equal((second.name, second.ph_key), ("input_1", "key"))


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


def test_a_nested_input_is_flattened_into_placeholders(lesson):
    same_trace(
        lesson,
        lambda: nested,
        cause=(lambda graph: len(placeholders(graph)) == 1, "the structure became one placeholder"),
        concrete_args={"x": {"left": PH, "both": (PH, PH)}},
    )


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
        cause=(
            lambda graph: seen[0] != seen[1],
            "the function got another container: is one of one element, or of none, lost?",
        ),
        concrete_args={"x": STRUCTURES[kind]},
    )


@pytest.mark.unasked
def test_a_node_has_the_attributes_of_its_placeholder(lesson):
    graph = plugged(lesson).trace(lambda x: x["a"], {"x": {"a": PHWithMeta("key")}})
    equal(next(iter(graph.nodes)).ph_key, "key")


def test_a_graph_with_a_nested_input_is_called_with_the_structure(lesson):
    traced = graph_module(lesson, nested, concrete_args={"x": {"left": PH, "both": (PH, PH)}})
    value = {"left": torch.ones(2), "both": (torch.full((2,), 2.0), torch.full((2,), 3.0))}
    same_numbers(traced(value), nested(value))


def test_the_structure_of_the_output_is_rebuilt(lesson):
    def function(x):
        return {"sum": x[0] + x[1], "all": [x[0], (x[1],)]}

    traced = graph_module(lesson, function, concrete_args={"x": [PH, PH]})
    value = [torch.ones(2), torch.zeros(2)]
    same_numbers(
        traced(value),
        function(value),
        cause=(
            lambda got: isinstance(got, list),
            "the output was flattened, and not put together again",
        ),
    )


def test_a_nested_input_of_a_module_keeps_self(lesson):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x, y):
            return self.linear(x[0] + x[1]) + y

    same_trace(lesson, Model, concrete_args={"x": [PH, PH]})


# --- decorated functions -------------------------------------------------------------------------


@pytest.mark.beyond("torch gives the wrapper new code with the counts of the function inside")
def test_a_decorator_survives_keyword_only_parameters(lesson):
    @twice
    def function(x, *, by=1):
        return x + by

    rebuilt = "the wrapper got all by position, or new code with the counts of another function"
    with noting(cause=rebuilt):
        traced = graph_module(lesson, function)
    same_numbers(
        traced(torch.ones(2), 3),
        torch.full((2,), 8.0),
        cause=(
            lambda got: got.tolist() == [4.0, 4.0],
            "the decorator is lost: it doubles the result",
        ),
    )


@pytest.mark.beyond("a tuple and a dict are taken for all positional and keyword arguments")
def test_an_argument_that_is_a_tuple_is_not_taken_for_all_arguments(lesson):
    def function(pair, key):
        return pair[0] * key["key"]

    structures = {"pair": (PH,), "key": {"key": PH}}
    equal(graph_module(lesson, function, concrete_args=structures)((2,), {"key": 3}), 6)


class Decorated(nn.Module):
    @twice
    def forward(self, x, mask=None, **kwargs):
        return x + 1


class Undecorated(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = Decorated()

    def forward(self, x):
        return self.model(x)


@pytest.mark.beyond("an error about the code object of the wrapper")
@pytest.mark.parametrize(
    "fn", [twice(lambda x, *rest: x), twice(lambda x, **rest: x)], ids=["args", "kwargs"]
)
def test_a_decorated_function_that_has_to_unpack_a_proxy_is_refused(lesson, fn):
    with refuses(TypeError, "decorated", "rest", "that calls it"):
        plugged(lesson).trace(fn)


def test_a_decorated_forward_with_keywords_can_be_called_by_another(lesson):
    with refuses((TypeError, ValueError)):
        plugged(lesson).trace(Decorated())
    same_trace(lesson, Undecorated)
