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


def the_message(lesson, question) -> str:
    try:
        recorded(lesson, question, "x")
    except NotImplementedError:
        raise
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error)
    raise AssertionError("nothing was refused")


QUESTIONS = {
    "truth": lambda x: 1 if x else 2,
    "elements": lambda x: [*x, 1],
    "length": lambda x: len(x),
    "index": lambda x: range(x),
    "key": lambda x: x.update({x: 1}),
}


@pytest.mark.beyond("the message is the same wherever it happens")
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_a_refusal_shows_the_line_that_asked(lesson, question):
    message = the_message(lesson, question)
    line = question.__code__.co_firstlineno
    holds(f"{__file__}:{line}: " in message, "the message has file, line and code", got=message)


@pytest.mark.beyond("it names a page of the documentation, or nothing")
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_a_refusal_says_what_to_write_instead(lesson, question):
    last = the_message(lesson, question).splitlines()[-1]
    holds(
        last.startswith(("use ", "take ", "index ")),
        "the last line says what to write instead",
        got=last,
    )


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


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_a_method_of_a_scripted_module_is_a_method_of_its_owner(lesson):
    x = proxy_of(lesson)
    scripted, arguments = torch.jit.script(nn.ReLU()), []

    def create_arg(a):  # no graph holds a script object: that is what a tracer with a root is for
        arguments.append(a)
        return type(a)()

    x.tracer.create_arg = create_arg
    node = scripted.forward(x).node
    equal((node.op, node.target), ("call_method", "forward"))
    holds(arguments[0][0] == scripted._c, "its owner first", got=arguments)
    holds(arguments[0][1] is x, "then the arguments", got=arguments)


def test_unpacking_with_two_stars_asks_the_tracer_for_the_keys(lesson):
    class Knowing(lesson.GraphAppendingTracer):
        def keys(self, obj):
            return ["key"]

    x = lesson.Proxy((graph := fx.Graph()).placeholder("x"), Knowing(graph))
    equal({**x}["key"].node.args[1], "key")


def test_keys_is_recorded_as_a_method_call(lesson):
    same_graph(recorded(lesson, lambda x: x.keys(), "x"), expected(lambda x: x.keys(), "x"))


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
        node = tracer.create_proxy("get_attr", "weight", (), {}).node
        return node, dict(tracer.node_name_to_scope)

    node, scopes = forward(proxy_of(lesson).tracer)
    equal(dict(node.meta.get("nn_module_stack", {})), {"layer": ("layer", nn.ReLU)})
    equal(scopes, {"weight": ("layer", nn.ReLU)})
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
