"""``create_arg``: models that change, other constants, constant time."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.fx.proxy import TracerBase
from torch.utils._pytree import tree_structure

from tests import zoo
from tests.models.create_arg import (
    ManyTensors,
    Model,
    is_refused,
    kept_on_the_root,
    plugged,
    target_of,
    tracer_at,
)
from tests.suite import equal, holds, is_linear, is_value, noting, refuses, same_graph


@pytest.fixture(params=[torch.fx.Tracer, TracerBase], ids=["on_tracer", "on_tracer_base"])
def tracer(request, lesson):
    """A tracer with the lesson's method in front, a root and an empty graph."""
    return tracer_at(lesson, Model(), request.param)


# --- models that change ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [lambda: nn.Parameter(torch.rand(2)), lambda: nn.Buffer(torch.rand(2)), nn.Tanh],
    ids=["parameter", "buffer", "module"],
)
def test_a_value_registered_later_is_found(tracer, make):
    tracer.create_arg(tracer.root.weight)
    tracer.root.late = make()
    late = "what was registered after the first lookup is not known"
    with noting(cause=late, on=(NotImplementedError,)):
        got = target_of(tracer, tracer.root.late)
    equal(got, "late", cause=(lambda got: got != "late", late))


def test_a_buffer_that_was_replaced_is_a_constant(tracer):
    old = tracer.root.mean
    tracer.create_arg(old)
    tracer.root.mean = torch.rand(2)
    leads_to_itself(tracer, old, "mean")


def leads_to_itself(tracer, tensor: torch.Tensor, old_path: str) -> None:
    path = target_of(tracer, tensor)
    holds(
        operator.attrgetter(path)(tracer.root) is tensor,
        "a path that leads to this very tensor",
        got=path,
        cause=(is_value(old_path), "the answer is a path that leads to another tensor by now"),
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


def test_a_parameter_whose_owner_was_removed_is_refused(tracer):
    old = tracer.root.child.weight
    tracer.create_arg(old)
    del tracer.root.child
    got = target_of(tracer, old)
    holds(
        is_refused(got),
        "NameError",
        got=got,
        cause=(is_value("child.weight"), "the answer is a path that leads nowhere"),
    )


@pytest.mark.beyond("torch remembers what it found when the trace began, and reads the new tensor")
def test_a_tensor_whose_attribute_was_replaced_is_a_constant(tracer):
    old = tracer.root.table
    tracer.create_arg(old)
    tracer.root.table = old.clone()
    leads_to_itself(tracer, old, "table")


def test_if_there_are_several_paths_to_a_tensor_attribute_the_last_counts(lesson):
    inner = zoo.Constants()
    tracers = plugged(lesson), torch.fx.Tracer()
    same_graph(*(tracer.trace(torch.nn.Sequential(inner, inner)) for tracer in tracers))


# --- other constants, names, errors ---------------------------------------------------------------


def test_a_script_object_is_a_constant(tracer):
    with noting(cause="`TracerBase` doesn't know script objects"):
        kept_on_the_root(tracer, torch.classes.profiling._ScriptProfile(), "_torchbind_obj")


def test_a_spec_of_a_container_is_a_constant(tracer):
    with noting(cause="`TracerBase` doesn't know them"):
        kept_on_the_root(tracer, tree_structure([1, {"key": 2}]), "_tree_spec_constant")


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_the_owner_of_a_script_method_is_what_the_model_holds(lesson):
    model = Model()
    model.child.scripted = torch.jit.script(nn.ReLU())
    held, method = model.child.scripted._c, model.child.scripted.forward
    tracer = tracer_at(lesson, model)
    tracer.tensor_attrs = {held: "child.scripted._c"}  # as a trace of torch's begins
    for _ in range(2):
        path = target_of(tracer, method.owner)  # a new object each time
        equal(path, "child.scripted._c", cause=(is_value("_torchbind_obj0"), "compare with `==`"))


def test_a_script_object_that_the_model_holds_is_read_from_there(lesson):
    model = Model()
    model.child.profiler = torch.classes.profiling._ScriptProfile()
    tracer = tracer_at(lesson, model)
    tracer.tensor_attrs = {model.child.profiler: "child.profiler"}  # as a trace of torch's begins
    equal(target_of(tracer, model.child.profiler), "child.profiler")


class Switch(metaclass=torch.fx.ProxyableClassMeta):
    """A class whose construction can be recorded; this instance was made before the trace."""

    def __init__(self, on: bool):
        self.on = on


def test_an_instance_of_a_proxyable_class_is_a_constant(tracer):
    kept_on_the_root(tracer, Switch(on=True), "_Switch_constant_")


@pytest.mark.beyond("torch says that the parameter is not a member of this module")
def test_the_error_for_a_foreign_parameter_names_its_shape_and_the_class_of_the_root(tracer):
    with refuses(NameError, "(7, 3)", "Model"):
        tracer.create_arg(nn.Parameter(torch.rand(7, 3)))


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


# --- cost -----------------------------------------------------------------------------------------


@pytest.mark.beyond("torch scans all parameters for each one")
@pytest.mark.parametrize("tensors", [nn.Module.parameters, nn.Module.buffers])
def test_a_tensor_costs_the_same_in_a_large_model(lesson, tensors):
    def work(size: int) -> Callable[[], object]:
        model = ManyTensors(size)
        tracer, wanted = tracer_at(lesson, model, TracerBase), list(tensors(model))
        return lambda: [tracer.create_arg(tensor) for tensor in wanted]

    is_linear(work, 200, "tensors")


@pytest.mark.beyond("outside of a trace torch searches all modules for each one")
def test_a_module_costs_the_same_in_a_large_model(lesson):
    def work(size: int) -> Callable[[], object]:
        model = nn.Sequential(*(nn.Identity() for _ in range(size)))
        tracer, wanted = tracer_at(lesson, model), list(model)
        return lambda: [tracer.create_arg(module) for module in wanted]

    is_linear(work, 100, "modules")


def test_a_constant_costs_the_same_after_many(lesson):
    def work(size: int) -> Callable[[], object]:
        tracer = tracer_at(lesson, Model(), TracerBase)
        constants = [torch.zeros(1) for _ in range(size)]
        return lambda: [tracer.create_arg(constant) for constant in constants]

    is_linear(work, 100, "constants")
