"""Orders beside torch's. A training step isn't timed: its time is the model's and gloo's."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.testing._internal.distributed.fake_pg import FakeStore

from benchmarks.case import Call, Case, Family, sizes, timed
from tests.models.schedule import is_action
from tests.suite import equal

STAGES = 8
MICROBATCHES = Family(f"micro-batches in {STAGES} stages", 1.1)


def orders(count: int):
    """The orders of all stages."""

    def on_torch() -> Call:
        dist.init_process_group("fake", rank=0, world_size=STAGES, store=FakeStore())
        try:
            stage = PipelineStage(nn.Linear(2, 2), 0, STAGES, torch.device("cpu"))
            return ScheduleGPipe(stage, count, loss_fn=nn.functional.mse_loss)._get_pipeline_order
        finally:
            dist.destroy_process_group()

    def prepare(lesson) -> Call:
        return lambda: lesson.gpipe(STAGES, count)

    return {"prepare": prepare, "on_torch": on_torch, "same": same_orders}


def same_orders(ours, theirs) -> None:
    theirs = [filter(is_action, theirs[rank]) for rank in range(STAGES)]
    equal([list(map(str, order)) for order in ours], [list(map(str, order)) for order in theirs])


CASES = [
    Case("GPipe, 32 micro-batches", quick=True, **orders(32)),
    *sizes(MICROBATCHES, orders, {100: None, 300: None, 1000: None}),
]

test_schedule = timed
