"""What a run gives: kept by each stage, put together from all, compared with another run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from kata.pipeline.plan import Plan


@dataclass
class Result:
    """What a run gave: the last stage's output, and the gradient of every parameter by its name."""

    output: Tensor
    gradients: dict[str, Tensor]


def gradients_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None}


def save(folder: Path, stage: int, result: Result) -> None:
    torch.save(vars(result), folder / f"stage_{stage}.pt")


def collect(plan: Plan, folder: Path) -> Result:
    results = [Result(**torch.load(folder / f"stage_{n}.pt")) for n in range(plan.stages)]
    gradients = {name: grad for result in results for name, grad in result.gradients.items()}
    return Result(results[-1].output, gradients)


def difference(ours: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """The largest difference between tensors of one name, by the largest value of each."""
    if ours.keys() != expected.keys():
        return float("inf")
    return max(
        float((ours[name] - tensor).abs().max() / tensor.abs().max().clamp(min=1e-6))
        for name, tensor in expected.items()
    )
