"""``interpreter``: run node by node, a graph returns what its module returns."""

from __future__ import annotations

import time
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import fx, nn

from tests import zoo
from tests.models.interpreter import (
    Refused,
    error_of,
    keeping,
    node_of,
    plain,
    refuse,
    run_of,
    same_shapes,
    small,
    traced,
)
from tests.suite import engine, equal, holds, is_value, noting, refuses, same_graph, same_numbers
from tests.suite.versions import that_run

# `*args` and `**kwargs` belong to the stretch.
BUILD = {**zoo.SMALL, "ResNet18": zoo.resnet18}
SMALL = that_run([name for name in zoo.SMALL if name != "Variadic"])
ONE = torch.tensor(1.0)


# --- step 1: one method per opcode ----------------------------------------------------------------


def test_a_function_is_called(lesson):
    call = keeping(lesson, small()).call_function
    result = call(torch.add, (ONE, 2), {"alpha": 3})
    cause = (bool(result == 3), "the keyword arguments were dropped")
    equal(result, torch.tensor(7.0), cause=cause)


def test_a_method_of_the_first_argument_is_called(lesson):
    call = keeping(lesson, small()).call_method
    got = call("replace", ("a-b-c", "-", "+", 1), {})
    equal(got, "a+b-c")
    equal(call("format", ("{x}",), {"x": 5}), "5")
    own = SimpleNamespace(plus=lambda number: number + 1)
    equal(call("plus", (own, 1), {}), 2)


def test_a_submodule_is_called(lesson):
    module, x = small(), torch.rand(2, 4)
    module.again = module.linear
    module.linear.register_forward_hook(lambda module, args, result: result * 2)
    for name, args, kwargs in (("linear", (x,), {}), ("again", (), {"input": x})):
        result = keeping(lesson, module).call_module(name, args, kwargs)
        cause = (lambda got: torch.equal(got * 2, module.linear(x)), "the module's hook didn't run")
        same_numbers(result, module.linear(x), cause=cause)


def test_an_attribute_is_read(lesson):
    module = small()
    result = keeping(lesson, module).get_attr("linear.bias", (), {})
    holds(result is module.linear.bias, "the parameter `linear.bias` of the module", got=result)


def test_a_placeholder_is_the_next_argument_or_its_default(lesson):
    interpreter = keeping(lesson, small())
    interpreter.args_iter = iter([1, None])
    got = [interpreter.placeholder("y", (10,), {}) for _ in range(3)]
    cause = [
        (lambda got: got[0] == 10, "the default won over the argument"),
        (lambda got: got[1] == 10, "the default was taken for the argument `None`"),
    ]
    equal(got, [1, None, 10], cause=cause)


def test_an_argument_that_is_missing_and_has_no_default_is_named(lesson):
    interpreter = keeping(lesson, small())
    interpreter.args_iter = iter(())
    with refuses(RuntimeError, "key"):
        interpreter.placeholder("key", (), {})


def test_the_output_is_its_argument(lesson):
    got = keeping(lesson, small()).output("output", ((1, 2),), {})
    equal(got, (1, 2), cause=(is_value(((1, 2),)), "all arguments were returned: there is one"))


# --- step 2: one node -----------------------------------------------------------------------------


ARRANGED = {
    "list": lambda x: [1, [x, (x,)]],
    "dict": lambda x: {"a": x, "b": {"c": x}},
    "slice": lambda x: [slice(x, (x, x)), ..., None, "x"],
}


@pytest.mark.parametrize("arrange", ARRANGED.values(), ids=ARRANGED)
def test_nodes_become_values_wherever_they_are(lesson, arrange):
    interpreter = keeping(lesson, small())
    x = node_of(interpreter, "x")
    interpreter.env = {x: 5}
    node = interpreter.graph.call_function(print, (arrange(x),), {"key": arrange(x)})
    got = plain(interpreter.fetch_args_kwargs_from_env(node))
    cause = (lambda got: "x" in repr(got).replace("'x'", ""), "a node stayed in the argument")
    expected = ((arrange(5),), {"key": arrange(5)})
    equal(got, expected, cause=cause, hint="`map_arg` goes through the containers")


