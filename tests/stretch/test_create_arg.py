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
    Model,
    holds_many,
    is_refused,
    kept_on_the_root,
    plugged,
    target_of,
    tracer_at,
)
from tests.suite import equal, holds, is_linear, is_value, refuses, same_graph


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
    equal(target_of(tracer, tracer.root.late), "late")


IN_TORCH = "torch remembers what it found when the trace began, and reads the new tensor"


@pytest.mark.parametrize(
    "name", ["mean", pytest.param("table", marks=pytest.mark.beyond(IN_TORCH))]
)
def test_a_tensor_that_was_replaced_is_a_constant(tracer, name):
    old = getattr(tracer.root, name)
    tracer.create_arg(old)
    setattr(tracer.root, name, torch.rand(2))
    path = target_of(tracer, old)
    holds(
        operator.attrgetter(path)(tracer.root) is old,
        "a path that leads to this very tensor",
        got=path,
    )


def test_a_parameter_that_was_replaced_or_lost_its_owner_is_refused(tracer):
    replaced, lost = tracer.root.weight, tracer.root.child.weight
    tracer.create_arg([replaced, lost])
    tracer.root.weight = nn.Parameter(torch.rand(2))
    del tracer.root.child
    got = [target_of(tracer, old) for old in (replaced, lost)]
    another = (got[0] == "weight", "the answer is a path that leads to another parameter by now")
    holds(all(map(is_refused, got)), "NameError for both", got=got, cause=another)


def test_if_there_are_several_paths_to_a_tensor_attribute_the_last_counts(lesson):
    inner = zoo.Constants()
    tracers = plugged(lesson), torch.fx.Tracer()
    same_graph(*(tracer.trace(torch.nn.Sequential(inner, inner)) for tracer in tracers))


# --- other constants, names, errors ---------------------------------------------------------------


class Switch(metaclass=torch.fx.ProxyableClassMeta):
    """A class whose construction can be recorded; an instance from before the trace is given."""


OTHER_CONSTANTS = {
    "_torchbind_obj": lambda: torch.classes.profiling._ScriptProfile(),
    "_tree_spec_constant": lambda: tree_structure([1, {"key": 2}]),
    "_Switch_constant_": Switch,
}


@pytest.mark.parametrize("prefix", OTHER_CONSTANTS)
def test_three_more_kinds_of_objects_are_constants(tracer, prefix):
    kept_on_the_root(tracer, OTHER_CONSTANTS[prefix](), prefix)


def test_the_owner_of_a_script_method_is_what_the_model_holds(lesson):
    model = Model()
    model.child.scripted = torch.jit.script(nn.ReLU())
    held, method = model.child.scripted._c, model.child.scripted.forward
    tracer = tracer_at(lesson, model)
    tracer.tensor_attrs = {held: "child.scripted._c"}  # as a trace of torch's begins
    for _ in range(2):
        path = target_of(tracer, method.owner)  # a new object each time
        equal(path, "child.scripted._c", cause=(is_value("_torchbind_obj0"), "compare with `==`"))


@pytest.mark.beyond("torch says that the parameter is not a member of this module")
def test_the_error_for_a_foreign_parameter_names_its_shape_and_the_class_of_the_root(tracer):
    with refuses(NameError, "(7, 3)", "Model"):
        tracer.create_arg(nn.Parameter(torch.rand(7, 3)))


@pytest.mark.beyond("torch asks `hasattr`, which makes a node where a parameter has the name")
def test_the_search_for_a_free_name_is_not_recorded(lesson):
    model = zoo.Constants()
    model._tensor_constant0 = nn.Parameter(torch.rand(4))
    reads = [node.target for node in plugged(lesson).trace(model).find_nodes(op="get_attr")]
    equal(reads, ["attribute", "_tensor_constant1", "_tensor_constant2"])


# --- cost -----------------------------------------------------------------------------------------


@pytest.mark.beyond("torch scans all parameters, all buffers or all modules for each one")
@pytest.mark.parametrize("held", [nn.Module.parameters, nn.Module.buffers, nn.Module.children])
def test_a_value_costs_the_same_in_a_large_model(lesson, held):
    def work(size: int) -> Callable[[], object]:
        model = holds_many(size)
        tracer, wanted = tracer_at(lesson, model), list(held(model))
        return lambda: [tracer.create_arg(value) for value in wanted]

    is_linear(work, 25, "values")


def test_a_constant_costs_the_same_after_many(lesson):
    def work(size: int) -> Callable[[], object]:
        tracer = tracer_at(lesson, Model(), TracerBase)
        constants = [torch.zeros(1) for _ in range(size)]
        return lambda: [tracer.create_arg(constant) for constant in constants]

    is_linear(work, 100, "constants")
