"""``proxy``: your proxies record the same graph as torch's."""

from __future__ import annotations

import builtins
import operator
import re

import pytest
import torch
from torch import fx
from torch.nn import functional as F
from torch.utils._pytree import tree_map

from tests import zoo
from tests.models.proxy import expected, plugged, recorded, unpacking
from tests.suite import equal, holds, noting, refuses, same_graph

UNARY = ("abs", "invert", "neg", "pos")
COMPARISONS = ("eq", "ge", "gt", "le", "lt", "ne")
BINARY = ("add", "and_", "floordiv", "getitem", "lshift", "matmul", "mod", "mul", "or_", "pow")
BINARY += ("rshift", "sub", "truediv", "xor")
REFLECTED = tuple(name for name in BINARY if name != "getitem")


def same_record(lesson, function, inputs: str = "xy", **words) -> None:
    same_graph(recorded(lesson, function, inputs), expected(function, inputs), **words)


# --- step 1: operators ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*BINARY, *COMPARISONS, *UNARY])
def test_an_operator_is_a_call_of_its_function(lesson, name):
    same_record(lesson, getattr(operator, name), "x" if name in UNARY else "xy")


@pytest.mark.parametrize("name", REFLECTED)
def test_a_proxy_on_the_right_stays_on_the_right(lesson, name):
    function = getattr(operator, name)
    swapped = (lambda graph: list(graph.nodes)[1].args[1] == 7, "the operands were swapped")
    same_record(lesson, lambda x: function(7, x), "x", cause=swapped)


def test_an_index_is_recorded_unchanged(lesson):
    same_record(lesson, lambda x, y: (x[0], x[:, None], x[..., 1:], x[y], x[y : y + 1]))


def test_an_operation_returns_a_proxy_of_its_node(lesson):
    graph = fx.Graph()
    x = lesson.Proxy(graph.placeholder("x"))
    total = x + 1
    holds(isinstance(total, lesson.Proxy), "`x + 1` is a Proxy again", got=type(total).__name__)
    equal(total.node, list(graph.nodes)[-1])


def listening(lesson, graph):
    """A tracer that lists the kinds of the nodes it is asked to create."""
    tracer = lesson.GraphAppendingTracer(graph)
    tracer.asked, create_proxy = [], tracer.create_proxy

    def listen(kind, *args, **kwargs):
        tracer.asked.append(kind)
        return create_proxy(kind, *args, **kwargs)

    tracer.create_proxy = listen
    return tracer


def test_the_tracer_of_the_first_proxy_creates_the_node(lesson):
    graph = fx.Graph()
    x, y = (lesson.Proxy(graph.placeholder(name), listening(lesson, graph)) for name in "xy")
    total = x + y
    last = (bool(y.tracer.asked), "the tracer of the last proxy created the node")
    hint = "return what its `create_proxy` returns"
    holds(x.tracer.asked, "for `x + y` the tracer of `x` creates the node", cause=last, hint=hint)
    holds(total.tracer is x.tracer, "the tracer of `x + y` is the tracer of `x`", hint=hint)


# --- step 2: torch's functions --------------------------------------------------------------------


# The errors that a search without a result ends with.
NOT_FOUND = (UnboundLocalError, StopIteration, AttributeError, IndexError)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [([["x"]], {}), ([[(1, ["x"])]], {}), ([], {"tensors": {"key": ["x"]}})],
    ids=["list", "nested", "keyword"],
)
def test_a_proxy_is_found_at_any_depth(lesson, args, kwargs):
    x = lesson.Proxy(fx.Graph().placeholder("x"))
    args, kwargs = tree_map(lambda _: x, (args, kwargs))
    words = f"no proxy was found in `{args}` and `{kwargs}`"
    cause = (lambda _: isinstance(-x, lesson.Proxy), words)  # one that isn't inside is found
    where = "look into containers, and into the keyword arguments"
    with noting(cause=cause, hint=where, on=NOT_FOUND):
        result = lesson.record_call(torch.cat, *args, **kwargs)
    equal((result.node.target, result.node.all_input_nodes), (torch.cat, [x.node]))


