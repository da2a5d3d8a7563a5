"""``create_arg``: your mixin in front of torch's own ``Tracer``, and on a bare ``TracerBase``."""

from __future__ import annotations

import enum
import operator
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch._library.fake_class_registry import FakeScriptObject
from torch._library.opaque_object import register_opaque_type
from torch._opaque_base import OpaqueBase
from torch.fx import Graph, Node
from torch.fx.proxy import Scope, TracerBase
from torch.utils._pytree import tree_structure

from tests import zoo
from tests.suite import (
    barred,
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
        self.child.inner = nn.Module()
        self.child.inner.table = torch.rand(2)
        self.child.tied = self.weight

    def forward(self, x):
        return x


@pytest.fixture(params=[torch.fx.Tracer, TracerBase], ids=["on_tracer", "on_tracer_base"])
def tracer(request, lesson):
    """A tracer with the lesson's method in front, a root and an empty graph."""
    return tracer_at(lesson, Model(), request.param)


def tracer_at(lesson, root: nn.Module, base: type[TracerBase] = torch.fx.Tracer) -> TracerBase:
    return standing(type("Plugged", (own(lesson.CreateArg, "create_arg"), base), {})(), root)


def standing(tracer: TracerBase, root: nn.Module) -> TracerBase:
    """The tracer, as a trace of ``root`` would set it up."""
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

    tracer = standing(Doubling(), Model())
    equal(tracer.create_arg([1, {"a": (2,)}]), [2, {"a": (4,)}], cause=PRIVATE, hint=PRIVATE_HINT)
    equal(tracer.create_arg(Point(1, 2)).args, (2, 4), cause=PRIVATE, hint=PRIVATE_HINT)


PRIVATE = "elements were converted by a function of yours instead of `self.create_arg`"
PRIVATE_HINT = "call `self.create_arg(element)`, so that subclasses have their say"


def test_a_node_is_made_by_the_most_derived_method(lesson):
    class Counting(own(lesson.CreateArg, "create_arg"), torch.fx.Tracer):
        def create_node(self, kind, target, args, kwargs, *rest, **options) -> Node:
            made.append((kind, len(args) + len(kwargs)))
            return super().create_node(kind, target, args, kwargs, *rest, **options)

    made: list[tuple[str, int]] = []
    tracer, root = standing(Counting(), model := Model()), model
    tracer.create_arg([root.weight, root.mean, root.child, torch.rand(1), Point(1, 2)])
    equal(
        made,
        [("get_attr", 0)] * 4 + [("call_function", 2)],
        cause="nodes were made by the graph, behind the tracer's back",
        hint="`self.create_node(op, target, args, kwargs)`, so that subclasses have their say",
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


@pytest.mark.parametrize("path", ["table", "child.table", "child.inner.table"])
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


def test_equal_buffers_are_told_apart(tracer):
    root = tracer.root
    root.mean.fill_(1.0)
    root.child.mean.fill_(1.0)
    equal(
        target_of(tracer, root.child.mean),
        "child.mean",
        cause="buffers were compared by their numbers instead of by identity",
        hint="compare with `is`, or index by `id`",
    )


class Marked(nn.Parameter):
    """A parameter of a class of its own."""


def test_a_parameter_of_another_class_is_a_parameter(tracer):
    tracer.root.marked = Marked(torch.rand(2))
    equal(
        target_of(tracer, tracer.root.marked),
        "marked",
        cause="only the class `Parameter` itself was taken for a parameter",
        hint="`isinstance` asks for subclasses too",
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


def test_a_foreign_parameter_in_the_memory_of_another_is_refused(tracer):
    with refuses(
        NameError,
        cause="parameters were compared by the memory they lie in, instead of by identity",
        hint="two parameters may share their memory: compare with `is`, or index by `id`",
    ):
        tracer.create_arg(nn.Parameter(tracer.root.weight.data))


@pytest.mark.beyond("torch says only that the parameter is not a member of this module")
def test_the_refusal_of_a_parameter_names_its_shape_and_the_class_of_the_root(tracer):
    with refuses(
        NameError,
        "(7, 3)",
        "Model",
        cause="the message doesn't say which parameter was looked for, and where",
        hint="name `tuple(a.shape)` and `type(self.root).__name__`",
    ):
        tracer.create_arg(nn.Parameter(torch.rand(7, 3)))


@pytest.mark.parametrize("path", ["child", "child.inner"])
def test_a_module_is_read_from_the_model(tracer, path):
    equal(
        target_of(tracer, tracer.root.get_submodule(path)),
        path,
        cause="a module given as an argument was put into the graph as an object, or another one "
        "was taken for it",
        hint="a module is an attribute too: a get_attr node on its path",
    )


def test_a_foreign_module_is_refused(tracer):
    before = [*tracer.root.modules()]
    with refuses((NotImplementedError, NameError), "Tanh", cause=FOREIGN, hint=FOREIGN_HINT):
        tracer.create_arg(nn.Tanh())
    equal([*tracer.root.modules()], before, cause=FOREIGN, hint=FOREIGN_HINT)


FOREIGN = "a module that the root doesn't hold went into the graph, or became a part of the model"
FOREIGN_HINT = "hand it to `super().create_arg(a)`, which refuses it"


def test_the_conversion_is_your_own(lesson):
    tracer = tracer_at(lesson, Model(), TracerBase)
    with barred(torch.fx.Tracer, "create_arg"):
        paths = [target_of(tracer, tracer.root.child.mean), target_of(tracer, torch.rand(1))]
    equal(paths[0], "child.mean", cause="the buffer was taken for a constant")


def test_every_use_has_a_node_of_its_own(tracer):
    constant = torch.rand(1)
    nodes = [tracer.create_arg(value) for value in (tracer.root.weight, constant) * 2]
    equal(
        len({id(node) for node in nodes}),
        4,
        cause="a node was kept and handed out again: it may stand behind its next user, or in "
        "another graph",
        hint="remember paths, and make a node for each use",
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


def test_a_buffer_registered_later_is_found(tracer):
    tracer.create_arg(tracer.root.mean)
    tracer.root.register_buffer("late", torch.rand(2))
    equal(target_of(tracer, tracer.root.late), "late", cause=LATE, hint=LATE_HINT)


def test_a_module_registered_later_is_found(tracer):
    tracer.create_arg(tracer.root.child)
    tracer.root.late = nn.Tanh()
    with noting(cause=LATE, hint=LATE_HINT, on=(NotImplementedError,)):
        equal(target_of(tracer, tracer.root.late), "late", cause=LATE, hint=LATE_HINT)


LATE = "the index knows only what was registered when it was built"
LATE_HINT = "where a value isn't in the index, look once more before you give up"


def test_a_buffer_that_was_replaced_is_a_constant(tracer):
    old = tracer.root.mean
    tracer.create_arg(old)
    tracer.root.mean = torch.rand(2)
    path = target_of(tracer, old)
    holds(
        operator.attrgetter(path)(tracer.root) is old,
        "a path that leads to this very tensor",
        got=path,
        cause="the index still holds a path that leads to another buffer by now",
        hint="check that the path in the index still leads to this tensor",
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
    before = [target_of(tracer, value) for value in (child.weight, child.table)]
    tracer.root, tracer.tensor_attrs = child, {}
    equal(
        [*before, *(target_of(tracer, value) for value in (child.weight, child.table))],
        ["child.weight", "child.table", "weight", "table"],
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


class Named(torch.Tensor):
    """A tensor of a class of its own."""


UNUSUAL = {
    "without dimensions": lambda model: torch.tensor(2.0),
    "with a gradient": lambda model: torch.rand(3, requires_grad=True),
    "of a subclass": lambda model: torch.rand(3).as_subclass(Named),
    "in the memory of a parameter": lambda model: model.weight.detach(),
    "in the memory of a buffer": lambda model: model.mean.view(2),
    "without elements": lambda model: torch.rand(0),
}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_an_unusual_tensor_is_a_constant_too(tracer, kind):
    kept_on_the_root(
        tracer, UNUSUAL[kind](tracer.root), "_tensor_constant", cause=KIND, hint=KIND_HINT
    )


def kept_on_the_root(tracer, value: object, name: str, cause: str, hint: str) -> None:
    with noting(cause=cause, hint=hint):
        path = target_of(tracer, value)
    holds(
        path.startswith(name) and getattr(tracer.root, path) is value,
        f"an attribute `{name}N` of the root that is the value itself",
        got=path,
        cause=cause,
        hint=hint,
    )


KIND = "only tensors of a certain kind were kept, or another one was taken for it"
KIND_HINT = "any `torch.Tensor` that the root doesn't hold is a constant, as it is"


def test_a_constant_is_no_part_of_the_state(tracer):
    def state() -> list[str]:
        model = tracer.root
        return [*model.state_dict(), *dict(model.named_buffers()), *dict(model.named_parameters())]

    before = state()
    target_of(tracer, torch.rand(3))
    target_of(tracer, torch.rand(3, requires_grad=True))
    equal(
        [name for name in state() if name not in before],
        [],
        cause="a constant was registered, so that it is saved and loaded with the model",
        hint="an ordinary attribute will do: `setattr(self.root, path, a)`",
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


def test_two_tracers_keep_their_constants_apart(lesson):
    constant = torch.rand(3)
    for tracer in (tracer_at(lesson, Model(), TracerBase), tracer_at(lesson, Model(), TracerBase)):
        path = target_of(tracer, constant)
        holds(
            getattr(tracer.root, path, None) is constant,
            "the tensor on the root of each tracer",
            got=path,
            cause="what one tracer stored was remembered for all, in a dict of the class",
            hint="make the dict for each tracer and root, on `self`",
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


IN_USE = {
    "buffer": lambda root: root.register_buffer("_tensor_constant0", torch.zeros(1)),
    "parameter": lambda root: setattr(root, "_tensor_constant0", nn.Parameter(torch.zeros(1))),
    "module": lambda root: setattr(root, "_tensor_constant0", nn.Tanh()),
    "attribute": lambda root: setattr(root, "_tensor_constant0", "text"),
    "attribute of the class": lambda root: None,
}


class ModelOfItsClass(Model):
    _tensor_constant0 = "text"


@pytest.mark.parametrize("kind", IN_USE)
def test_a_constant_does_not_take_a_name_that_is_in_use(tracer, kind):
    tracer.root = root = ModelOfItsClass() if kind == "attribute of the class" else Model()
    IN_USE[kind](root)
    before, constant = root._tensor_constant0, torch.rand(3)
    path = target_of(tracer, constant)
    holds(
        getattr(root, path) is constant and root._tensor_constant0 is before,
        "a name that no attribute of the root has",
        got=path,
        cause="an attribute of the model was overwritten",
        hint="count on until `hasattr(self.root, name)` is false",
    )


def test_a_constant_skips_each_name_that_is_in_use(tracer):
    for number in range(4):
        tracer.root.register_buffer(f"_tensor_constant{number}", torch.zeros(1))
    constant = torch.ones(1)
    path = target_of(tracer, constant)
    holds(
        getattr(tracer.root, path) is constant
        and not any(buffer.any() for name, buffer in tracer.root.named_buffers() if "_" in name),
        "a name that no attribute of the root has",
        got=path,
        cause="the number was taken from the count of constants: an attribute was overwritten",
        hint="count on until `hasattr(self.root, name)` is false",
    )


@pytest.mark.stretch
def test_constants_are_numbered_from_zero(tracer):
    equal(
        [target_of(tracer, torch.rand(1)) for _ in range(3)],
        ["_tensor_constant0", "_tensor_constant1", "_tensor_constant2"],
        cause="numbers were left out, or went on from another model",
        hint="each root counts from zero, and takes the lowest number that is free",
    )


@pytest.mark.beyond("torch remembers what it found when the trace began, and doesn't look again")
def test_a_tensor_whose_attribute_was_replaced_is_a_constant(tracer):
    old = tracer.root.table
    tracer.create_arg(old)
    tracer.root.table = old.clone()
    path = target_of(tracer, old)
    holds(
        operator.attrgetter(path)(tracer.root) is old,
        "a path that leads to this very tensor",
        got=path,
        cause="a remembered path leads to another tensor by now",
        hint="see whether the path still leads to the tensor; if not, it is a constant",
    )


@pytest.mark.stretch
def test_a_model_with_a_cycle_has_constants_too(tracer):
    tracer.root.child.inner.parent = tracer.root
    constant = torch.rand(3)
    equal(
        getattr(tracer.root, target_of(tracer, constant)) is constant,
        True,
        cause="the search for tensors in attributes walks round the cycle",
        hint="go into each module once",
    )


def test_a_constant_lives_as_long_as_the_graph(tracer):
    path = target_of(tracer, torch.full((2,), 7.0))
    equal(
        getattr(tracer.root, path).tolist(),
        [7.0, 7.0],
        cause="the tensor wasn't stored, so that nothing keeps it alive",
        hint="`setattr(self.root, path, a)`",
    )


class Handle(OpaqueBase):
    """A class of which torch is told that its objects are passed on and never looked into."""


register_opaque_type(Handle, typ="reference")

# Each kind, with the name under which it is stored.
FETCHED = {
    "_tree_spec_constant": lambda: tree_structure([1, {"a": 2}]),
    "_torchbind_obj": lambda: torch.classes.profiling._ScriptProfile(),
    "_torchbind_obj of a fake": lambda: FakeScriptObject(Handle(), "Handle", Handle()),
    "_opaque_obj": Handle,
}


@pytest.mark.stretch
@pytest.mark.parametrize("kind", FETCHED)
def test_an_object_that_can_only_be_fetched_is_a_constant_too(tracer, kind):
    value = FETCHED[kind]()
    with noting(cause=INTERNED, hint=INTERNED_HINT):
        path = target_of(tracer, value)
    holds(
        path.startswith(kind.split()[0]) and getattr(tracer.root, path) is value,
        f"an attribute `{kind.split()[0]}N` of the root",
        got=path,
        cause=INTERNED,
        hint=INTERNED_HINT,
    )


INTERNED = "only tensors are kept on the root; `TracerBase` doesn't know what else can be"
INTERNED_HINT = "torch interns pytree specifications, script and opaque objects as well"


@pytest.mark.stretch
def test_equal_tree_specs_are_one_constant(tracer):
    with noting(cause=INTERNED, hint=INTERNED_HINT):
        paths = [target_of(tracer, tree_structure([1, {"a": 2}])) for _ in range(2)]
    equal(
        len(set(paths)),
        1,
        cause="two specifications that say the same were stored twice",
        hint="the key of the dict is the specification itself, which compares by what it says",
    )


class Switch(metaclass=torch.fx.ProxyableClassMeta):
    """A class whose construction can be recorded; this instance was made before the trace."""

    def __init__(self, on: bool):
        self.on = on


@pytest.mark.stretch
def test_an_instance_of_a_proxyable_class_is_a_constant(tracer):
    kept_on_the_root(
        tracer, Switch(on=True), "_Switch_constant_", cause=PROXYABLE, hint=PROXYABLE_HINT
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


class Tables(nn.Module):
    """Tensors as attributes of modules that have several paths; a name without a module."""

    def __init__(self):
        super().__init__()
        shared, doubled = nn.Identity(), nn.Identity()
        shared.table, doubled.table = torch.rand(2), torch.rand(2)
        self.first, self.second = nn.Sequential(shared), nn.Sequential(nn.Sequential(shared))
        self.third = self.fourth = doubled
        self.register_module("nothing", None)
        self.one = self.other = torch.rand(2)

    def forward(self, x):
        return x + self.first[0].table + self.third.table + self.one


@pytest.mark.stretch
def test_of_several_paths_to_a_tensor_the_last_is_taken(lesson):
    plugged = type("Plugged", (own(lesson.CreateArg, "create_arg"), torch.fx.Tracer), {})()
    same_graph(
        plugged.trace(Tables()),
        torch.fx.Tracer().trace(Tables()),
        cause="a tensor that hangs on a module with several paths is read by another one",
        hint="torch goes down every path in order, and lets the last one win",
    )


class Sum(nn.Module):
    """Adds up the tensors that hang on it."""

    def forward(self, x):
        return sum((value for value in vars(self).values() if torch.is_tensor(value)), start=x)


def test_a_second_trace_sees_what_the_model_has_by_then(lesson):
    plugged = type("Plugged", (own(lesson.CreateArg, "create_arg"), torch.fx.Tracer), {})()
    model = Sum()
    model.early = torch.rand(2)
    plugged.trace(model)
    model.late = torch.rand(2)
    with noting(cause=COLLECTED, hint=COLLECTED_HINT, on=(RuntimeError,)):
        graph = plugged.trace(model)
    equal(
        [node.target for node in graph.find_nodes(op="get_attr")],
        ["early", "late"],
        cause=COLLECTED,
        hint=COLLECTED_HINT,
    )


COLLECTED = "the tensors of the model were collected once, or under keys that are no tensors"
COLLECTED_HINT = (
    "collect them anew where `self.graph` is another one; torch's `Tracer` fills `tensor_attrs` "
    "itself, with tensors as keys"
)


def random_value(chance: random.Random, tracer: TracerBase, depth: int) -> object:
    """A value of any kind that a trace may meet, with others inside."""
    root = tracer.root
    parts = [random_value(chance, tracer, depth - 1) for _ in range(depth and chance.randint(0, 3))]
    plain = [0, True, -1.5, "text", None, ..., torch.float16, Mode.FAST, torch.Size([1, 2])]
    held = [root.weight, root.child.weight, root.mean, root.child.mean, root.child, root.table]
    nests = [parts, tuple(parts), dict(enumerate(parts)), slice(0, *parts[:1], 1)]
    pair = Point(*parts[:2]) if len(parts) > 1 else Box(parts)
    return chance.choice([*nests, pair] * 2 + [chance.choice(plain), chance.choice(held)])


@pytest.mark.parametrize("seed", range(10))
def test_random_values_become_the_nodes_of_torch(lesson, seed):
    tracers = [tracer_at(lesson, Model()), standing(torch.fx.Tracer(), Model())]
    for tracer in tracers:
        chance, x = random.Random(seed), proxy(tracer)
        tracer.tensor_attrs = {tracer.root.table: "table"}
        for _ in range(10):
            tracer.create_proxy("call_function", print, (x, random_value(chance, tracer, 3)), {})
    same_graph(tracers[0].graph, tracers[1].graph)


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
