"""The chain: your capture, unflatten, split_module and schedule train a model in two stages.

The fixture ``lesson`` has the names of all these lessons.
"""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn.functional import cross_entropy

from tests.models.schedule import gradients, same_gradients
from tests.suite import equal, same_numbers

MICROBATCHES, EXAMPLES, WORDS = 4, 2, 6
FIRST = ("embed", "first", "second")
MADE = (fx.Proxy, fx.Node, fx.Graph, fx.GraphModule, fx.Interpreter)


class Transformer(nn.Module):
    """A small transformer that classifies a row of words, and returns its loss."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        blocks = (nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True) for _ in range(4))
        self.first, self.second, self.third, self.fourth = blocks
        self.head = nn.Linear(16, 5)

    def forward(self, words, targets):
        x = self.fourth(self.third(self.second(self.first(self.embed(words)))))
        return cross_entropy(self.head(x.mean(1)), targets)


def model_and_batch() -> tuple[Transformer, tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    count = MICROBATCHES * EXAMPLES
    return Transformer(), (torch.randint(20, (count, WORDS)), torch.randint(5, (count,)))


def unflattened(lesson, model: Transformer, batch: tuple[Tensor, Tensor]) -> nn.Module:
    """Capture a model for one micro-batch, and give it its modules back."""
    return lesson.unflatten(lesson.capture_flat(model, tuple(each[:EXAMPLES] for each in batch)))


def stages(lesson, model: Transformer, batch: tuple[Tensor, Tensor]) -> tuple[nn.Module, list]:
    """The captured model, and its two halves."""
    tree = unflattened(lesson, model, batch)
    gm = lesson.GraphModule(tree, tree.graph)
    return gm, lesson.stages_of(gm, lambda node: int(node.name not in FIRST))


@pytest.mark.parametrize("order", ["gpipe", "one_f_one_b"])
def test_loss_and_gradients_are_those_of_one_process(lesson, order):
    model, batch = model_and_batch()
    gm, parts = stages(lesson, model, batch)
    expected = model(*batch)
    expected.backward()
    wanted = gradients(model)
    gm.zero_grad()
    loss = lesson.train_step(
        gm, parts, batch, order=getattr(lesson, order), microbatches=MICROBATCHES
    )
    same_numbers(loss, expected.detach())
    same_gradients(gradients(gm), wanted)


def test_no_object_of_torch_fx_is_made_on_the_way(lesson, monkeypatch):
    model, batch = model_and_batch()
    refusal = mock.Mock(side_effect=AssertionError("an object of torch.fx was made"))
    for each in MADE:
        monkeypatch.setattr(each, "__init__", refusal)
    gm, parts = stages(lesson, model, batch)
    lesson.train_step(gm, parts, batch, order=lesson.one_f_one_b, microbatches=MICROBATCHES)
    equal(refusal.call_count, 0)
    pieces = [gm, *(part.module for part in parts)]
    equal([type(piece.graph) for piece in pieces], [lesson.Graph] * 3)
