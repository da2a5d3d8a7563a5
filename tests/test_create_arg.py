"""``create_arg``: your mixin in front of torch's own ``Tracer``, and on a bare ``TracerBase``."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.fx import Graph, Node
from torch.fx.proxy import Scope, TracerBase

from tests import zoo
from tests.suite import (
    equal,
    growth,
    holds,
    noting,
    own,
    refuses,
    same_graph,
)

LINEAR = 2.5


class Point(NamedTuple):
    x: object
    y: object


@dataclass
class Box:
    inside: object
    label: object = "box"


class Mode(enum.Enum):
    FAST = "fast"


class Model(nn.Module):
    """A parameter, a buffer and a plain tensor attribute, on two levels."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(2))
        self.register_buffer("mean", torch.rand(2))
        self.table = torch.rand(2)
        self.child = nn.Module()
        self.child.weight = nn.Parameter(torch.rand(2))
        self.child.register_buffer("mean", torch.rand(2))
        self.child.table = torch.rand(2)
        self.child.tied = self.weight

    def forward(self, x):
        return x


@pytest.fixture(params=[torch.fx.Tracer, TracerBase], ids=["on_tracer", "on_tracer_base"])
def tracer(request, lesson):
    """A tracer with the lesson's method in front, a root and an empty graph."""
    return tracer_at(lesson, Model(), request.param)


def tracer_at(lesson, root: nn.Module, base: type[TracerBase] = torch.fx.Tracer) -> TracerBase:
    tracer = type("Plugged", (own(lesson.CreateArg, "create_arg"), base), {})()
    tracer.scope, tracer.module_stack, tracer.node_name_to_scope = Scope("", None), {}, {}
    tracer.root, tracer.graph = root, Graph()
    return tracer


def target_of(tracer, value: object) -> str | NameError:
    """The path that the node for ``value`` reads, or the refusal that came instead."""
    try:
        node = tracer.create_arg(value)
    except NameError as error:
        if error.name is not None:  # Python's own, for a name that the code misspells
            raise
        return error
    holds(
        isinstance(node, Node) and node.op == "get_attr",
        "a get_attr node that reads the value from the model",
        got=node,
        cause="the value itself was put into the graph, or a node of another kind",
        hint="`self.create_node('get_attr', path, (), {})` and return the node",
    )
    return node.target


def proxy(tracer, name: str = "x"):
    return tracer.create_proxy("placeholder", name, (), {})


# --- proxies and plain values -------------------------------------------------------------------


def test_a_proxy_becomes_its_node(tracer):
    x = proxy(tracer)
    holds(
        tracer.create_arg(x) is x.node,
        "the proxy's own node",
        cause="the proxy itself went into the graph, or a new node was made",
        hint="a graph refers to nodes: `proxy.node`",
    )


PLAIN = [
    *(None, ..., 1, True, 2.5, 1j, "text", torch.float32, torch.device("cpu"), torch.strided),
    *(torch.preserve_format, torch.ops.aten.relu.default, Mode.FAST),
]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_a_plain_value_stays_itself(tracer, value):
    holds(
        tracer.create_arg(value) is value,
        f"{value!r} itself",
        got=tracer.create_arg(value),
        cause="a value that a graph can hold was refused or turned into a node",
        hint="hand what is no tensor and no module to `super().create_arg(a)`",
    )


