"""What to run, and how: the plan that every process gets."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from kata.torchvision_compat import torchvision


class PipelineError(RuntimeError):
    """A pipeline that cannot be built, or whose stages did not all finish."""


@dataclass(frozen=True)
class Plan:
    """What to run, and how; every process gets the same plan.

    Attributes:
        model: a classification model of torchvision, by name.
        stages: the number of stages, and of processes.
        batch: images in the batch.
        micro_batches: parts of the batch that follow each other through the pipeline.
        size: height and width of the images.
        rounds: how often the batch goes through; gradients are those of the last round.
        impl: whose ``split_module``: ``lessons`` or ``solutions``.
    """

    model: str
    stages: int = 2
    batch: int = 8
    micro_batches: int = 4
    size: int = 64
    rounds: int = 1
    impl: str = "lessons"

    @property
    def on_gpus(self) -> bool:
        """Whether every stage can have a GPU of its own."""
        return dist.is_nccl_available() and torch.cuda.device_count() >= self.stages

    @property
    def backend(self) -> str:
        return "nccl" if self.on_gpus else "gloo"

    def device(self, stage: int) -> torch.device:
        return torch.device("cuda", stage) if self.on_gpus else torch.device("cpu")

    def build_model(self) -> nn.Module:
        """The model with the same weights in every process.

        In eval mode: the statistics of a batch norm would see micro-batches, not the batch.
        """
        torch.manual_seed(0)
        model: nn.Module = torchvision.models.get_model(self.model, weights=None)
        return model.eval()

    def images_and_targets(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """The same batch in every process."""
        generator = torch.Generator().manual_seed(1)
        images = torch.rand(self.batch, 3, self.size, self.size, generator=generator)
        return images.to(device), torch.arange(self.batch).to(device)


def check(plan: Plan) -> None:
    """Refuse a plan before any process is started.

    Raises:
        PipelineError: there is no such model, or the batch cannot be divided so.
    """
    if plan.model not in torchvision.models.list_models(module=torchvision.models):
        near = difflib.get_close_matches(plan.model, torchvision.models.list_models())
        hint = f": did you mean {' or '.join(near)}?" if near else ""
        raise PipelineError(f"torchvision has no classification model `{plan.model}`{hint}")
    if plan.batch % plan.micro_batches:
        raise PipelineError(
            f"a batch of {plan.batch} cannot be divided into {plan.micro_batches} equal parts"
        )
