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


@pytest.mark.gpu
def test_two_halves_on_two_streams_compute_what_one_stream_does():
    model, inputs = resnet18("cuda")
    halves, batches = split(model, inputs, stages=2), [inputs + shift for shift in range(4)]
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.no_grad():
        expected = [model(batch) for batch in batches]
        torch.cuda.synchronize()
        got = [on_streams(halves, batch, streams) for batch in batches]
        torch.cuda.synchronize()
    same_numbers(got, expected, cause="the second half began before the first had ended")


def on_streams(halves: GraphModule, batch: Tensor, streams: tuple) -> Tensor:
    """Run the first half in one stream, and the second in the other as soon as it may."""
    first, second = streams
    with torch.cuda.stream(first):
        between = halves.submod_0(batch)
    second.wait_stream(first)
    with torch.cuda.stream(second):
        values = between if isinstance(between, tuple) else (between,)
        for value in values:
            value.record_stream(second)
        return halves.submod_1(*values)


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs CUDA on two GPUs")
def test_two_halves_on_two_gpus_compute_what_one_gpu_does():
    model, inputs = resnet18("cuda:0")
    halves = split(model, inputs, stages=2)
    second = halves.submod_1.to("cuda:1")
    with torch.no_grad():
        between = halves.submod_0(inputs)
        values = between if isinstance(between, tuple) else (between,)
        got = second(*(value.to("cuda:1") for value in values)).to("cuda:0")
        # The halves share the model's modules: the whole is moved together to be compared.
        same_numbers(got, model.to("cuda:0")(inputs), cause="a value stayed on the other device")


@pytest.mark.gpu
@pytest.mark.parametrize("transform", [traced, inlined, split])
def test_a_cuda_graph_of_the_result_replays_the_numbers(transform: Transform):
    model, inputs = resnet18("cuda")
    module, seen = transform(model, inputs), inputs.clone()
    replay = captured(module, seen)
    for batch in (inputs, inputs.flip(-1)):
        seen.copy_(batch)
        with torch.no_grad():
            same_numbers(replay(), model(batch), cause="the capture missed a node of the graph")


def captured(module: nn.Module, inputs: Tensor) -> Callable[[], Tensor]:
    """Capture one run of a module as a CUDA graph; the result replays it on the inputs' memory."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(side):
        module(inputs)  # libraries set themselves up before the capture
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        output = module(inputs)

    def replay() -> Tensor:
        graph.replay()
        return output.clone()

    return replay
