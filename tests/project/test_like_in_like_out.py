"""A transform makes graphs and modules of the classes it was given: ours, torch's, dynamo's."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

from solutions import backend, graph
from solutions import tracer as core
from solutions.stretch import engine

fx.wrap("len")

LESSONS = ("inlining", "interpreter", "inversion", "rewriting", "split_module")
LAYERS = {
    layer: SimpleNamespace(**{name: import_module(f"{package}.{name}") for name in LESSONS})
    for layer, package in {"core": "solutions", "stretch": "solutions.stretch"}.items()
}

# The whole reference makes torch's graphs, so its transforms are not asked to edit the core's.
NOT_ASKED = ("stretch", "our tracer's")


class Scaled(nn.Module):
    """Scale, shift, apply a function."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.tensor([1.0, 2.0, 3.0]))
        self.activation = nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(x * self.weight + 1)


def of_dynamo(model: nn.Module, x: Tensor) -> Any:
    """Return the graph module that dynamo hands to a backend, and the inputs that it passes."""
    handed: list[Any] = []

    def keep(gm: Any, inputs: Any) -> Any:
        handed.append((gm, inputs))
        return gm.forward

    torch._dynamo.reset()
    torch.compile(model, backend=keep)(x)
    return handed[0]


ORIGINS: dict[str, Callable[[nn.Module, Tensor], Any]] = {
    "our tracer's": lambda model, x: (core.symbolic_trace(model), [x]),
    "torch's tracer's": lambda model, x: (fx.symbolic_trace(model), [x]),
    "export's": lambda model, x: (torch.export.export(model, (x,)).module(), [x]),
    "dynamo's": of_dynamo,
}


def call_of(gm: Any, name: str) -> Any:
    """Return the first node that is a call of a function or module with this word in its name."""
    return next(node for node in gm.graph.nodes if name in node.name and "call" in node.op)


def replaced(layer: Any, gm: Any) -> Any:
    """Replace the product by a function that computes the same."""
    product = call_of(gm, "mul").target
    found = layer.rewriting.replace_pattern(
        gm, lambda a, b: product(a, b), lambda a, b: torch.mul(b, a)
    )
    assert len(found) == 1
    return gm


TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "replace_pattern": replaced,
    "inline_function": lambda layer, gm: layer.inlining.inline_function(
        gm, call_of(gm, "mul"), lambda a, b: torch.mul(b, a)
    ),
    "inline_all": lambda layer, gm: layer.inlining.inline_all(gm),
    "split_module": lambda layer, gm: layer.split_module.split_module(
        gm, gm, lambda node: int(node.op != "get_attr" and "tanh" in node.name)
    ),
    "Transformer": lambda layer, gm: layer.interpreter.Transformer(gm).transform(),
    "lower": lambda layer, gm: backend.lower(gm),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(
    ("layer", "origin"),
    [(layer, origin) for layer in LAYERS for origin in ORIGINS if (layer, origin) != NOT_ASKED],
)
def test_the_result_is_of_the_classes_that_came_in(layer: str, transform: str, origin: str) -> None:
    x = torch.tensor([-1.0, 0.5, 2.0])
    gm, inputs = ORIGINS[origin](Scaled(), x)
    of_torch = type(gm.graph) is fx.Graph
    result = TRANSFORMS[transform](LAYERS[layer], gm)
    assert isinstance(result, fx.GraphModule if of_torch else core.GraphModule)
    assert type(result.graph) is type(gm.graph)
    assert {type(node) for node in result.graph.nodes} == {fx.Node if of_torch else graph.Node}
    output = result(*inputs)
    torch.testing.assert_close(output[0] if type(output) is tuple else output, Scaled()(x))


PAIRS = [
    ("core", core.symbolic_trace),
    ("core", fx.symbolic_trace),
    ("stretch", fx.symbolic_trace),
]


# The graphs that `lower` is for take their state as arguments.
@pytest.mark.parametrize("transform", [name for name in TRANSFORMS if name != "lower"])
@pytest.mark.parametrize(("layer", "trace"), PAIRS)
def test_a_buffer_that_is_not_saved_stays_out_of_the_state(
    layer: str, trace: Any, transform: str
) -> None:
    gm = trace(Scaled())
    gm._non_persistent_buffers_set.add("weight")
    assert not TRANSFORMS[transform](LAYERS[layer], gm).state_dict()


@pytest.mark.parametrize("trace", [core.symbolic_trace, fx.symbolic_trace])
@pytest.mark.parametrize("layer", LAYERS)
def test_a_traced_module_is_a_model_to_invert_and_to_fuse(layer: str, trace: Any) -> None:
    x = torch.tensor([0.5, 1.5])
    inverse = LAYERS[layer].inversion.invert(trace(lambda x: torch.exp(2 * x + 1)))
    torch.testing.assert_close(inverse(torch.exp(2 * x + 1)), x)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval()
    images = torch.rand(1, 1, 4, 4)
    fused = LAYERS[layer].rewriting.fuse(trace(model))
    assert [node.op for node in fused.graph.nodes] == ["placeholder", "call_module", "output"]
    torch.testing.assert_close(fused(images), model(images))


def scaled_rows(x: Tensor) -> Tensor:
    return x[: x.shape[0] - 1] * math.sqrt(len(x))


def test_the_reference_s_own_engine_has_the_options_of_torch() -> None:
    recorded = engine.Tracer().trace(scaled_rows)
    assert {type(node) for node in recorded.nodes} == {engine.Node}
    assert recorded._tracer_cls is engine.Tracer
    traced = engine.symbolic_trace(scaled_rows)
    assert "math_sqrt" in traced.code
    x = torch.rand(4, 2)
    torch.testing.assert_close(traced(x), scaled_rows(x))
    added = engine.symbolic_trace(lambda x, parts: x + parts["a"], {"parts": {"a": fx.PH}})
    assert [node.name for node in added.graph.nodes] == ["x", "parts_1", "add", "output"]
    assert added(1, {"a": 2}) == 3
