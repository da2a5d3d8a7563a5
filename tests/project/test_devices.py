"""The pieces on a device: ResNet18 through all of them, and what only a GPU can show.

What a CPU can run too runs there in every run, so that no test here is new to its first GPU:
``pytest --impl full -m gpu tests/project/test_devices.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.fx import Graph, GraphModule

from solutions.stretch.inlining import inline_all
from solutions.stretch.split_module import split_module
from solutions.stretch.tracer import symbolic_trace
from solutions.stretch.unflatten import unflatten
from tests import zoo
from tests.suite.expect import same_numbers

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
LAYOUTS = {
    "float32": {"dtype": torch.float32},
    "bfloat16": {"dtype": torch.bfloat16},
    "channels last": {"dtype": torch.float32, "memory_format": torch.channels_last},
}
Transform = Callable[[nn.Module, Tensor], nn.Module]


def traced(model: nn.Module, _: Tensor) -> nn.Module:
    return symbolic_trace(model)


def inlined(model: nn.Module, _: Tensor) -> nn.Module:
    return inline_all(symbolic_trace(model))


def split(model: nn.Module, _: Tensor, stages: int = 4) -> GraphModule:
    gm = symbolic_trace(model)
    stage_of = {node: at * stages // len(gm.graph.nodes) for at, node in enumerate(gm.graph.nodes)}
    return split_module(gm, model, stage_of.__getitem__)


def unflattened(model: nn.Module, inputs: Tensor) -> nn.Module:
    return unflatten(torch.export.export(model, (inputs,)))


TRANSFORMS: list[Transform] = [traced, inlined, split, unflattened]


def resnet18(device: str, layout: str = "float32") -> tuple[nn.Module, Tensor]:
    specimen = zoo.resnet18()
    return tuple(each.to(device, **LAYOUTS[layout]) for each in (specimen.model, *specimen.inputs))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_resnet18_computes_what_it_did(transform: Transform, layout: str, device: str):
    model, inputs = resnet18(device, layout)
    with torch.no_grad():
        expected, got = model(inputs), transform(model, inputs)(inputs)
    assert got.device.type == device
    assert got.dtype == LAYOUTS[layout]["dtype"]
    same_numbers(got, expected, cause=f"{transform.__name__} changed what runs on {device}")


def half_in_bfloat16(device: str) -> GraphModule:
    """Three products: inside an autocast region, inside it, and after it."""
    graph = Graph()
    x = graph.placeholder("x")
    region = graph.call_function(_enter_autocast, (device, torch.bfloat16, True, None))
    first = graph.call_function(torch.mm, (x, x))
    second = graph.call_function(torch.mm, (first, x))
    graph.call_function(_exit_autocast, (region,))
    graph.output((second, graph.call_function(torch.mm, (x, x))))
    return GraphModule(nn.Module(), graph)


@pytest.mark.parametrize("device", DEVICES)
def test_an_autocast_region_holds_in_every_partition(device: str):
    gm, x = half_in_bfloat16(device), torch.rand(8, 8, device=device)
    products = itertools.accumulate(node.target is torch.mm for node in gm.graph.nodes)
    stage_of = dict(zip(gm.graph.nodes, products, strict=True))
    pieces = split_module(gm, gm, stage_of.__getitem__)
    assert len(list(pieces.children())) > 2
    inside, outside = pieces(x)
    assert (inside.dtype, outside.dtype) == (torch.bfloat16, torch.float32)
    same_numbers((inside, outside), gm(x), cause="a partition left the region, or never entered it")
