"""``custom_tracers``, the rest: options, copies, errors that a model catches."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.fx import Graph, Proxy

from tests.models.custom_tracers import Scaled, traced_paths
from tests.suite import equal, is_value, same_graph
from tests.zoo import Model, Survives


@pytest.mark.parametrize("name", ["ModulePathTracer", "LowerReluTracer", "TaggingTracer"])
def test_options_of_a_plain_tracer_work(lesson, name):
    branches = lambda model, x: x + (1 if model.weight.dim() == 1 else 2)
    model = Model(branches, weight=nn.Parameter(torch.rand(2)))
    tracer = getattr(lesson, name)(param_shapes_constant=True)
    lost = (is_value(False), "`__init__` doesn't pass on the options it gets")
    equal(tracer.param_shapes_constant, True, cause=lost)
    same_graph(tracer.trace(model), torch.fx.Tracer(param_shapes_constant=True).trace(model))


class Remembers(Proxy):
    """A proxy of another kind."""


def test_a_node_has_the_name_type_and_proxy_that_were_asked_for(lesson):
    tracer = lesson.ModulePathTracer()
    tracer.graph = Graph()
    proxy = tracer.create_proxy("placeholder", "x", (), {}, "chosen", int, Remembers)
    equal((proxy.node.name, proxy.node.type, type(proxy)), ("chosen", int, Remembers))


def test_a_copy_of_the_graph_has_the_tags_in_its_metadata(lesson):
    graph = copy.deepcopy(lesson.TaggingTracer("kept").trace(Scaled(nn.ReLU())))
    equal(
        {node.meta.get("tag") for node in graph.nodes},
        {"kept"},
        cause=(is_value({None}), "torch copies a node with its `meta`, and no other attribute"),
    )


@pytest.mark.beyond(
    "`call_module` removes a module from its stack only after a call that succeeded; when the "
    "caller ends, an assertion finds the wrong module there"
)
def test_a_module_that_catches_an_error_is_the_current_one_again(lesson):
    found = traced_paths(lesson, nn.Sequential(Survives()))
    equal(found["exp"], "0")
