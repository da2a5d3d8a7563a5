"""One batch, forward and backward: through one stage of the pipeline, or the whole model."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

from kata.pipeline.plan import Plan
from kata.pipeline.results import Result, gradients_of
from kata.pipeline.stages import split_into_stages, stages_of


def train(plan: Plan, stage: int) -> Result:
    """Send the batch through the pipeline, forward and backward.

    Returns:
        The output (of the last stage; empty for the others) and the gradients of this stage.
    """
    device = plan.device(stage)
    model = plan.build_model().to(device)
    module = stages_of(split_into_stages(plan, model))[stage]
    engine = PipelineStage(module, stage, plan.stages, device)
    schedule = ScheduleGPipe(engine, plan.micro_batches, loss_fn=nn.functional.cross_entropy)
    images, targets = plan.images_and_targets(device)
    output = None
    for _ in range(plan.rounds):
        model.zero_grad()
        output = schedule.step(*[images] * (stage == 0), target=targets)
    return Result(torch.empty(0) if output is None else output.detach().cpu(), gradients_of(model))


def in_one_process(plan: Plan) -> Result:
    """The same batch through the whole model, here."""
    device = plan.device(0)
    model = plan.build_model().to(device)
    images, targets = plan.images_and_targets(device)
    output = model(images)
    nn.functional.cross_entropy(output, targets).backward()
    return Result(output.detach().cpu(), gradients_of(model))
