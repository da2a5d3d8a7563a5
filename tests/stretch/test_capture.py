"""``capture``: what comes back from writes, the backward, what is refused; then real models."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from tests import random_models
from tests.models.capture import (
    Block,
    Cached,
    Net,
    as_make_fx,
    operators,
    pure,
    run,
    runs_as_eager,
    same_operators,
    same_stacks,
    written_as_eager,
)
from tests.suite import equal, holds, refuses, same_numbers
from tests.suite.programs import default_decompositions, export, specs_are_copied
from tests.zoo import classifier

pytestmark = pytest.mark.stretch


# --- a program is torch's -------------------------------------------------------------------------


def unflattened(lesson, model, *args, **kwargs):
    """Return the module tree that torch makes of the lesson's program."""
    program = lesson.program(model, args, kwargs)
    with specs_are_copied():
        return torch.export.unflatten(program)


@pytest.mark.parametrize("make", [Block, Cached, Net], ids=lambda make: make.__name__)
def test_a_program_becomes_the_modules_of_the_model(lesson, make):
    torch.manual_seed(0)
    model = make().eval()
    x = torch.rand(3) if make is Cached else torch.rand(1, 3, 4, 4)
    expected = {name for name, _ in model.named_modules()}
    tree = unflattened(lesson, model, x)
    equal({name.partition("@")[0] for name, _ in tree.named_modules()}, expected)
    same_numbers(tree(x), model(x))


@pytest.mark.parametrize("seed", range(4))
def test_a_grown_model_comes_back_from_its_program(lesson, seed):
    model, inputs, kwargs = vars(random_models.tree(seed)).values()
    tree = unflattened(lesson, model, *inputs, **kwargs)
    same_numbers(tree(*inputs, **kwargs), model(*inputs, **kwargs))


def test_buffers_that_are_written_come_back(lesson):
    torch.manual_seed(0)
    model, x = Block().train(), torch.rand(2, 3, 4, 4)
    tree, eager = unflattened(lesson, copy.deepcopy(model), x), copy.deepcopy(model)
    same_numbers(tree(x), eager(x))
    same_numbers(dict(tree.named_buffers()), dict(eager.named_buffers()))


def test_outputs_are_marked_as_export_marks_them(lesson):
    model, x = Block().train(), torch.rand(2, 3, 4, 4)
    ours = lesson.program(model, (x,)).graph_signature.output_specs
    theirs = export(model, x, functional=True).graph_signature.output_specs
    equal(
        sorted((spec.kind.name, str(spec.target)) for spec in ours),
        sorted((spec.kind.name, str(spec.target)) for spec in theirs),
    )


