"""Unlike the core: chooses the cuts by what the nodes cost, and can compute a forward twice.

- ``cut_by_cost`` cuts where the slowest stage is fastest. A pipeline runs at the pace of its
  slowest stage, and stages with equally many calls aren't equally slow.
- ``RecomputingEngine`` keeps what a stage received, and no activations: it runs the forward again
  right before the backward. Memory for a micro-batch is then its inputs, for a third more time.
- ``interleaved`` gives each process several stages: it computes a later one while it would wait
  for others to finish an earlier one. ``clock`` says how much shorter the bubble gets, and
  ``Process`` runs such an order. ``SharedChannel`` sends between stages that share processes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from time import perf_counter
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils._pytree import tree_map_only

from .. import schedule as core
from ..schedule import (
    Action,
    Channel,
    Description,
    Engine,
    Held,
    Order,
    Run,
    Schedule,
    Stage,
    Timeline,
    Worker,
    alive,
    cut_evenly,
    differentiable,
    gpipe,
    microbatches_of,
    one_f_one_b,
    run_workers,
    simulate,
    stages_of,
    train_step,
    watch,
)

__all__ = [
    "Action",
    "Channel",
    "Description",
    "Engine",
    "Held",
    "Order",
    "Process",
    "RecomputingEngine",
    "Run",
    "Schedule",
    "SharedChannel",
    "Stage",
    "StageAction",
    "Timeline",
    "Worker",
    "alive",
    "clock",
    "cut_by_cost",
    "cut_evenly",
    "differentiable",
    "gpipe",
    "interleaved",
    "microbatches_of",
    "one_f_one_b",
    "run_workers",
    "seconds",
    "simulate",
    "stages_of",
    "train_step",
    "watch",
]


def seconds(gm: Any, *inputs: Any) -> Callable[[Any], float]:
    """Measure how long each node of a model takes, in its second run.

    Args:
        gm: the traced model.
        *inputs: the arguments of the model.

    Returns:
        A function from a node to its seconds.
    """
    timer = _Timer(gm)
    for _ in range(2):
        timer.run(*inputs)
    return timer.seconds.__getitem__


class _Timer(core.Interpreter):  # type: ignore[name-defined, misc]
    """Runs a graph and measures each node."""

    def __init__(self, gm: Any) -> None:
        super().__init__(gm)
        self.seconds: dict[Any, float] = {}

    def run_node(self, n: Any) -> Any:
        start = perf_counter()
        value = super().run_node(n)
        self.seconds[n] = perf_counter() - start
        return value


def cut_by_cost(gm: Any, stages: int, cost: Callable[[Any], float]) -> Any:
    """Cut a traced model so that its most expensive stage is as cheap as it can be.

    Args:
        gm: the traced model.
        stages: how many stages to make; at most as many as there are calls.
        cost: the cost of a call, such as its ``seconds``.

    Returns:
        What ``split_module`` returns.

    Raises:
        ValueError: there are more stages than calls.

    >>> import torch
    >>> from solutions.tracer import symbolic_trace
    >>> gm = symbolic_trace(torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(4))))
    >>> cut = cut_by_cost(gm, 2, lambda node: 3 if node.name == "_0" else 1)
    >>> [len(list(stage.children())) for stage in cut.children()]
    [1, 3]
    """
    calls = [node for node in gm.graph.nodes if node.op.startswith("call_")]
    if not 0 < stages <= len(calls):
        raise ValueError(f"a model of {len(calls)} calls can't be cut into {stages} stages")
    cuts = _cheapest_cuts([cost(node) for node in calls], stages)
    numbers = {
        node: stage
        for stage, (start, end) in enumerate(pairwise([0, *cuts, len(calls)]))
        for node in calls[start:end]
    }
    return core.split_module(gm, gm, numbers.__getitem__)  # type: ignore[attr-defined]


def _cheapest_cuts(costs: list[float], stages: int) -> list[int]:
    """Return where to cut a row of costs: before these positions.

    ``best[end]`` is the cheapest way to cut the first ``end`` calls into the stages so far: what
    its most expensive stage costs, and its cuts.
    """
    before = [0.0]
    for cost in costs:
        before.append(before[-1] + cost)
    best: dict[int, tuple[float, list[int]]] = {
        end: (before[end], []) for end in range(1, len(before))
    }
    for made in range(1, stages):
        best = {
            end: min(
                (max(best[at][0], before[end] - before[at]), [*best[at][1], at])
                for at in range(made, end)
            )
            for end in range(made + 1, len(before))
        }
    return best[len(costs)][1]


class RecomputingEngine(Engine):
    """Holds no activations between a forward and its backward: it computes them again.

    The numbers are the same if the stage computes the same twice: without dropout, and without
    buffers that it writes.

    In torch: ``torch.utils.checkpoint``, around the stage's forward.
    """

    def forward(self, microbatch: int) -> None:
        """Run the forward, and keep what was received; the activations go with their history."""
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
        stage: The stage. Stage ``s`` is one of process ``s % processes``.
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
    """Let each process run several stages in turn, and backwards as soon as it can.

    The stages go round the processes ``rounds`` times. A process takes as many micro-batches as
    there are processes through one of its stages before it goes to its next one.

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

    # So many forwards run before the gradient of this process's first backward can be there.
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
        """Run the actions one after the other, then wait until all that was sent has left."""
        for stage, kind, microbatch in order:
            engine = self.engines[stage]
            (engine.forward if kind == "F" else engine.backward)(microbatch)
        for engine in self.engines.values():
            engine.channel.flush()


class SharedChannel(Channel):
    """Sends between stages, of which several share a process: stage ``s`` has rank ``s % size``.

    Args:
        stage: The stage that this channel is of.
        stages: The number of stages.
        size: The number of processes.
        here: What one stage of this process has for another: one dict for all its channels.
    """

    def __init__(self, stage: int, stages: int, size: int, here: dict[Any, Any]) -> None:
        super().__init__()
        self.stage, self.stages, self.size, self.here = stage, stages, size, here

    def send(self, value: Any, to: int, microbatch: int) -> None:
        """Send a value to another stage; in the same process it is handed over."""
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
        """Number the values between two processes: two stages of each may exchange some."""
        return (microbatch * self.stages + source) * self.stages + to


def _without_history(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_(tensor.requires_grad)
