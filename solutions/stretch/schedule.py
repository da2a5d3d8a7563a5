"""Unlike the core: a stage can recompute its forward, and a worker can run several stages.

- ``RecomputingEngine`` keeps what a stage received, and no activations: it runs the forward again
  right before the backward. A micro-batch then costs the memory of its inputs, and a third more
  time.
- ``interleaved`` gives each worker several stages, so a worker computes a later stage while it
  would wait for others to finish an earlier one. The clock and the engine of the core run such an
  order as it is.
"""

from __future__ import annotations

from torch import Tensor
from torch.utils._pytree import tree_map_only

from ..schedule import Action, Engine, Order, alternate

# --- activations that are computed twice


class RecomputingEngine(Engine):
    """Holds no activations between a forward and its backward, but computes them again.

    The numbers are the same only if the second forward computes what the first did: the stage must
    have no dropout, and no buffers that it writes.

    In torch: ``torch.utils.checkpoint``, around the stage's forward.
    """

    def forward(self, microbatch: int) -> None:
        """Run the forward, and keep only what was received, and the inputs as they were."""
        inputs = tree_map_only(Tensor, Tensor.clone, self.inputs[microbatch])
        super().forward(microbatch)
        received, _ = self.held[microbatch]
        self.held[microbatch] = received, {}
        self.inputs = [*self.inputs[:microbatch], inputs, *self.inputs[microbatch + 1 :]]

    def backward(self, microbatch: int) -> None:
        """Run the forward again, now with history, and then the backward."""
        received, _ = self.held[microbatch]
        self.held[microbatch] = received, self.compute(microbatch, received)
        super().backward(microbatch)


# --- several stages per worker


def interleaved(workers: int, microbatches: int, rounds: int = 2) -> list[Order]:
    """Let each worker run several stages, and each backward as soon as it can.

    Worker ``w`` has the stages ``w``, ``w + workers``, and so on. It runs as many micro-batches
    through one of them as there are workers, and then goes on to the next.

    Args:
        workers: The number of workers.
        microbatches: The number of micro-batches, a multiple of that of the workers.
        rounds: The number of stages per worker.

    Returns:
        One order per worker.

    Raises:
        ValueError: The micro-batches aren't a multiple of the workers.

    In torch: ``torch.distributed.pipelining.ScheduleInterleaved1F1B``.

    >>> interleaved(2, 2)[1]
    [1F0, 1F1, 3F0, 3B0, 3F1, 3B1, 1B0, 1B1]
    >>> from solutions.schedule import one_f_one_b, simulate
    >>> round(simulate(interleaved(4, 8)).bubble, 3), round(simulate(one_f_one_b(4, 8)).bubble, 3)
    (0.158, 0.273)
    """
    if microbatches % workers:
        raise ValueError(
            f"{microbatches} micro-batches can't go through {workers} workers in equal groups: "
            f"choose a multiple of {workers}"
        )

    def actions(kind: str, worker: int) -> Order:
        stages = range(worker, workers * rounds, workers)
        return [
            Action(stage, kind, number)
            for first in range(0, microbatches, workers)
            for stage in (stages if kind == "F" else reversed(stages))
            for number in range(first, first + workers)
        ]

    # This many forwards can run before the gradient of the first backward arrives.
    ahead = [(rounds - 1) * workers + 2 * (workers - 1 - worker) for worker in range(workers)]
    return [
        alternate(actions("F", worker), actions("B", worker), ahead[worker])
        for worker in range(workers)
    ]
