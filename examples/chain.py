"""Your capture, unflatten, split_module and schedule train a transformer in two stages."""

import os
import sys
import threading
import time

import torch
from torch import nn

from given.schedule import Timed, inputs_of
from lessons.capture import capture_flat
from lessons.code import GraphModule
from lessons.schedule import Engine, Mailbox, one_f_one_b, run_threads, simulate, stages_of
from lessons.unflatten import unflatten

STEPS, MICROBATCHES = 4, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.attention, self.project = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        query, key, value = self.attention(self.norm(x)).chunk(3, -1)
        scores = query @ key.transpose(-1, -2) / 4
        return x + self.project(scores.softmax(-1) @ value)


class Transformer(nn.Module):
    """Returns its loss."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.first, self.second = Block(), Block()
        self.head = nn.Linear(16, 5)

    def forward(self, words, targets):
        x = self.second(self.first(self.embed(words)))
        return nn.functional.cross_entropy(self.head(x.mean(1)), targets)


class Watched(Engine):
    """Notes its thread, and the micro-batches that it held at once."""

    thread, most = 0, 0

    def forward(self, microbatch):
        super().forward(microbatch)
        self.thread, self.most = threading.get_ident(), max(self.most, len(self.held))


torch.manual_seed(0)
model, batch = Transformer(), (torch.randint(20, (8, 6)), torch.arange(8) % 5)
part = tuple(each[: len(each) // MICROBATCHES] for each in batch)

tree = unflatten(capture_flat(model, part))
gm = GraphModule(tree, tree.graph)
stages = stages_of(gm, lambda node: int(node.name not in ("embed", "first")))
print(f"cut into {len(stages)} stages: {', '.join(str(stage.nodes) for stage in stages)}")
if "--compile" in sys.argv:
    from lessons.backend import backend

    for stage in stages:
        stage.module = torch.compile(stage.module, backend=backend, dynamic=False)
orders = one_f_one_b(len(stages), MICROBATCHES)
clock = simulate(orders)
print(clock)

optimizer = torch.optim.SGD(gm.parameters(), lr=0.5)
beside = torch.optim.SGD(model.parameters(), lr=0.5)
inputs = inputs_of(gm.graph, batch, MICROBATCHES)
for step in range(STEPS):
    mailbox = Mailbox()
    engines = [Watched(gm, stages, each.number, Timed(mailbox), inputs) for each in stages]
    start = time.perf_counter()
    run_threads(dict(enumerate(engines)), orders, mailbox)
    seconds = time.perf_counter() - start
    optimizer.step()
    optimizer.zero_grad()
    loss = torch.stack([loss for engine in engines for loss in engine.losses]).mean()
    whole = model(*batch)
    whole.backward()
    beside.step()
    beside.zero_grad()
    print(f"step {step + 1} of {STEPS}: loss {loss:.4f}, in one process {whole:.4f}", flush=True)
for engine in engines:
    busy = 1 - engine.channel.waited / seconds
    print(
        f"stage {engine.stage.number}, thread {engine.thread} of process {os.getpid()}: "
        f"busy {busy:.0%} (the clock says {1 - clock.bubble:.0%}), "
        f"held at most {engine.most} of {MICROBATCHES} micro-batches"
    )
