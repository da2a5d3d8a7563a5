"""Unlike the core: a stage can recompute its forward, and a process can run several stages.

- ``RecomputingEngine`` keeps what a stage received, and no activations: it runs the forward again
  right before the backward. A micro-batch then costs the memory of its inputs, and a third more
  time.
- ``interleaved`` gives each process several stages, so a process computes a later stage while it
  would wait for others to finish an earlier one. ``clock`` says how much shorter the bubble gets.
  ``Process`` runs such an order, with a ``SharedChannel`` per stage.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor
from torch.utils._pytree import tree_map_only

from ..schedule import Channel, Engine, Held, Run, Timeline

# --- activations that are computed twice


class RecomputingEngine(Engine):
    """Holds no activations between a forward and its backward, but computes them again.

    The numbers are the same only if the second forward computes what the first did: the stage must
    have no dropout, and no buffers that it writes.

    In torch: ``torch.utils.checkpoint``, around the stage's forward.
    """

    def forward(self, microbatch: int) -> None:
        """Run the forward, and keep only what was received."""
        super().forward(microbatch)
        self.held[microbatch] = Held(self.held[microbatch].received, {})

    def backward(self, microbatch: int) -> None:
        """Run the forward again, now with history, and then the backward."""
        received = self.held[microbatch].received
        values, output = self.compute(microbatch, received)
        sent = {user: [values[each] for each in nodes] for user, nodes in self.stage.sends.items()}
        loss = self.loss_fn(output, self.targets[microbatch]) if self.loss_fn else None
        self.held[microbatch] = Held(received, sent, loss)
        super().backward(microbatch)


# --- several stages per process


class StageAction(NamedTuple):
    """An action of a process that runs several stages.

    Attributes:
        stage: The stage. Stage ``s`` belongs to process ``s % processes``.
        kind: ``"F"`` or ``"B"``.
        microbatch: The number of the micro-batch.

    In torch: ``torch.distributed.pipelining.schedules._Action``.
    """

    stage: int
    kind: str
    microbatch: int

    def __repr__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"


def interleaved(processes: int, microbatches: int, rounds: int = 2) -> list[list[StageAction]]:
    """Let each process run several stages, and each backward as soon as it can.

    The stages are dealt to the processes in ``rounds`` rounds. A process runs as many micro-batches
    through one of its stages as there are processes, and then goes on to its next stage.

    Args:
        processes: The number of processes.
        microbatches: The number of micro-batches, a multiple of that of the processes.
        rounds: The number of stages per process.

    Returns:
        One order per process.

    Raises:
        ValueError: The micro-batches aren't a multiple of the processes.

    In torch: ``torch.distributed.pipelining.ScheduleInterleaved1F1B``.

    >>> interleaved(2, 2)[1]
    [1F0, 1F1, 3F0, 3B0, 3F1, 3B1, 1B0, 1B1]
    """
    if microbatches % processes:
        raise ValueError(
            f"{microbatches} micro-batches can't go through {processes} processes in equal groups: "
            f"choose a multiple of {processes}"
        )
    return [_order(process, processes, microbatches, rounds) for process in range(processes)]


def _order(process: int, processes: int, microbatches: int, rounds: int) -> list[StageAction]:
    total = rounds * microbatches

    def nth(kind: str, number: int) -> StageAction:
        group, place = divmod(number, rounds * processes)
        turn, within = divmod(place, processes)
        turn = turn if kind == "F" else rounds - 1 - turn
        return StageAction(turn * processes + process, kind, group * processes + within)

    # This many forwards can run before the gradient of the first backward arrives.
    ahead = min((rounds - 1) * processes + 2 * (processes - 1 - process), total)
    order = [nth("F", number) for number in range(ahead)]
    for number in range(total):
        if ahead + number < total:
            order.append(nth("F", ahead + number))
        order.append(nth("B", number))
    return order


def clock(orders: list[list[StageAction]], forward: float = 1, backward: float = 2) -> Timeline:
    """Work out when each action runs, as ``simulate`` does for one stage per process.

    Args:
        orders: One order per process.
        forward: How long a forward of one stage takes.
        backward: How long a backward of one stage takes.

    Raises:
        RuntimeError: Some processes can't go on. The message has their next actions.

    >>> from solutions.schedule import one_f_one_b, simulate
    >>> round(clock(interleaved(4, 8)).bubble, 3), round(simulate(one_f_one_b(4, 8)).bubble, 3)
    (0.158, 0.273)
    """
    last = max(action.stage for order in orders for action in order)
    cost = {"F": forward, "B": backward}
    ends: dict[StageAction, float] = {}
    timeline = Timeline([[] for _ in orders])
    left = [list(reversed(order)) for order in orders]

    def is_ready(order: list[StageAction]) -> bool:
        source = _source(order[-1], last) if order else None
        return bool(order) and (source is None or source in ends)

    while any(left):
        ready = [process for process, order in enumerate(left) if is_ready(order)]
        if not ready:
            waiting = ", ".join(str(order[-1]) for order in left if order)
            raise RuntimeError(f"deadlock: {waiting} wait: change the orders of these processes")
        for process in ready:
            action, runs = left[process].pop(), timeline.stages[process]
            source = _source(action, last)
            start = max(ends[source] if source else 0, runs[-1].end if runs else 0)
            ends[action] = start + cost[action.kind]
            runs.append(Run(action, start, ends[action]))  # type: ignore[arg-type]
    return timeline


def _source(action: StageAction, last: int) -> StageAction | None:
    """Return the action whose result an action needs."""
    stage, kind, microbatch = action
    if kind == "F":
        return StageAction(stage - 1, "F", microbatch) if stage else None
    return StageAction(stage + 1, "B", microbatch) if stage < last else action._replace(kind="F")


class Process:
    """Runs the actions of several stages.

    Args:
        engines: The engine of each stage, by the stage's number.
    """

    def __init__(self, engines: dict[int, Engine]) -> None:
        self.engines = engines

    def run(self, order: list[StageAction]) -> None:
        """Run the actions one after the other, then wait until all messages have left."""
        for stage, kind, microbatch in order:
            engine = self.engines[stage]
            (engine.forward if kind == "F" else engine.backward)(microbatch)
        for engine in self.engines.values():
            engine.channel.flush()


class SharedChannel(Channel):
    """A stage's channel where stages share processes: stage ``s`` has rank ``s % size``.

    Args:
        stage: The stage.
        stages: The number of stages.
        size: The number of processes.
        here: The values on their way between stages of this process, whose channels share the dict.
    """

    def __init__(self, stage: int, stages: int, size: int, here: dict[Any, Any]) -> None:
        super().__init__()
        self.stage, self.stages, self.size, self.here = stage, stages, size, here

    def send(self, value: Any, to: int, microbatch: int) -> None:
        """Send a value to another stage; within a process, put it into ``here``."""
        if to % self.size == self.stage % self.size:
            self.here[self.stage, to, microbatch] = tree_map_only(Tensor, _without_history, value)
        else:
            super().send(value, to % self.size, self._tag(self.stage, to, microbatch))

    def receive(self, source: int, microbatch: int) -> Any:
        """Wait for a value that another stage sends."""
        if source % self.size == self.stage % self.size:
            return self.here.pop((source, self.stage, microbatch))
        return super().receive(source % self.size, self._tag(source, self.stage, microbatch))

    def _tag(self, source: int, to: int, microbatch: int) -> int:
        """Return a tag of its own for each pair of stages and each micro-batch."""
        return (microbatch * self.stages + source) * self.stages + to


def _without_history(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_(tensor.requires_grad)
