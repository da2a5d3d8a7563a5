"""Every model of torchvision that torch can trace or export, and the list of those it can't."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.fx.proxy import TraceError
from torch.utils._pytree import tree_map

from solutions.stretch.tracer import Tracer
from solutions.stretch.unflatten import unflatten
from tests import zoo
from tests.suite import equal, same_graph

pytestmark = pytest.mark.slow
VIDEO = zoo.torchvision_models("video")
EXPORTED = [*zoo.torchvision_models("classification", "segmentation"), *VIDEO]
# They take lists of images and decide by how many boxes there are, which no graph knows.
REFUSED = zoo.torchvision_models("detection")


def image(name: str) -> torch.Tensor:
    side = 299 if name == "inception_v3" else 224
    shape = (1, 3, 16, side, side) if name in VIDEO else (1, 3, side, side)
    return torch.empty(shape, device="meta")


def shapes(result: object) -> object:
    return tree_map(lambda tensor: tuple(tensor.shape), result)


@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_model_comes_back_with_its_modules_and_state(name):
    model, x = zoo.skeleton(name).to("meta"), image(name)
    tree = unflatten(torch.export.export(model, (x,)))
    modules = [path for path, _ in tree.named_modules() if "@" not in path]
    equal(modules, [path for path, _ in model.named_modules()])
    equal(list(tree.state_dict()), list(model.state_dict()))
    equal(shapes(tree(x)), shapes(model(x)))


def detector(name: str) -> torch.nn.Module:
    """A detection model of two classes, in tensors without numbers."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        model = zoo.torchvision_model(name, num_classes=2)
    model.mode = mode
    return model


@pytest.mark.parametrize("name", REFUSED)
def test_torch_cannot_trace_a_detection_model_and_the_reference_refuses_it_in_the_same_words(name):
    model, refusals = detector(name), []
    for tracer in (Tracer(), torch.fx.Tracer()):
        with pytest.raises(TraceError) as refusal:
            tracer.trace(model)
        refusals.append(str(refusal.value))
    assert refusals[0] == refusals[1]


@pytest.mark.parametrize("name", REFUSED)
def test_torch_cannot_export_a_detection_model(name):
    model = detector(name)
    with model.mode, pytest.raises(GuardOnDataDependentSymNode):
        torch.export.export(model, ([torch.rand(3, 64, 64)],))


@pytest.mark.parametrize("name", REFUSED)
def test_the_backbone_of_a_detection_model_gives_the_graph_of_torch(name):
    backbone = detector(name).backbone
    graphs = [tracer.trace(backbone) for tracer in (Tracer(), torch.fx.Tracer())]
    same_graph(*graphs, meta=("nn_module_stack",))
