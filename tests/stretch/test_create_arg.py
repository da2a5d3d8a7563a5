"""``create_arg``: models that change, other constants, constant time."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch._library.fake_class_registry import FakeScriptObject
from torch._library.opaque_object import register_opaque_type
from torch._opaque_base import OpaqueBase
from torch.fx.proxy import TracerBase
from torch.utils._pytree import tree_structure

from tests import zoo
from tests.models.create_arg import (
    ManyTensors,
    Model,
    Sum,
    Tables,
    is_constant,
    is_refused,
    kept_on_the_root,
    plugged,
    target_of,
    tracer_at,
)
from tests.models.subclass import likely_names
from tests.suite import equal, growth, holds, is_value, noting, refuses, same_graph

LINEAR = 2.5


@pytest.fixture(params=[torch.fx.Tracer, TracerBase], ids=["on_tracer", "on_tracer_base"])
def tracer(request, lesson):
    """A tracer with the lesson's method in front, a root and an empty graph."""
    return tracer_at(lesson, Model(), request.param)


def test_a_parameter_registered_later_is_found(tracer):
    tracer.create_arg(tracer.root.weight)
    tracer.root.late = nn.Parameter(torch.rand(2))
    equal(target_of(tracer, tracer.root.late), "late", cause=(is_refused, LATE))


def test_a_buffer_registered_later_is_found(tracer):
    tracer.create_arg(tracer.root.mean)
    tracer.root.register_buffer("late", torch.rand(2))
    equal(target_of(tracer, tracer.root.late), "late", cause=(is_constant, LATE))


def test_two_constants_that_share_their_memory_are_two(tracer):
    whole = torch.rand(4)
    paths = [target_of(tracer, tensor) for tensor in (whole, whole[:2], whole.view(2, 2))]
    equal(
        len(set(paths)),
        3,
        cause=(lambda different: different < 3, "tensors were told apart by their memory"),
    )


def test_a_module_registered_later_is_found(tracer):
    tracer.create_arg(tracer.root.child)
    tracer.root.late = nn.Tanh()
    with noting(cause=LATE, on=(NotImplementedError,)):
        equal(target_of(tracer, tracer.root.late), "late")


LATE = "what was registered after the first lookup is not known"


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
        cause=(is_value("mean"), "the answer is a path that leads to another buffer by now"),
    )


def test_a_parameter_that_was_replaced_is_refused(tracer):
    old = tracer.root.weight
    tracer.create_arg(old)
    tracer.root.child.tied = tracer.root.weight = nn.Parameter(torch.rand(2))
    got = target_of(tracer, old)
    holds(
        is_refused(got),
        "NameError",
        got=got,
        cause=(is_value("weight"), "the answer is a path that leads to another parameter by now"),
    )


@pytest.mark.parametrize("removed", ["scale", "outer"])
def test_a_parameter_that_was_removed_is_refused(tracer, removed):
    tracer.root.outer = nn.Sequential(nn.Sequential(nn.Linear(2, 2)))
    tracer.root.scale = nn.Parameter(torch.rand(2))
    old = {"scale": tracer.root.scale, "outer": tracer.root.outer[0][0].weight}[removed]
    target_of(tracer, old)
    delattr(tracer.root, removed)
    got = target_of(tracer, old)
    holds(
        is_refused(got),
        "NameError",
        got=got,
        cause=(lambda got: isinstance(got, str), "the answer is a path that leads nowhere"),
    )


def test_a_second_trace_sees_what_the_model_has_by_then(lesson):
    tracer = plugged(lesson)
    model = Sum()
    model.early = torch.rand(2)
    tracer.trace(model)
    model.late = torch.rand(2)
    equal(
        [node.target for node in tracer.trace(model).find_nodes(op="get_attr")],
        ["early", "late"],
        cause=(is_value(["early", "_tensor_constant0"]), COLLECTED),
    )


COLLECTED = "the tensors of the model were collected once, for all traces"


COLLECTED_HINT = (
    "collect them anew where `self.graph` is another one; torch's `Tracer` fills `tensor_attrs` "
    "itself, with tensors as keys"
)


def test_constants_are_numbered_from_zero(tracer):
    equal(
        [target_of(tracer, torch.rand(1)) for _ in range(3)],
        ["_tensor_constant0", "_tensor_constant1", "_tensor_constant2"],
    )


def test_a_model_with_a_cycle_has_constants_too(tracer):
    tracer.root.child.inner.parent = tracer.root
    constant = torch.rand(3)
    equal(getattr(tracer.root, target_of(tracer, constant)) is constant, True)


def test_of_several_paths_to_a_tensor_the_last_is_taken(lesson):
    same_graph(plugged(lesson).trace(Tables()), torch.fx.Tracer().trace(Tables()))


class Handle(OpaqueBase):
    """A class of which torch is told that its objects are passed on and never looked into."""