def test_a_method_of_a_tensor_called_with_a_proxy_is_a_method_call(lesson):
    x = lesson.Proxy(fx.Graph().placeholder("x"))
    arguments = (torch.Tensor,), (torch.ones(2), x), {"alpha": 3}  # the first are `types`
    result = lesson.Proxy.__torch_function__(torch.Tensor.add, *arguments)
    hint = "call `is_tensor_method_or_property`"
    equal((result.node.op, result.node.target), ("call_method", "add"), hint=hint)
    equal((result.node.args[1], result.node.kwargs), (x.node, {"alpha": 3}))
    holds(result.tracer is x.tracer, "the tracer of the result is the tracer of `x`")


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.add(x, y),
        lambda x, y: F.relu(x, inplace=True),
        lambda x, y: torch.add(1, other=y),
        lambda x, y: torch.cat([x, y], dim=1),
    ],
    ids=["two", "functional", "keyword", "list"],
)
def test_a_function_of_torch_is_a_call_of_it(lesson, function):
    same_record(lesson, function)


# --- step 3: attributes and methods ---------------------------------------------------------------


def test_an_unused_attribute_leaves_no_node(lesson):
    early = (lambda graph: len(graph.nodes) > 2, "the node was made when the attribute was read")
    same_record(lesson, lambda x: (x.shape, x)[1], "x", cause=early)


@pytest.mark.parametrize(
    "function",
    [lambda x: x.view(2, -1), lambda x: x.sum(dim=0, keepdim=True), lambda x: x.T._values()],
    ids=["arguments", "keywords", "of an attribute"],
)
def test_a_method_is_a_method_call(lesson, function):
    def is_called_on_itself(graph):
        (method,) = graph.output_node().all_input_nodes
        first = method.args[0]
        return first.target is getattr and first.args[1] == method.target

    words = "the method was recorded as an attribute as well: its first argument is `self.root`"
    same_record(lesson, function, "x", cause=(is_called_on_itself, words))


@pytest.mark.parametrize(
    "function",
    [lambda x: x.shape, lambda x: torch.relu(x.T), lambda x: -x.mT],
    ids=["returned", "passed on", "operator"],
)
def test_an_attribute_is_a_call_of_getattr(lesson, function):
    same_record(lesson, function, "x")


def test_an_attribute_is_one_node_for_all_uses_and_another_if_it_is_read_again(lesson):
    def function(x):
        shape = x.shape
        return shape[0] + shape() + shape() + shape[1] + x.shape[2]  # calls need no node

    def number_of_nodes(graph):
        return [node.target for node in graph.nodes].count(getattr)

    kept = "the proxy kept the attribute: the value may have changed between two reads"
    cause = [
        (lambda graph: number_of_nodes(graph) == 3, "each use created another node"),
        (lambda graph: number_of_nodes(graph) == 1, kept),
    ]
    same_record(lesson, function, "x", cause=cause)


def test_the_tracer_creates_every_proxy(lesson):
    graph = fx.Graph()
    x = lesson.Proxy(graph.placeholder("x"), listening(lesson, graph))
    -torch.relu(x).sum().T
    kinds = ["call_function", "call_method", "call_function", "call_function"]
    equal(x.tracer.asked, kinds, hint="call `create_proxy` of the first proxy's tracer")


def test_a_dataclass_that_holds_a_proxy_is_made_by_a_node(lesson):
    same_record(lesson, lambda x: x.store(zoo.Box(x + 1)), "x")


# --- step 4: questions a proxy can't answer -------------------------------------------------------