def test_a_node_is_run_by_the_method_of_its_opcode(lesson):
    class Listening(lesson.Interpreter):
        def call_method(self, target, args, kwargs):
            return target, args, kwargs

    interpreter = Listening(small(), garbage_collect_values=False)
    relu, node = node_of(interpreter, "relu"), node_of(interpreter, "sum_1")
    interpreter.env = {relu: ONE}
    got = interpreter.run_node(node)
    base = (lambda got: torch.equal(got, ONE), "the method of `Interpreter` was called: use `self`")
    equal(got, ("sum", (ONE,), {"dim": -1}), cause=base)


# --- step 3: the whole graph ----------------------------------------------------------------------


def test_another_graph_runs_with_the_attributes_of_the_module(lesson):
    graph = fx.Graph()
    graph.output(graph.call_module("linear", (graph.placeholder("y"),)))
    module, y = small(), torch.rand(2, 4)
    same_numbers(lesson.Interpreter(module, False, graph).run(y), module.linear(y))


def test_the_run_ends_at_the_output(lesson):
    graph = fx.Graph()
    graph.output(x := graph.placeholder("x"))
    graph.call_function(refuse, (x,))
    with noting(cause=(True, "a node after the output was run"), on=(Refused,)):
        equal(keeping(lesson, fx.GraphModule(nn.Module(), graph)).run(2), 2)


def test_an_error_keeps_its_type_and_names_its_node(lesson):
    interpreter = keeping(lesson, traced(lambda x: x.neg()))
    run_node = interpreter.run_node
    interpreter.run_node = lambda node: refuse() if node.name == "neg" else run_node(node)
    words = error_of(lambda: interpreter.run(ONE))
    holds("Refused" in words, "the same error that `run_node` raised", got=words)
    holds("%neg" in words, "the error names the node neg", got=words)


# --- step 4: values are freed ---------------------------------------------------------------------


def test_a_value_is_kept_until_its_last_use(lesson):
    interpreter = lesson.Interpreter(traced(lambda x: (torch.relu(x) + x, x)))
    error = error_of(lambda: interpreter.run(ONE))
    early = "KeyError: x" in error and "%add" in error
    equal(error, "no error", cause=(early, "x was freed before its last use"))


def test_a_value_is_freed_after_its_last_use(lesson):
    class Watching(lesson.Interpreter):
        first = None

        def run_node(self, n):
            if n.name == "output":
                holds(self.first() is None, "the value of neg is freed after tanh", got=self.env)
            value = super().run_node(n)
            if n.name == "neg":
                self.first = weakref.ref(value)
            return value

    module = traced(lambda x: x.neg().tanh().relu())
    interpreter = Watching(module)
    interpreter.run(torch.ones(2))
    equal([str(node) for node in interpreter.env], ["output"])


def test_values_are_kept_on_request(lesson):
    interpreter = lesson.Interpreter(traced(lambda x: x.neg().tanh()), False)
    empty = (lambda error: error.args[0] in interpreter.env, "`last_uses` is empty here")
    with noting(cause=empty, on=(KeyError,)):
        interpreter.run(torch.ones(2))
    equal([str(node) for node in interpreter.env], ["x", "neg", "tanh", "output"])


# --- the whole: real models -----------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SMALL, "ResNet18"])
def test_a_model_returns_what_it_returns_when_called(lesson, name):
    run = run_of(BUILD[name]())
    same_numbers(plain(lesson.Interpreter(run.module).run(*run.values)), run.expected)


# --- step 5: Transformer --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["EveryOpcode", "KeywordArguments", "NestedContainers", "Buffers", "ResNet18"]
)
def test_an_unchanged_graph_is_recorded_as_torch_records_it(lesson, name):
    run = run_of(BUILD[name]())
    ours, theirs = (each.Transformer(run.module).transform() for each in (lesson, fx))
    same_graph(ours.graph, theirs.graph)
    same_numbers(ours(*run.values), run.expected)


