"""The orders that torch's schedules make; the rest of them needs a process per stage."""

from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe

from tests.models.schedule import torch_orders


def gpipe(stages, microbatches):
    """Return what ``ScheduleGPipe`` lets each stage run."""
    return torch_orders(ScheduleGPipe, stages, microbatches)


def one_f_one_b(stages, microbatches):
    """Return what ``Schedule1F1B`` lets each stage run."""
    return torch_orders(Schedule1F1B, stages, microbatches)
