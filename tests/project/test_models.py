"""Models through the whole reference: hostile ones, and all of torchvision's.

Of torchvision's, torch can trace or export all but the detection models.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.fx.proxy import TraceError
from torch.utils._pytree import tree_map

from solutions.stretch.inlining import inline_all
from solutions.stretch.split_module import split_module
from solutions.stretch.tracer import Tracer, symbolic_trace
from solutions.stretch.unflatten import unflatten
from tests import zoo
from tests.suite import equal, same_graph, same_numbers

X = torch.rand(2, 2)


# --- hostile: modules that equal others, hold themselves, or know every attribute


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x)


class Itself(Plain):
    """A module that is its own child."""

    def __init__(self) -> None:
        super().__init__()
        self.add_module("me", self)


class SaysEqual(Plain):
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


class RaisesOnCompare(Plain):
    def __eq__(self, other: object) -> bool:
        raise ValueError("compared")

    def __hash__(self) -> int:
        raise ValueError("hashed")


class HasEverything(Plain):
    """A ``__getattr__`` that knows every name."""

    def __getattr__(self, name: str) -> object:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return 42

    def forward(self, x):
        return self.linear(x) + self.anything


class RaisesOnBool(Plain):
    def __bool__(self) -> bool:
        raise ValueError("asked whether it is true")

    def __len__(self) -> int:
        raise ValueError("asked for its length")


class Unicode(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.größe = nn.Linear(2, 2)
        self.add_module("层", nn.Linear(2, 2))
        self.Δ = nn.Parameter(torch.rand(2))

    def forward(self, x):
        return getattr(self, "层")(self.größe(x)) * self.Δ


def pair(module: type[nn.Module]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(module(), module())


RUNS: dict[str, Callable[[], nn.Module]] = {
    "itself": Itself,
    "says it is equal": pair(SaysEqual),
    "has every attribute": pair(HasEverything),
    "raises when asked for its truth": pair(RaisesOnBool),
    "unicode": Unicode,
    "empty": nn.Sequential,
}
ALL = {**RUNS, "raises when compared": pair(RaisesOnCompare)}
# Where torch gives up: it walks round a cycle, or compares modules.
TORCH_FAILS = {"itself", "says it is equal", "raises when compared"}


def built(build: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return build()


@pytest.mark.parametrize("name", [name for name in ALL if name not in TORCH_FAILS])
def test_a_hostile_model_gives_the_graph_of_torch(name):
    model = built(ALL[name])
    same_graph(Tracer().trace(model), torch.fx.Tracer().trace(model), meta=("nn_module_stack",))


@pytest.mark.parametrize("name", RUNS)
def test_a_hostile_model_traced_inlined_split_and_unflattened_computes_the_same(name):
    model = built(RUNS[name])
    expected, gm = model(X), symbolic_trace(model)
    same_numbers(gm(X), expected)
    numbers = {node: number for number, node in enumerate(gm.graph.nodes)}
    same_numbers(split_module(gm, model, numbers.__getitem__)(X), expected)
    same_numbers(inline_all(gm)(X), expected)
    if name != "itself":  # export can't walk round a cycle
        program = torch.export.export(built(RUNS[name]), (X,))
        # Where torch takes modules for equal, this isn't what the model computes.
        same_numbers(unflatten(program)(X), program.module()(X))


# --- torchvision's

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


@pytest.mark.slow
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
    with FakeTensorMode(allow_non_fake_inputs=True):
        return zoo.torchvision_model(name, num_classes=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_a_detection_model_is_refused_in_the_words_of_torch_and_its_backbone_is_traced(name):
    model, refusals = detector(name), []
    for tracer in (Tracer(), torch.fx.Tracer()):
        with pytest.raises(TraceError) as refusal:
            tracer.trace(model)
        refusals.append(str(refusal.value))
    assert refusals[0] == refusals[1]
    # A list of them, because torch forgets the class of the OrderedDict that a backbone returns.
    backbone = zoo.Model(lambda whole, x: list(whole.body(x).values()), body=model.backbone)
    graphs = [tracer.trace(backbone) for tracer in (Tracer(), torch.fx.Tracer())]
    same_graph(*graphs, meta=("nn_module_stack",))
