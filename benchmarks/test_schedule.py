"""Orders beside torch's. A training step isn't timed: its time is the model's and gloo's."""

from __future__ import annotations

from functools import cache, partial
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.testing._internal.distributed.fake_pg import FakeStore

from benchmarks.case import Call, sized, timed
from tests.models.schedule import is_action
from tests.suite import equal

STAGES = 8


@cache
def schedule(stages: int, count: int) -> ScheduleGPipe:
    """Torch's schedule, which is made before its orders are timed."""
    dist.init_process_group("fake", rank=0, world_size=stages, store=FakeStore())
    try:
        stage = PipelineStage(nn.Linear(2, 2), 0, stages, torch.device("cpu"))
        return ScheduleGPipe(stage, count, loss_fn=nn.functional.mse_loss)
    finally:
        dist.destroy_process_group()


def torchs_orders(stages: int, count: int):
    return schedule(stages, count)._get_pipeline_order()


def orders(lesson, count: int) -> Call:
    """The orders of all stages."""
    return partial(lesson.gpipe, STAGES, count)


def same_orders(ours, theirs) -> None:
    theirs = [filter(is_action, theirs[rank]) for rank in range(STAGES)]
    equal([list(map(str, order)) for order in ours], [list(map(str, order)) for order in theirs])


CASES = sized(
    f"micro-batches in {STAGES} stages",
    orders,
    int,
    same_orders,
    (100, 300, 1000),
    torch=SimpleNamespace(gpipe=torchs_orders),
)

test_schedule = timed
