"""The chain: your capture, unflatten, split_module and schedule train a model on two processes.

The fixture ``lesson`` has the names of all these lessons.
"""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn.functional import cross_entropy

from tests.models.schedule import in_processes
from tests.suite import equal, same_numbers

MICROBATCHES, EXAMPLES, WORDS = 4, 2, 6
SECOND = ("third", "fourth", "mean", "head")
MADE = (fx.Proxy, fx.Node, fx.Graph, fx.GraphModule, fx.Interpreter)


class Block(nn.Module):
    """Attention, then two layers, each with a residual."""

    def __init__(self, size: int = 16, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(size), nn.LayerNorm(size)
        self.attention, self.project = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.layers = nn.Sequential(nn.Linear(size, 32), nn.GELU(), nn.Linear(32, size))

    def forward(self, x):
        batch, words, size = x.shape
        parts = self.attention(self.before(x)).view(batch, words, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) / (size // self.heads) ** 0.5
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, words, size)
        x = x + self.project(mixed)
        return x + self.layers(self.after(x))


class Transformer(nn.Module):
    """A small transformer that classifies a row of words."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.first, self.second, self.third, self.fourth = (Block() for _ in range(4))
        self.head = nn.Linear(16, 5)

    def forward(self, words):
        x = self.fourth(self.third(self.second(self.first(self.embed(words)))))
        return self.head(x.mean(1))


def model_and_batch() -> tuple[Transformer, Tensor, Tensor]:
    torch.manual_seed(0)
    count = MICROBATCHES * EXAMPLES
    return Transformer(), torch.randint(20, (count, WORDS)), torch.randint(5, (count,))


def cut(lesson, model: Transformer, words: Tensor) -> nn.Module:
    """Capture a model for one micro-batch, give it its modules back, and cut it in the middle."""
    tree = lesson.unflatten(lesson.program(model, (words[:EXAMPLES],)))
    whole = lesson.GraphModule(tree, tree.graph)
    return lesson.split_module(whole, whole, lambda node: int(node.name in SECOND))


def loss_of(output: tuple[Tensor], targets: Tensor) -> Tensor:
    return cross_entropy(*output, targets)


def step(lesson, model: nn.Module, words: Tensor, targets: Tensor, order: str = "one_f_one_b"):
    return lesson.train_step(
        model,
        (words,),
        targets,
        loss_of,
        order=getattr(lesson, order),
        microbatches=MICROBATCHES,
        world_size=2,
    )


def eager(model: Transformer, words: Tensor, targets: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss and the gradients of one process, by the names that they have in the cut model."""
    model.zero_grad()
    loss = cross_entropy(model(words), targets)
    loss.backward()
    return loss.detach(), {flat(name): each.grad for name, each in model.named_parameters()}


def flat(name: str) -> str:
    """A parameter's name as a stage has it: the path of its module is flattened."""
    return name.replace(".", "_")


def by_flat_name(gradients: dict[str, Tensor]) -> dict[str, Tensor]:
    return {flat(name.partition(".")[2]): each for name, each in gradients.items()}


@pytest.mark.forks
@pytest.mark.parametrize("order", ["gpipe", "one_f_one_b"])
def test_loss_and_gradients_are_those_of_one_process(lesson, order):
    model, words, targets = model_and_batch()
    stages = cut(lesson, model, words)
    expected_loss, expected = eager(model, words, targets)
    loss, gradients = step(lesson, stages, words, targets, order)
    same_numbers(loss, expected_loss)
    gradients = by_flat_name(gradients)
    equal(sorted(gradients), sorted(expected))
    same_numbers(dict(sorted(gradients.items())), dict(sorted(expected.items())))


@pytest.mark.forks
def test_gradients_equal_those_of_torch_s_pipelining_bit_for_bit(lesson, tmp_path):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    model, words, targets = model_and_batch()
    stages = cut(lesson, model, words)
    _, gradients = step(lesson, stages, words, targets)

    def work(rank: int) -> dict[str, Tensor]:
        module = getattr(stages, f"submod_{rank}")
        stage = PipelineStage(module, rank, 2, torch.device("cpu"))
        schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=cross_entropy)
        schedule.step(*[words] * (rank == 0), target=targets)
        named = stages.named_parameters()
        return {name: each.grad for name, each in named if each.grad is not None}

    first, second = in_processes(2, work, tmp_path)
    theirs = first | second
    equal(sorted(gradients), sorted(theirs))
    equal([name for name in theirs if not torch.equal(theirs[name], gradients[name])], [])


def test_no_object_of_torch_fx_is_made_on_the_way(lesson, monkeypatch):
    model, words, targets = model_and_batch()
    refusal = mock.Mock(side_effect=AssertionError("an object of torch.fx was made"))
    for each in MADE:
        monkeypatch.setattr(each, "__init__", refusal)
    stages = cut(lesson, model, words)
    step(lesson, stages, words, targets)
    equal(refusal.call_count, 0)
    pieces = [stages, stages.submod_0, stages.submod_1]
    equal([type(piece.graph) for piece in pieces], [lesson.Graph] * 3)