def test_a_recorded_placeholder_keeps_its_default(lesson):
    transformed = lesson.Transformer(traced(lambda x, y=10: x - y)).transform()
    _, y, *_ = transformed.graph.nodes
    equal(plain(y.args), (10,), cause=(is_value(()), "the default was lost"))
    equal((transformed(1), transformed(1, 2)), (-9, -1))


def test_the_tracer_creates_the_nodes(lesson):
    transformer = lesson.Transformer(traced(lambda x: torch.relu(x)))
    transformer.tracer.create_node = refuse
    with refuses(Refused, cause="the nodes weren't created by `tracer.create_node`"):
        transformer.transform()


@pytest.mark.parametrize("kind", ["torch", "engine"])
def test_a_module_becomes_a_module_of_the_same_kind(lesson, kind):
    graph = fx.Graph() if kind == "torch" else engine.new_graph()
    graph.output(graph.call_function(torch.relu, (graph.placeholder("x"),)))
    make = fx.GraphModule if kind == "torch" else engine.graph_module
    given = make(nn.Module(), graph)
    transformed = lesson.Transformer(given).transform()
    kinds = type(given).__mro__[1], type(transformed).__mro__[1]
    holds(kinds[0] is kinds[1], f"a {kinds[0].__module__}.GraphModule, as given", got=kinds[1])
    same_numbers(transformed(-ONE), torch.tensor(0.0))


def test_a_subclass_rewrites_the_graph(lesson):
    class Softer(lesson.Transformer):
        def call_function(self, target, args, kwargs):
            if target is torch.relu:
                return super().call_function(torch.tanh, args, kwargs) * 2
            return super().call_function(target, args, kwargs)

    module, x = small(), torch.rand(2, 4)
    before = [*map(str, module.graph.nodes)]
    transformed = Softer(module).transform()
    after = [*map(str, module.graph.nodes)]
    equal(after, before, cause=(bool, "the old graph was changed"))
    names = [node.name for node in transformed.graph.nodes]
    equal(names, ["x", "linear", "weight", "mul", "tanh", "mul_1", "sum_1", "output"])
    same_numbers(transformed(x), torch.tanh(module.linear(x) * module.weight).mul(2).sum(dim=-1))
    holds(transformed.weight is module.weight, "the same parameter, not a copy")


# --- step 6: ShapeProp ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_a_model_has_the_shapes_that_torch_says(lesson, name):
    same_shapes(lesson, BUILD[name])


def test_a_later_run_replaces_the_shapes_of_an_earlier_one(lesson):
    module = traced(lambda x: x.neg())
    for size in (2, 3):
        lesson.ShapeProp(module).propagate(torch.ones(size))
    equal(node_of(module, "neg").meta["tensor_meta"].shape, torch.Size([3]))


# --- step 7: profile ------------------------------------------------------------------------------


def test_the_time_of_a_node_is_its_own(lesson):
    def slow(x):
        time.sleep(0.05)
        return x

    graph = fx.Graph()
    graph.output(graph.call_method("neg", (graph.call_function(slow, (graph.placeholder("x"),)),)))
    module = fx.GraphModule(nn.Module(), graph)
    equal(lesson.Profiler(module).run(ONE), -ONE)
    seconds = {node.name: node.meta["seconds"] for node in graph.nodes}
    holds(0.05 <= seconds["slow"] < 50, "the node that sleeps 0.05 s took so long", got=seconds)
    runs_on = seconds["slow"] < seconds["neg"] < seconds["output"]
    cause = (runs_on, "the time runs on from node to node")
    holds(0 < seconds["neg"] < seconds["slow"], "0 < neg < slow", got=seconds, cause=cause)


def test_a_later_run_replaces_the_time_of_an_earlier_one(lesson):
    module = traced(lambda x: x.neg())
    for node in module.graph.nodes:
        node.meta["seconds"] = 1000.0
    lesson.Profiler(module).run(ONE)
    got = node_of(module, "neg").meta["seconds"]
    cause = (1000 < got < 1001, "the seconds of both runs were added up")
    holds(0 < got < 1000, "the time of the last run, more than 0 s", got=got, cause=cause)