CONTAINERS = {
    "tuple": lambda x: (x, (1, x)),
    "list": lambda x: [x, [1, x]],
    "dict": lambda x: {"a": x, "b": {"c": [x]}},
    "slice": lambda x: slice(x, None, 2),
    "range": lambda x: range(1, 10, 2),
    "nested": lambda x: [{"key": (x, slice(None, x))}, "text"],
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_a_container_keeps_its_shape_with_nodes_for_proxies(tracer, kind):
    x = proxy(tracer)
    equal(
        repr(tracer.create_arg(CONTAINERS[kind](x))),  # a proxy that is left cannot be compared
        repr(CONTAINERS[kind](x.node)),
        cause="the container was handed on as it is, or only its first level was converted",
        hint="make the container anew, with `self.create_arg` on every element",
    )


def test_the_size_of_a_tensor_stays_a_size(tracer):
    equal(
        tracer.create_arg(torch.Size([2, 3])),
        torch.Size([2, 3]),
        cause="a subclass of tuple became a plain tuple",
        hint="build it with its own class",
    )


def test_elements_are_converted_by_the_most_derived_method(lesson):
    class Doubling(own(lesson.CreateArg, "create_arg"), torch.fx.Tracer):
        def create_arg(self, a: object) -> object:
            return a * 2 if isinstance(a, int) else super().create_arg(a)

    tracer = Doubling()
    tracer.root, tracer.graph = Model(), Graph()
    equal(
        tracer.create_arg([1, {"a": (2,)}]),
        [2, {"a": (4,)}],
        cause="elements were converted by a function of yours instead of `self.create_arg`",
        hint="call `self.create_arg(element)`, so that subclasses have their say",
    )


class Tagged:
    """A value that knows how to become an argument."""

    def __fx_create_arg__(self, tracer: TracerBase) -> Node:
        return tracer.create_node("call_function", Tagged, (), {})


def test_a_value_that_converts_itself_is_asked(tracer):
    equal(
        tracer.create_arg([Tagged()])[0].target,
        Tagged,
        cause="the protocol method `__fx_create_arg__` was not called",
        hint="hand what you don't know to `super().create_arg(a)`",
    )


def test_a_named_tuple_is_built_by_a_node(tracer):
    x = proxy(tracer)
    node = tracer.create_arg(Point(x, y=[x, 1]))
    holds(isinstance(node, Node), "a node that builds the named tuple", got=node, cause=NAMED)
    equal((node.op, node.target), ("call_function", Point), cause=NAMED, hint=NAMED_HINT)
    equal((node.args, node.kwargs), ((x.node, [x.node, 1]), {}), cause=NAMED, hint=NAMED_HINT)


NAMED = "a named tuple was treated as a plain tuple: generated code cannot print its class"
NAMED_HINT = "`call_function` of the class, its elements as positional arguments"


def test_a_dataclass_is_built_by_a_node(tracer):
    x = proxy(tracer)
    node = tracer.create_arg(Box((x, 2)))
    holds(isinstance(node, Node), "a node that builds the dataclass", got=node, cause=DATACLASS)
    equal(
        (node.op, node.target, node.args, node.kwargs),
        ("call_function", Box, (), {"inside": (x.node, 2), "label": "box"}),
        cause="the fields weren't converted, or are no keyword arguments",
        hint="`call_function` of the class, its fields as keyword arguments",
    )


DATACLASS = "the dataclass was put into the graph as an object, or as a dict of its fields"


# --- parameters, buffers, modules ---------------------------------------------------------------


@pytest.mark.parametrize("path", ["weight", "child.weight"])
def test_a_parameter_is_read_from_the_model(tracer, path):
    equal(
        target_of(tracer, tracer.root.get_parameter(path)),
        path,
        cause="only the root's own parameters were searched, or another one was taken for it",
        hint="the path of a parameter is the one that `named_parameters` gives",
    )


@pytest.mark.parametrize("path", ["mean", "child.mean"])
def test_a_buffer_is_read_from_the_model(tracer, path):
    equal(
        target_of(tracer, tracer.root.get_buffer(path)),
        path,
        cause="the buffer was taken for a constant, or only the root's own were searched",
        hint="look among the buffers before you make a constant",
    )


@pytest.mark.parametrize("path", ["table", "child.table"])
def test_a_tensor_attribute_is_read_from_the_model(tracer, path):
    equal(
        target_of(tracer, operator.attrgetter(path)(tracer.root)),
        path,
        cause="a tensor that hangs on a module without being a buffer became a constant",
        hint="such tensors lie in the `__dict__` of each module",
    )


def test_equal_parameters_are_told_apart(tracer):
    root = tracer.root
    root.weight.data.fill_(1.0)
    root.child.weight.data.fill_(1.0)
    equal(
        target_of(tracer, root.child.weight),
        "child.weight",
        cause="parameters were compared with `==`, by their numbers, instead of by identity",
        hint="compare with `is`, or index by `id`",
    )


def test_a_tied_parameter_is_read_under_its_first_name(tracer):
    equal(
        target_of(tracer, tracer.root.child.tied),
        "weight",
        cause="the last of two names was taken",
        hint="keep a name that is there already; torch takes the first registered name",
    )


def test_a_foreign_parameter_is_refused(tracer):
    with refuses(
        NameError,
        cause="a parameter that the model doesn't have became a constant of the graph",
        hint="raise NameError: a graph that holds it would train a parameter nobody sees",
    ):
        tracer.create_arg(nn.Parameter(torch.rand(2)))


def test_a_module_is_read_from_the_model(tracer):
    equal(
        target_of(tracer, tracer.root.child),
        "child",
        cause="a module given as an argument was put into the graph as an object",
        hint="a module is an attribute too: a get_attr node on its path",
    )


def test_a_parameter_registered_later_is_found(tracer):
    tracer.create_arg(tracer.root.weight)
    tracer.root.late = nn.Parameter(torch.rand(2))
    equal(
        target_of(tracer, tracer.root.late),
        "late",
        cause="the index knows only what was registered when it was built",
        hint="where a parameter isn't in the index, look once more before you refuse",
    )


def test_a_parameter_that_was_replaced_is_refused(tracer):
    old = tracer.root.weight
    tracer.create_arg(old)
    tracer.root.child.tied = tracer.root.weight = nn.Parameter(torch.rand(2))
    with refuses(
        NameError,
        cause="the index still holds a path that leads to another parameter by now",
        hint="check that the path in the index still leads to this parameter",
    ):
        tracer.create_arg(old)


def test_another_root_has_its_own_paths(tracer):
    child = tracer.root.child
    before = target_of(tracer, child.weight)
    tracer.root, tracer.tensor_attrs = child, {}
    equal(
        [before, target_of(tracer, child.weight)],
        ["child.weight", "weight"],
        cause="an index that was built for one root answered for another",
        hint="remember for which root the index was built",
    )


# --- constants ----------------------------------------------------------------------------------


def test_a_constant_is_kept_on_the_model(tracer):
    constant = torch.rand(3)
    path = target_of(tracer, constant)
    holds(
        path.startswith("_tensor_constant") and getattr(tracer.root, path) is constant,
        "an attribute `_tensor_constantN` of the root that is the tensor",
        got=path,
        cause="the tensor was named otherwise, copied, or not stored on the root",
        hint="a free name on the root, `setattr`, then a get_attr node",
    )


def test_a_constant_is_interned_once(tracer):
    constant = torch.rand(3)
    paths = [target_of(tracer, constant) for _ in range(3)]
    equal(
        len(set(paths)),
        1,
        cause=f"each use of one tensor made an attribute of its own: {', '.join(paths)}",
        hint="remember the path of each constant by identity",
    )


def test_a_constant_is_kept_on_each_root_that_uses_it(tracer):
    constant = torch.rand(3)
    target_of(tracer, constant)
    tracer.root, tracer.tensor_attrs = nn.Module(), {}
    path = target_of(tracer, constant)
    holds(
        getattr(tracer.root, path, None) is constant,
        "the tensor on the second root as well",
        got=path,
        cause="the path of a constant on one root was handed out for another",
        hint="remember for which root the constants were stored",
    )


def test_two_constants_with_equal_numbers_are_two(tracer):
    first, second = torch.ones(2), torch.ones(2)
    paths = [target_of(tracer, first), target_of(tracer, second)]
    holds(
        paths[0] != paths[1] and getattr(tracer.root, paths[1]) is second,
        "two attributes",
        got=paths,
        cause="constants were looked up by their numbers instead of by identity",
        hint="two tensors that happen to be equal may change apart",
    )


def test_a_constant_does_not_take_a_name_that_is_in_use(tracer):
    for number in range(3):
        tracer.root.register_buffer(f"_tensor_constant{number}", torch.zeros(1))
    constant = torch.rand(3)
    path = target_of(tracer, constant)
    holds(
        getattr(tracer.root, path) is constant and not tracer.root._tensor_constant0.any(),
        "a name that no attribute of the root has",
        got=path,
        cause="an attribute of the model was overwritten",
        hint="count on until `hasattr(self.root, name)` is false",
    )


def test_a_constant_lives_as_long_as_the_graph(tracer):
    path = target_of(tracer, torch.full((2,), 7.0))
    equal(
        getattr(tracer.root, path).tolist(),
        [7.0, 7.0],
        cause="the tensor wasn't stored, so that nothing keeps it alive",
        hint="`setattr(self.root, path, a)`",
    )


@pytest.mark.stretch
def test_a_tree_spec_is_a_constant_too(tracer):
    spec = torch.utils._pytree.tree_structure([1, {"a": 2}])
    with noting(cause=INTERNED, hint=INTERNED_HINT):
        path = target_of(tracer, spec)
    holds(
        path.startswith("_tree_spec_constant") and getattr(tracer.root, path) == spec,
        "an attribute `_tree_spec_constantN` of the root",
        got=path,
        cause=INTERNED,
        hint=INTERNED_HINT,
    )


INTERNED = "only tensors are kept on the root; `TracerBase` doesn't know what else can be"
INTERNED_HINT = "torch interns pytree specifications and script objects as well"


class Switch(metaclass=torch.fx.ProxyableClassMeta):
    """A class whose construction can be recorded; this instance was made before the trace."""

    def __init__(self, on: bool):
        self.on = on


@pytest.mark.stretch
def test_an_instance_of_a_proxyable_class_is_a_constant(tracer):
    switch = Switch(on=True)
    with noting(cause=PROXYABLE, hint=PROXYABLE_HINT):
        path = target_of(tracer, switch)
    holds(
        path.startswith("_Switch_constant_") and getattr(tracer.root, path) is switch,
        "an attribute `_Switch_constant_N` of the root",
        got=path,
        cause=PROXYABLE,
        hint=PROXYABLE_HINT,
    )


PROXYABLE = "an instance that was made before the trace cannot be rebuilt by a node"
PROXYABLE_HINT = "see `torch.fx.ProxyableClassMeta`: keep the object on the root"


# --- what is refused ----------------------------------------------------------------------------


class Unknown:
    """A class that nobody told the tracer about."""


@pytest.mark.parametrize(
    "value", [Unknown(), [Unknown()], {"a": {1, 2}}], ids=["plain", "in a list", "set in a dict"]
)
def test_an_unknown_type_is_refused_by_its_name(tracer, value):
    name = "set" if isinstance(value, dict) else "Unknown"
    with refuses(
        NotImplementedError,
        name,
        cause="an object that generated code cannot print went into the graph",
        hint="hand what you don't know to `super().create_arg(a)`, which refuses it",
    ):
        tracer.create_arg(value)


def test_a_proxy_as_a_key_of_a_dict_is_refused(tracer):
    x = proxy(tracer)
    with refuses(
        RuntimeError,
        "Node",
        cause="a dict was rebuilt by hand with nodes as keys",
        hint="keys must be known while tracing; `super().create_arg(a)` checks them",
    ):
        tracer.create_arg({x: 1})


# --- inside the real engine ---------------------------------------------------------------------

IN_THE_ENGINE = [
    "EveryOpcode",
    "KeywordArguments",
    "NestedContainers",
    "SliceByProxy",
    "NamedTuples",
    "Dataclasses",
    "PlainValues",
    "Buffers",
    "ParametersWithoutForward",
    "ReturnsStructure",
]


@pytest.mark.parametrize("name", IN_THE_ENGINE)
def test_a_trace_with_it_is_the_trace_of_torch(lesson, name):
    plugged = type("Plugged", (own(lesson.CreateArg, "create_arg"), torch.fx.Tracer), {})()
    same_graph(
        plugged.trace(zoo.SMALL[name]().model), torch.fx.Tracer().trace(zoo.SMALL[name]().model)
    )


def test_constants_of_a_trace_hold_the_tensors_of_torch(lesson):
    traces = []
    for first in (own(lesson.CreateArg, "create_arg"), torch.fx.Tracer):
        model = zoo.SMALL["Constants"]().model
        graph = type(
            "Plugged", (first, torch.fx.Tracer) if first is not torch.fx.Tracer else (first,), {}
        )().trace(model)
        reads = [operator.attrgetter(n.target)(model) for n in graph.nodes if n.op == "get_attr"]
        traces.append([tensor.tolist() for tensor in reads])
    equal(
        traces[0],
        traces[1],
        cause="a constant was left out, read twice, or holds other numbers",
        hint="compare `graph.print_tabular()` with torch's",
    )


class ManyTensors(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.weights = nn.ParameterList(torch.zeros(1) for _ in range(size))
        for number in range(size):
            self.register_buffer(f"buffer{number}", torch.zeros(1))


def steps_for(lesson, tensors: Callable[[nn.Module], Iterator[torch.Tensor]]):
    def work(size: int) -> Callable[[], object]:
        model = ManyTensors(size)
        tracer, wanted = tracer_at(lesson, model, TracerBase), list(tensors(model))
        return lambda: [tracer.create_arg(tensor) for tensor in wanted]

    return work


@pytest.mark.beyond("torch scans all parameters, or all buffers, for each one")
@pytest.mark.parametrize("tensors", [nn.Module.parameters, nn.Module.buffers])
def test_a_tensor_costs_the_same_in_a_large_model(lesson, tensors):
    factor = growth(steps_for(lesson, tensors), 200)
    holds(
        factor < LINEAR,
        "twice the steps for twice the tensors",
        got=f"{factor:.1f} times the steps",
        cause="every call searches all of them (a linear scan a call)",
        hint="walk the modules once a root, remember `id(tensor) -> path`, then look it up",
    )


@pytest.mark.stretch
def test_a_constant_costs_the_same_after_many(lesson):
    def work(size: int) -> Callable[[], object]:
        tracer = tracer_at(lesson, Model(), TracerBase)
        constants = [torch.zeros(1) for _ in range(size)]
        return lambda: [tracer.create_arg(constant) for constant in constants]

    factor = growth(work, 100)
    holds(
        factor < LINEAR,
        "twice the steps for twice the constants",
        got=f"{factor:.1f} times the steps",
        cause="each constant counts its name up from zero, or rebuilds the index",
        hint="remember where you stopped counting",
    )