@pytest.mark.parametrize("name", ["__bool__", "__iter__", "__len__", "__index__"])
def test_a_refusal_is_an_error_with_a_reason_that_is_raised(lesson, name):
    x = lesson.Proxy(fx.Graph().placeholder("x"))
    method = getattr(type(x), name, operator.index)  # torch leaves `__index__` to Python
    answers, is_the_learners = [], name in ("__len__", "__index__") and name in dir(x)
    late = "it has a `yield`, so nothing in it runs before the first element is requested"
    with refuses(
        (lesson.TraceError, RuntimeError, TypeError),
        cause=[
            (lambda _: isinstance(answers[0], Exception), "the error was returned: `raise` it"),
            (lambda _: answers[0].__name__ == name, late),  # a generator's name is its function's
            (lambda _: bool(answers), f"`{name}` returned a value, and a proxy has none"),
        ],
    ):
        try:
            answers.append(operator.call(method, x))  # from C, like `for`
        except Exception as error:
            holds(str(error), "an error with a reason", got=repr(error), hint="use `refusal`")
            if is_the_learners:
                says_both = re.search(r"[\w`][\n.:;,]+ *[\w`]|\binstead\b", str(error))
                holds(says_both, "what is wrong, then what to write instead", got=str(error))
            raise


def starred(x):
    _, *rest = x
    for (each,) in rest:
        return each


TAKEN, MADE_UP = "a proxy was taken for a value", "elements were made up"
# A question, the error that refuses it, and what happened instead if there is none.
REFUSED = {
    "if": (lambda x: 1 if x else 2, "TraceError", TAKEN),
    "chain": (lambda x: 0 < x < 1, "TraceError", TAKEN),
    "for": (lambda x: [each for each in x], "TraceError", MADE_UP),
    "star": (lambda x: max(*x), "TraceError", MADE_UP),
    "starred": (starred, "TraceError", MADE_UP),
    "length": (len, "RuntimeError", TAKEN),
    "index": (range, "TypeError", TAKEN),
    "key": (lambda x: x.update({x: 1}), "RuntimeError", TAKEN),
}


@pytest.mark.parametrize(("question", "error", "answered"), REFUSED.values(), ids=REFUSED)
def test_a_proxy_has_no_truth_no_elements_and_no_number(lesson, question, error, answered):
    kind = getattr(lesson, error, None) or getattr(builtins, error)
    hint = "for the truth and the elements, ask the tracer"
    with refuses(kind, cause=answered, hint=hint):
        recorded(lesson, question, "x")


def nested(x, y):
    first, (second, third, (fourth,)) = x
    fifth, sixth, seventh = x
    return first, second, third, fourth, fifth, sixth, seventh


@pytest.mark.parametrize("function", [nested, unpacking(256)], ids=["nested", "256 names"])
def test_unpacking_into_names_is_indexing(lesson, function):
    words = "`__iter__` returned another number of elements than there are names"
    other = (lambda error: "to unpack" in str(error), words)
    hint = "the instruction that the caller's frame is executing has the number of names"
    with noting(cause=other, hint=hint, on=(ValueError,)):
        same_record(lesson, function)


def test_a_tracer_may_know_the_truth_and_the_elements(lesson):
    class Knowing(lesson.GraphAppendingTracer):
        def to_bool(self, obj):
            return True

        def iter(self, obj):
            return iter([obj[0], obj[1]])

    x = lesson.Proxy((graph := fx.Graph()).placeholder("x"), Knowing(graph))
    equal("yes" if x else "no", "yes", hint="call `self.tracer.to_bool(self)`")
    x.tracer.to_bool = lambda obj: False
    equal("yes" if x else "no", "no", hint="return what the tracer returns")
    first, second = (each for each in x)
    equal([first.node.args[1], second.node.args[1]], [0, 1], hint="call `self.tracer.iter(self)`")


# --- the whole: inside torch's tracer -------------------------------------------------------------


# Models that only pass their input to modules.
UNTOUCHED = {"LeafCalls", "SharedModules", "EmptyForward"}


MODELS = {name: zoo.SMALL[name] for name in zoo.SMALL if name not in UNTOUCHED}
MODELS["ResNet18"] = zoo.resnet18


@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
def test_a_model_inside_torchs_tracer(lesson, build):
    same_graph(plugged(lesson).trace(build().model), fx.Tracer().trace(build().model))