register_opaque_type(Handle, typ="reference")


FETCHED = {
    "_tree_spec_constant": lambda: tree_structure([1, {"a": 2}]),
    "_torchbind_obj": lambda: torch.classes.profiling._ScriptProfile(),
    "_torchbind_obj of a fake": lambda: FakeScriptObject(Handle(), "Handle", Handle()),
    "_opaque_obj": Handle,
}


@pytest.mark.parametrize("kind", FETCHED)
def test_an_object_that_can_only_be_fetched_is_a_constant_too(tracer, kind):
    with noting(cause=INTERNED):
        kept_on_the_root(tracer, FETCHED[kind](), kind.split()[0])


INTERNED = "`TracerBase` doesn't know the objects that can be fetched and aren't tensors"


INTERNED_HINT = "torch interns pytree specifications, script and opaque objects as well"


def test_equal_tree_specs_are_one_constant(tracer):
    with noting(cause=INTERNED):
        paths = [target_of(tracer, tree_structure([1, {"a": 2}])) for _ in range(2)]
    equal(len(set(paths)), 1)


class Switch(metaclass=torch.fx.ProxyableClassMeta):
    """A class whose construction can be recorded; this instance was made before the trace."""

    def __init__(self, on: bool):
        self.on = on


def test_an_instance_of_a_proxyable_class_is_a_constant(tracer):
    kept_on_the_root(tracer, Switch(on=True), "_Switch_constant_")


PROXYABLE_HINT = "see `torch.fx.ProxyableClassMeta`: keep the object on the root"


@pytest.mark.beyond("torch says that the parameter is not a member of this module")
def test_the_refusal_of_a_parameter_names_its_shape_and_the_class_of_the_root(tracer):
    with refuses(NameError, "(7, 3)", "Model"):
        tracer.create_arg(nn.Parameter(torch.rand(7, 3)))


@pytest.mark.beyond("torch remembers what it found when the trace began, and reads the new tensor")
def test_a_tensor_whose_attribute_was_replaced_is_a_constant(tracer):
    old = tracer.root.table
    tracer.create_arg(old)
    tracer.root.table = old.clone()
    path = target_of(tracer, old)
    holds(
        operator.attrgetter(path)(tracer.root) is old,
        "a path that leads to this very tensor",
        got=path,
        cause=(is_value("table"), "a remembered path leads to another tensor by now"),
    )


class NameTaken(nn.Module):
    """Has a parameter under the name that the first constant would get."""

    def __init__(self):
        super().__init__()
        self._tensor_constant0 = nn.Parameter(torch.rand(2))

    def forward(self, x):
        return x + torch.ones(2)


@pytest.mark.beyond("torch asks `hasattr`, which makes a node where a parameter has the name")
def test_the_search_for_a_free_name_is_not_recorded(lesson):
    equal(
        [node.target for node in plugged(lesson).trace(NameTaken()).find_nodes(op="get_attr")],
        ["_tensor_constant1"],
        cause=(
            lambda got: "_tensor_constant0" in got,
            "asking the model for an attribute was recorded: an unused node reads it",
        ),
    )


@pytest.mark.unasked
def test_helper_names_are_free_for_subclasses(lesson):
    tracer = type("Subclass", (type(plugged(lesson)),), likely_names())()
    same_graph(
        tracer.trace(zoo.SMALL["EveryOpcode"]().model),
        torch.fx.Tracer().trace(zoo.SMALL["EveryOpcode"]().model),
    )


def steps_for(lesson, tensors: Callable[[nn.Module], Iterator[torch.Tensor]]):
    def work(size: int) -> Callable[[], object]:
        model = ManyTensors(size)
        tracer, wanted = tracer_at(lesson, model, TracerBase), list(tensors(model))
        return lambda: [tracer.create_arg(tensor) for tensor in wanted]

    return work


@pytest.mark.beyond("torch scans all parameters for each one")
@pytest.mark.parametrize("tensors", [nn.Module.parameters, nn.Module.buffers])
def test_a_tensor_costs_the_same_in_a_large_model(lesson, tensors):
    factor = growth(steps_for(lesson, tensors), 200)
    holds(
        factor < LINEAR,
        "twice the steps for twice the tensors",
        got=f"{factor:.1f} times the steps",
    )


@pytest.mark.beyond("outside of a trace torch searches all modules for each one")
def test_a_module_costs_the_same_in_a_large_model(lesson):
    def work(size: int) -> Callable[[], object]:
        model = nn.Sequential(*(nn.Identity() for _ in range(size)))
        tracer, wanted = tracer_at(lesson, model, torch.fx.Tracer), list(model)
        return lambda: [tracer.create_arg(module) for module in wanted]

    factor = growth(work, 100)
    holds(
        factor < LINEAR,
        "twice the steps for twice the modules",
        got=f"{factor:.1f} times the steps",
    )


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
    )