class Replaces(nn.Module):
    """A buffer that is assigned anew, and one that is written at a place."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("cache", torch.zeros(3, 2))

    def forward(self, x):
        self.count = self.count + 1
        self.cache[1] = x
        return self.cache.sum(0) * self.count


def test_a_cache_and_a_counter_come_back(lesson):
    model, x = Replaces(), torch.ones(2)
    program = lesson.program(model, (x,))
    targets = [spec.target for spec in program.graph_signature.output_specs]
    equal(targets, ["count", "cache", None])
    eager = copy.deepcopy(model)
    with specs_are_copied():
        tree = torch.export.unflatten(program)
    for _ in range(2):
        same_numbers(tree(x), eager(x))


def test_an_argument_that_is_written_comes_back(lesson):
    class Adds(nn.Module):
        def forward(self, x, out):
            out.add_(x)
            return out * 2

    program = lesson.program(Adds(), (torch.ones(2), torch.zeros(2)))
    kinds = [spec.kind.name for spec in program.graph_signature.output_specs]
    equal(kinds, ["USER_INPUT_MUTATION", "USER_OUTPUT"])


# --- forward and backward -------------------------------------------------------------------------


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(Block(), nn.Flatten(), nn.Linear(48, 2))
        self.layer = nn.TransformerEncoderLayer(2, 1, 4, batch_first=True, dropout=0.0)

    def forward(self, x, target):
        return nn.functional.cross_entropy(self.layer(self.net(x)[:, None])[:, 0], target)


@pytest.mark.parametrize("table", [None, "export's"], ids=["whole", "decomposed"])
def test_a_backward_is_captured_with_its_forward(lesson, table):
    torch.manual_seed(0)
    model, x, target = Loss().train(), torch.rand(2, 3, 4, 4), torch.tensor([0, 1])
    table = default_decompositions() if table else None
    joint = lesson.capture_joint(model, (x, target), table=table)
    pure(joint.graph)
    loss, gradients = run(joint, model, x, target)
    expected = model(x, target)
    expected.backward()
    same_numbers(loss, expected.detach())
    same_numbers(gradients, [each.grad for each in model.parameters()])


def test_a_parameter_that_is_frozen_or_unused_has_no_gradient(lesson):
    class Partly(nn.Module):
        def __init__(self):
            super().__init__()
            self.used = nn.Parameter(torch.ones(2))
            self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
            self.unused = nn.Parameter(torch.ones(2))

        def forward(self, x):
            return (x * self.used * self.frozen).sum()

    model = Partly()
    _, gradients = run(lesson.capture_joint(model, (torch.ones(2),)), model, torch.ones(2))
    same_numbers(gradients, [torch.ones(2), None])


# --- autocast, random numbers ---------------------------------------------------------------------


def test_an_autocast_region_becomes_casts(lesson):
    def model(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x

    captured = runs_as_eager(lesson, model, torch.rand(2, 2))
    holds("aten._to_copy.default" in operators(captured.graph), "a cast to bfloat16")


def test_random_numbers_are_drawn_when_the_graph_runs(lesson):
    model = nn.Sequential(nn.Dropout(0.2), nn.Linear(8, 8)).train()
    captured = lesson.capture(model, (torch.ones(4, 8),))
    pure(captured.graph)
    torch.manual_seed(1)
    result = run(captured, model, torch.ones(4, 8))
    torch.manual_seed(1)
    same_numbers(result, model(torch.ones(4, 8)).detach())


# --- what is refused ------------------------------------------------------------------------------


class Tagged(torch.Tensor):
    """A subclass without behaviour of its own."""


def symbolic() -> torch.Tensor:
    """A tensor with symbolic sizes."""
    return FakeTensorMode(shape_env=ShapeEnv()).from_tensor(torch.ones(3, 4))


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: torch.ones(2).as_subclass(Tagged), "Tagged"),
        (lambda: torch.eye(2).to_sparse(), "to_dense"),
        (symbolic, "FakeTensor"),
    ],
    ids=["subclass", "sparse", "symbolic sizes"],
)
def test_a_tensor_that_is_not_a_plain_one_is_refused_by_name(lesson, make, word):
    with refuses(lesson.CaptureError, "input_0", word, cause="it was taken for a plain tensor"):
        lesson.capture(lambda x: x + 1, (make(),))


# --- real models, and many programs ---------------------------------------------------------------

MODELS = ("squeezenet1_0", "mobilenet_v3_small", "shufflenet_v2_x0_5")
MORE = (
    *("resnet50", "efficientnet_b0", "convnext_tiny", "densenet121", "regnet_y_400mf"),
    *("vgg11", "mnasnet0_5", "mobilenet_v2", "alexnet", "vit_b_32", "resnext50_32x4d"),
)
# Export writes a clone for a dropout in eval mode, and none of the copies that a rule of its table
# writes for ``hardswish_``: models with these have other operators there.
EXPORTED = ("shufflenet_v2_x0_5", "resnet50", "densenet121")


def records_as_make_fx(lesson, name: str, table) -> None:
    assert lesson.Recorder  # torch has none: it would be compared with itself
    model, inputs, _ = vars(classifier(name)).values()
    with torch.no_grad():
        captured = lesson.capture(model, inputs, table=table)
        same_operators(captured.graph, as_make_fx(model, *inputs, table=table))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_torchvision_has_the_operators_of_make_fx(lesson, name):
    records_as_make_fx(lesson, name, None)


@pytest.mark.slow
@pytest.mark.parametrize("decomposed", [False, True], ids=["whole", "decomposed"])
@pytest.mark.parametrize("name", MORE)
def test_more_models_of_torchvision_have_the_operators_of_make_fx(lesson, name, decomposed):
    records_as_make_fx(lesson, name, default_decompositions() if decomposed else None)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED)
def test_a_model_of_torchvision_has_the_operators_and_modules_of_export(lesson, name):
    model, inputs, _ = vars(classifier(name)).values()
    program = lesson.program(model, inputs, table=default_decompositions())
    expected = export(model, *inputs, functional=True)
    same_operators(program.graph, operators(expected.graph))
    same_stacks(program.graph, expected.graph)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 300, 50))
def test_three_hundred_random_programs_give_the_numbers_of_eager(lesson, start):
    for seed in range(start, start + 50):
        written_as_eager(lesson, seed)
