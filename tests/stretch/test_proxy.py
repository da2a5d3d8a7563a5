"""``proxy``: the other features of torch's proxies, and better errors."""

from __future__ import annotations

import copy
from collections import OrderedDict

import pytest
import torch
from torch import fx, nn
from torch.fx.proxy import Scope

from tests.models.proxy import expected, recorded
from tests.suite import equal, holds, refuses, same_graph


def proxy_of(lesson, name: str = "x"):
    return lesson.Proxy(fx.Graph().placeholder(name))


# --- what is refused, and how ---------------------------------------------------------------------


QUESTIONS = {
    "truth": lambda x: 1 if x else 2,
    "elements": lambda x: [*x, 1],
    "length": lambda x: len(x),
    "index": lambda x: range(x),
    "key": lambda x: x.update({x: 1}),
}


@pytest.mark.beyond(
    "the message is the same wherever it happens, and doesn't say what to do instead"
)
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_a_refusal_shows_the_line_that_asked_and_what_to_write_instead(lesson, question):
    messages = []
    line = f"{__file__}:{question.__code__.co_firstlineno}: "
    with refuses((RuntimeError, TypeError, ValueError), line):
        try:
            recorded(lesson, question, "x")
        except Exception as error:
            messages.append(str(error))
            raise
    *_, last = messages[0].splitlines()
    is_advice = last.startswith(("use ", "take ", "index "))
    holds(is_advice, "the last line says what to write instead", got=last)


def test_proxies_of_two_tracers_are_refused(lesson):
    one, other = proxy_of(lesson), proxy_of(lesson)
    with refuses(RuntimeError, "tracers", cause="a graph got a node of another graph"):
        torch.add(one, other)


# --- calls and keys -------------------------------------------------------------------------------


def test_a_call_of_a_proxy_is_a_call_of_its_method(lesson):
    if not any("__call__" in vars(each) for each in lesson.Proxy.__mro__):
        raise NotImplementedError("proxy: write `Proxy.__call__`")

    def function(x, y):
        return x(y, 1, key=2)

    same_graph(recorded(lesson, function), expected(function))


def test_a_method_of_a_scripted_module_is_a_method_of_its_owner(lesson):
    x, scripted, calls = proxy_of(lesson), torch.jit.script(nn.ReLU()), []
    x.tracer.create_proxy = lambda *call: calls.append(call)
    scripted.forward(x)
    kind, target, (owner, argument), _ = calls[0]
    equal((kind, target), ("call_method", "forward"))
    holds(owner == scripted._c and argument is x, "its owner, then the arguments", got=calls)


def test_the_keys_are_those_that_the_tracer_knows_or_a_method_call(lesson):
    same_graph(recorded(lesson, lambda x: x.keys(), "x"), expected(lambda x: x.keys(), "x"))
    x = proxy_of(lesson)
    x.tracer.keys = lambda obj: ["key"]
    equal({**x}["key"].node.args[1], "key")


# --- what a tracer does ---------------------------------------------------------------------------


def test_a_function_that_writes_to_its_arguments_is_refused_if_the_tracer_checks_it(lesson):
    x = proxy_of(lesson)
    equal(torch.sigmoid(x, out=x).node.kwargs["out"], x.node)
    x.tracer.check_mutable_operations = True
    with refuses(RuntimeError, "sigmoid"):
        torch.sigmoid(x, out=x)


def test_a_node_gets_scope_module_stack_and_stack_trace_from_its_tracer(lesson):
    def forward(tracer):
        tracer.scope, tracer.record_stack_traces = Scope("layer", nn.ReLU), True
        tracer.module_stack = OrderedDict(layer=("layer", nn.ReLU))
        return tracer.create_proxy("get_attr", "weight", (), {}).node

    node = forward(tracer := proxy_of(lesson).tracer)
    equal(dict(node.meta.get("nn_module_stack", {})), {"layer": ("layer", nn.ReLU)})
    equal(dict(tracer.node_name_to_scope), {"weight": ("layer", nn.ReLU)})
    lines = (node.stack_trace or "").splitlines()
    holds(lines and lines[0].endswith("in forward"), "a stack trace from `forward`", got=lines)
    engine = [line for line in lines if "solutions/stretch" in line]
    equal(engine, [], cause=(bool, "the stack trace has lines of the engine"))


def test_a_node_has_the_metadata_that_is_preserved(lesson):
    x = proxy_of(lesson)
    with fx.traceback.preserve_node_meta(), fx.traceback.annotate({"note": 1}):
        node = x.relu().node
    equal(node.meta.get("custom"), {"note": 1})


def test_the_caller_may_make_the_proxy(lesson):
    x = proxy_of(lesson)
    made = x.tracer.create_proxy("call_method", "relu", (x,), {}, None, None, lambda node: [node])
    equal((made[0].target, made[0].args), ("relu", (x.node,)))


def test_an_argument_may_convert_itself(lesson):
    class Own:
        def __fx_create_arg__(self, tracer):
            return tracer.create_node("get_attr", "own", (), {})

    x = proxy_of(lesson)
    equal([node.name for node in x.add([Own()]).node.all_input_nodes], ["x", "own"])


def test_an_argument_that_a_graph_cannot_hold_is_refused(lesson):
    x = proxy_of(lesson)
    with refuses(NotImplementedError, "set"):
        x.add([x, {1}])


# --- copies ---------------------------------------------------------------------------------------


@pytest.mark.unasked
def test_copying_a_proxy_records_nothing(lesson):
    x = proxy_of(lesson)
    copied, deeply_copied = copy.copy(x), copy.deepcopy(x)
    holds(copied.node is x.node, "a proxy of the same node", got=copied)
    holds(deeply_copied.node is not x.node, "a proxy of a copied node", got=deeply_copied)
    equal((deeply_copied.node.name, len(x.node.graph.nodes)), ("x", 1))
