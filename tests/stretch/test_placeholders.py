"""``create_args_for_root``: concrete arguments, containers, decorated functions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.fx import PH
from torch.fx._symbolic_trace import PHWithMeta
from torch.fx.proxy import TraceError
from torch.utils._pytree import tree_structure

from tests import zoo
from tests.models.placeholders import (
    arguments_for,
    branching,
    graph_module,
    names,
    nested,
    placeholders,
    plugged,
    same_trace,
    signature_of,
    twice,
    untyped,
)
from tests.models.subclass import likely_names
from tests.suite import barred, equal, growth, holds, noting, refuses, same_numbers, warns_of


@pytest.mark.parametrize(
    "concrete",
    [{"flag": True}, {"flag": False, "scale": 3}, {"scale": 2.5, "flag": True}],
    ids=repr,
)
def test_a_concrete_argument_decides_the_branch(lesson, concrete):
    with noting(cause=UNUSED, on=(TraceError,)):
        same_trace(lesson, lambda: branching, concrete_args=concrete)


UNUSED = "`concrete_args` wasn't used for this parameter: the function got a proxy"


UNUSED_HINT = "the placeholder stays in the graph; the function gets the value itself"


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


def test_a_value_that_cannot_be_checked_is_warned_of(lesson):
    with warns_of("flag"):
        graph_module(lesson, branching, concrete_args={"flag": torch.tensor(data=True)})


def test_concrete_arguments_are_your_own(lesson):
    with barred(torch.fx.Tracer, "create_args_for_root"):
        graph = plugged(lesson).trace(branching, {"flag": True})
    equal(names(placeholders(graph)), ["x", "flag_1", "scale"])


def test_concrete_arguments_are_those_of_one_trace(lesson):
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


def test_a_tuple_of_another_length_is_refused(lesson):
    with refuses(
        RuntimeError,
        "3",
        "2",
        cause="two values were taken for three parameters (`zip` stops at the shorter)",
    ):
        graph_module(lesson, branching, concrete_args=(PH, True))


class AllVariadic(nn.Module):
    def forward(self, *args, **kwargs):
        return args[0] + args[1]


def test_a_tuple_for_a_variadic_function_names_the_inputs(lesson):
    same_trace(lesson, AllVariadic, concrete_args=(PH, PH))


@pytest.mark.parametrize(
    ("function", "concrete"),
    [(lambda x: x + 1, (PH,)), (lambda x, y, *rest: x + y, (PH, PH))],
    ids=["one name", "two names and args"],
)
def test_a_tuple_is_paired_with_the_names_there_are(lesson, function, concrete):
    same_trace(
        lesson,
        lambda: function,
        cause=(
            lambda graph: "input_0" in names(placeholders(graph)),
            "inputs are numbered where a function says nothing of them but `*args`, not here",
        ),
        concrete_args=concrete,
    )


# --- containers ----------------------------------------------------------------------------------


def test_a_nested_input_is_flattened_into_placeholders(lesson):
    same_trace(
        lesson,
        lambda: nested,
        cause=(lambda graph: len(placeholders(graph)) == 1, "the structure became one placeholder"),
        concrete_args={"x": {"left": PH, "both": (PH, PH)}},
    )


class Shifted(nn.Module):
    """Its ``forward`` takes the module, a tensor, and any more tensors."""

    shift = 1

    def forward(self, x, *rest):
        return x + self.shift, rest


@pytest.mark.unasked
def test_the_forward_of_a_module_may_be_bound(lesson):
    model = Shifted()
    call, (owner, *proxies), tracer = arguments_for(lesson, model.forward, model)
    equal(names(placeholders(tracer.graph)), ["x", "*rest"])
    holds(owner is model, "the module first", got=owner)
    total, rest = call(owner, *proxies)
    equal((str(total.node), rest), ("add", proxies[1]))


STRUCTURES = {
    "list of one": [PH],
    "dict of one": {"only": PH},
    "empty list": [],
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


# --- what the user wrote on a placeholder --------------------------------------------------------


def test_a_placeholder_with_attributes_hands_them_to_the_node(lesson):
    marked = PHWithMeta(ph_key="images")
    marked.example_shape = (1, 3)
    graph = plugged(lesson).trace(nested, {"x": {"left": marked, "both": (PH, PH)}})
    node = next(iter(graph.nodes))
    equal(
        [getattr(node, "ph_key", None), getattr(node, "example_shape", None)],
        ["images", (1, 3)],
        cause=(lambda got: not any(got), WRITTEN),
    )


WRITTEN = "what the user wrote on the PH object got lost"


WRITTEN_HINT = "copy its own public attributes to the node"


def test_a_numbered_placeholder_hands_its_attributes_to_the_node(lesson):
    graph = plugged(lesson).trace(AllVariadic(), (PHWithMeta(ph_key="images"), PH))
    keys = [getattr(node, "ph_key", None) for node in graph.find_nodes(op="placeholder")]
    equal(keys, ["images", None], cause=(lambda got: not any(got), WRITTEN))


def test_a_placeholder_leaves_what_is_the_nodes_own(lesson):
    marked = PHWithMeta(ph_key="images")
    marked.name, marked.op, marked.scale = "renamed", "output", len
    setattr(marked, "__hidden__", 1)
    node = next(iter(plugged(lesson).trace(lambda x: x, {"x": marked}).nodes))
    equal(
        [node.name, node.op, hasattr(node, "scale"), hasattr(node, "__hidden__")],
        ["x_1", "placeholder", False, False],
        cause=(
            lambda got: got[0] == "renamed" or got[1] == "output" or any(got[2:]),
            "attributes were copied that are the node's own, methods, or Python's",
        ),
    )


# --- decorated functions -------------------------------------------------------------------------


@pytest.mark.beyond("torch gives the wrapper new code with the counts of the function inside")
def test_a_decorator_survives_keyword_only_parameters(lesson):
    @twice
    def function(x, *, by=1):
        return x + by

    with noting(cause=REBUILT):
        traced = graph_module(lesson, function)
    same_numbers(
        traced(torch.ones(2), 3),
        torch.full((2,), 8.0),
        cause=(
            lambda got: got.tolist() == [4.0, 4.0],
            "the decorator is lost: it doubles the result",
        ),
    )


REBUILT = "the wrapper was given all by position, or new code with the counts of another function"


REBUILT_HINT = "leave the wrapper as it is, and pass it keyword-only parameters by their names"


@pytest.mark.beyond(
    "its `*args` or `**kwargs` can't pass through the decorator; torch gives the wrapper "
    "new code, which fails or not by what is in it",
    run=False,
)
@pytest.mark.parametrize(
    "function", [lambda *terms: terms[0], lambda x, **options: x], ids=["args", "kwargs"]
)
def test_a_decorated_variadic_function_is_refused(lesson, function):
    cause = "a proxy can't be unpacked on its way through the wrapper, and this wasn't said"
    with noting(cause=cause), refuses(RuntimeError, "lambda", cause=LOST):
        graph_module(lesson, twice(function))


LOST = "the innermost function was traced, and what the decorator does is lost without a word"


# --- cost and names ------------------------------------------------------------------------------


def with_parameters(size: int) -> Callable:
    namespace: dict = {}
    exec(f"def function({', '.join(f'a{n}' for n in range(size))}): return a0", namespace)
    return namespace["function"]


def test_the_work_is_linear_in_the_parameters(lesson):
    factor = growth(lambda size: lambda: signature_of(lesson, with_parameters(size)), 100)
    holds(
        factor < 2.5,
        "twice the steps for twice the parameters",
        got=f"{factor:.1f} times the steps",
    )


@pytest.mark.unasked
def test_helper_names_are_free_for_subclasses(lesson):
    tracer = type("Subclass", (type(plugged(lesson)),), likely_names())()
    graph = tracer.trace(branching, {"flag": True})
    equal(names(placeholders(graph)), ["x", "flag_1", "scale"])
