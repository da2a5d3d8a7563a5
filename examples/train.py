"""Your pipeline trains on processes that torchrun starts, on one machine or on several.

$ torchrun --standalone --nproc-per-node 2 -m kata run examples/train.py
"""

import argparse
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

from given.schedule import Timed, Wire, check, inputs_of, sum_shared
from lessons.schedule import (
    Engine,
    Rehearsal,
    evenly,
    gpipe,
    one_f_one_b,
    simulate,
    stages_of,
    work,
)
from lessons.tracer import symbolic_trace


class Training(nn.Module):
    """A model that returns its loss."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(256, 256) for _ in range(16)))

    def forward(self, x, target):
        return nn.functional.cross_entropy(self.layers(x), target)


class Watched(Engine):
    """Counts the micro-batches that are held at once."""

    most = 0

    def forward(self, microbatch):
        super().forward(microbatch)
        self.most = max(self.most, len(self.held))


class Blocking(Wire):
    """Sends with ``dist.send``, which returns when the other side has received."""

    def send(self, message, value):
        for part in self.packed(message, value):
            dist.send(part, self.place(self.ends(message)[1]), tag=self.tag(message))

    def receive(self, message):
        parts = list(self.empty(message))
        for part in parts:
            dist.recv(part, self.place(self.ends(message)[0]), tag=self.tag(message))
        return self.unpacked(message, parts)


def main(options) -> None:
    dist.init_process_group("gloo", timeout=timedelta(seconds=options.timeout))
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # the same model on all ranks
    gm = symbolic_trace(Training())
    data = torch.Generator().manual_seed(0)  # the same batches, too
    torch.manual_seed(rank)  # but not the same dropout, if there is any
    optimizer = torch.optim.SGD(gm.parameters(), lr=0.5)
    stages = stages_of(gm, evenly(gm.graph, size))
    orders = (gpipe if options.gpipe else one_f_one_b)(size, options.microbatches)
    clock = simulate(orders)
    for step in range(options.steps):
        batch = torch.rand(512, 256, generator=data), torch.randint(256, (512,), generator=data)
        inputs = inputs_of(gm.graph, batch, options.microbatches)
        if step == 0:
            check(Rehearsal(gm, stages), inputs[0])
        wire = Timed((Blocking if options.blocking else Wire)(stages, orders[rank]))
        engine = Watched(gm, stages, rank, wire, inputs)
        dist.barrier()
        start = time.perf_counter()
        work({rank: engine}, orders[rank])
        wire.channel.flush()
        waited = wire.waited / (time.perf_counter() - start)
        sum_shared(stages, gm)
        optimizer.step()
        optimizer.zero_grad()
        words = [
            f"step {step}, rank {rank}: waited {waited:.0%}, the clock says {clock.bubble:.0%}"
        ]
        words.append(f"held at most {engine.most}")
        if engine.losses:
            words.append(f"loss {torch.stack(engine.losses).mean():.4f}")
        print("; ".join(words) + "\n", end="", flush=True)  # at once: other ranks print, too
    dist.barrier()
    dist.destroy_process_group()


parser = argparse.ArgumentParser()
parser.add_argument("--gpipe", action="store_true", help="instead of 1F1B")
parser.add_argument("--blocking", action="store_true", help="send with dist.send")
parser.add_argument("--microbatches", type=int, default=8)
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--timeout", type=float, default=60, help="seconds that a message may take")
main(parser.parse_args())
