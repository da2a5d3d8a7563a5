"""Train a model that is cut into stages, each stage in a process of its own.

You cut a batch into micro-batches. The work of a stage is a list of actions: forward of micro-batch
0 (``F0``), backward of micro-batch 0 (``B0``), and so on. GPipe and 1F1B differ only in
these lists. There are six steps: write the lists, time them with a clock, find out which values
the stages send to each other, run the list of one stage, send values between processes, and start
the processes.
"""

from __future__ import annotations

import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.spawn import start_processes
from torch.utils._pytree import tree_leaves, tree_map_only

from .code import GraphModule
from .graph import Node
from .interpreter import Interpreter
from .split_module import split_module


class Action(NamedTuple):
    """One entry of a stage's order: the forward or the backward of a micro-batch.

    Attributes:
        kind: ``"F"`` or ``"B"``.
        microbatch: The number of the micro-batch, from 0.

    In torch: ``torch.distributed.pipelining.schedules._Action``.

    >>> [Action("F", 0), Action("B", 0)]
    [F0, B0]
    """

    kind: str
    microbatch: int

    def __repr__(self) -> str:
        return f"{self.kind}{self.microbatch}"


Order = list[Action]
# One order per stage, from the number of stages and the number of micro-batches
Schedule = Callable[[int, int], list[Order]]
# The characters per unit of time in the text of a timeline
WIDTH = 3


# --- Step 1: the orders


def gpipe(stages: int, microbatches: int) -> list[Order]:
    """Let every stage run all forwards, then all backwards.

    Args:
        stages: The number of stages.
        microbatches: The number of micro-batches.

    Returns:
        One order per stage. Both forwards and backwards begin with micro-batch 0.

    In torch: ``torch.distributed.pipelining.ScheduleGPipe``.

    >>> gpipe(2, 3)
    [[F0, F1, F2, B0, B1, B2], [F0, F1, F2, B0, B1, B2]]
    """
    order = [Action(kind, number) for kind in "FB" for number in range(microbatches)]
    return [list(order) for _ in range(stages)]


def one_f_one_b(stages: int, microbatches: int) -> list[Order]:
    """Let every stage run each backward as soon as it can, and one forward after it.

    Before its first backward, the last stage runs one forward, the one before it two, and so on:
    a stage can run that many before the first gradient arrives. Then backwards and forwards
    alternate until all forwards have run, and the rest are backwards.

    Args:
        stages: The number of stages.
        microbatches: The number of micro-batches, which may be smaller than ``stages``.

    Returns:
        One order per stage.

    In torch: ``torch.distributed.pipelining.Schedule1F1B``.

    >>> one_f_one_b(2, 3)
    [[F0, F1, B0, F2, B1, B2], [F0, B0, F1, B1, F2, B2]]
    """
    return [
        _alternating(min(stages - stage, microbatches), microbatches) for stage in range(stages)
    ]


def _alternating(ahead: int, microbatches: int) -> Order:
    """Run ``ahead`` forwards, then backwards and forwards alternately."""
    order = [Action("F", number) for number in range(ahead)]
    for number in range(microbatches):
        order.append(Action("B", number))
        if ahead + number < microbatches:
            order.append(Action("F", ahead + number))
    return order


# --- Step 2: a clock


class Run(NamedTuple):  # given
    """An action, with the times at which it starts and ends."""

    action: Action
    start: float
    end: float


@dataclass
class Timeline:  # given
    """The times at which the stages run their actions.

    Attributes:
        stages: The runs of each stage, in order.
    """

    stages: list[list[Run]]

    @property
    def end(self) -> float:
        """When the last action ends."""
        return max(run.end for runs in self.stages for run in runs)

    @property
    def bubble(self) -> float:
        """The share of the time of all stages that they spend waiting."""
        busy = sum(run.end - run.start for runs in self.stages for run in runs)
        return 1 - busy / (self.end * len(self.stages))

    def __str__(self) -> str:
        return "\n".join(
            f"stage {number}  {_row(runs).ljust(round(self.end * WIDTH), '.')}"
            for number, runs in enumerate(self.stages)
        )


def _row(runs: list[Run]) -> str:  # given
    """Draw the runs of one stage, with dots where it has nothing to do."""
    row = ""
    for action, start, end in runs:
        row = row.ljust(round(start * WIDTH), ".")
        row += repr(action).ljust(round(end * WIDTH) - len(row), "-" if action.kind == "B" else "_")
    return row


def simulate(orders: list[Order], forward: float = 1, backward: float = 2) -> Timeline:
    """Work out when each action runs, if no stage waits longer than it has to.

    An action starts as soon as the one before it in its stage has ended and its input is there. A
    forward needs the same forward of the stage before. A backward needs the same backward of the
    stage after; in the last stage, it needs its own forward.

    Args:
        orders: One order per stage; they aren't changed.
        forward: How long a forward takes.
        backward: How long a backward takes.

    Returns:
        The timeline.

    Raises:
        RuntimeError: Some stages can't go on, because each waits for another. The message says of
            each: ``stage 0 waits for B0 of stage 1``.

    >>> timeline = simulate(gpipe(2, 2))
    >>> print(timeline)
    stage 0  F0_F1_.........B0----B1----
    stage 1  ...F0_F1_B0----B1----......
    >>> timeline.end, round(timeline.bubble, 3)
    (9, 0.333)
    """
    cost = {"F": forward, "B": backward}
    timeline = Timeline([[] for _ in orders])
    ends: dict[tuple[int, Action], float] = {}
    while sum(_advance(stage, orders, timeline, ends, cost) for stage in range(len(orders))):
        pass
    if any(len(runs) < len(order) for order, runs in zip(orders, timeline.stages, strict=True)):
        raise _deadlock(orders, timeline)
    return timeline


def _advance(
    stage: int,
    orders: list[Order],
    timeline: Timeline,
    ends: dict[tuple[int, Action], float],
    cost: dict[str, float],
) -> int:
    """Run the next actions of a stage until one has to wait; return how many there were."""
    runs = timeline.stages[stage]
    before = len(runs)
    for action in islice(orders[stage], before, None):
        source = _source(stage, action, len(orders))
        if source is not None and source not in ends:
            break
        start = max(ends[source] if source else 0, runs[-1].end if runs else 0)
        runs.append(Run(action, start, start + cost[action.kind]))
        ends[stage, action] = runs[-1].end
    return len(runs) - before


def _source(stage: int, action: Action, stages: int) -> tuple[int, Action] | None:
    """Return the stage and the action whose result an action needs."""
    if action.kind == "F":
        return (stage - 1, action) if stage else None
    if stage + 1 < stages:
        return stage + 1, action
    return stage, Action("F", action.microbatch)


def _deadlock(orders: list[Order], timeline: Timeline) -> RuntimeError:
    waiting = []
    for stage, (order, runs) in enumerate(zip(orders, timeline.stages, strict=True)):
        blocked = order[len(runs)] if len(runs) < len(order) else None
        source = blocked and _source(stage, blocked, len(orders))
        if source:
            waiting.append(f"stage {stage} waits for {source[1]} of stage {source[0]}")
    return RuntimeError(f"deadlock: {', '.join(waiting)}: change the orders of these stages")


def alive(orders: list[Order]) -> list[int]:
    """Return the largest number of micro-batches that each stage holds at once.

    A stage holds the activations of a micro-batch from its forward to its backward. 1F1B takes as
    long as GPipe, but holds fewer of them.

    Args:
        orders: One order per stage.

    Returns:
        One number per stage.

    >>> alive(gpipe(2, 8)), alive(one_f_one_b(2, 8))
    ([8, 8], [2, 1])
    """
    return [
        max(accumulate((1 if action.kind == "F" else -1 for action in order), initial=0))
        for order in orders
    ]


# --- Step 3: the stages


@dataclass(eq=False)
class Stage:  # given
    """One stage of a model that ``split_module`` has cut.

    Attributes:
        number: The position among the stages, from 0.
        nodes: The nodes of the outer graph that the stage runs, in order.
        receives: For each stage that sends values here, those values.
        sends: For each stage that needs values from here, those values.
    """

    number: int
    nodes: list[Node] = field(default_factory=list)
    receives: dict[int, list[Node]] = field(default_factory=dict)
    sends: dict[int, list[Node]] = field(default_factory=dict)


def cut_evenly(gm: GraphModule, stages: int) -> GraphModule:
    """Cut a traced model into stages whose numbers of calls differ by at most one.

    Args:
        gm: The traced model.
        stages: How many stages to make; at most as many as there are calls.

    Returns:
        The result of ``split_module``, with the submodules ``submod_0``, ``submod_1``, and so on.

    Raises:
        ValueError: ``stages`` isn't from 1 to the number of calls. The message has both numbers.

    >>> from solutions.tracer import symbolic_trace
    >>> gm = symbolic_trace(torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(4))))
    >>> [len(list(stage.children())) for stage in cut_evenly(gm, 2).children()]
    [2, 2]
    """
    calls = [node for node in gm.graph.nodes if node.op.startswith("call_")]
    if not 0 < stages <= len(calls):
        raise ValueError(f"a model of {len(calls)} calls can't be cut into {stages} stages")
    numbers = {node: at * stages // len(calls) for at, node in enumerate(calls)}
    return split_module(gm, gm, numbers.__getitem__)


def stages_of(gm: GraphModule) -> list[Stage]:
    """Find out what each stage of a cut model runs, receives and sends.

    Each ``call_module`` node of the outer graph is a stage, numbered from 0. A stage runs its call
    and the ``getitem`` nodes that take the call's result apart. Placeholders and ``get_attr`` nodes
    cost nothing, so every stage runs all of them for itself. The last stage also runs the output.

    A value goes straight from the stage that makes it to each stage that uses it, skipping the
    stages between them. Both stages list it once, in the same order: that of first use.

    Args:
        gm: What ``split_module`` returned.

    Returns:
        The stages, in the order of the graph.

    Raises:
        ValueError: The graph calls something other than submodules, so it isn't cut. The message
            names that node.

    >>> from solutions.tracer import symbolic_trace
    >>> gm = cut_evenly(symbolic_trace(lambda x: (x + 1).relu().tanh()), 3)
    >>> first, second, third = stages_of(gm)
    >>> second.nodes, second.receives, second.sends
    ([x, submod_1], {0: [submod_0]}, {2: [submod_1]})
    """
    stages = [Stage(number) for number in range(len(gm.graph.find_nodes(op="call_module")))]
    home: dict[Node, Stage] = {}
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            for stage in stages:
                stage.nodes.append(node)
            continue
        stage = home[node] = _home(node, home, stages)
        stage.nodes.append(node)
        for value in node.all_input_nodes:
            _record_crossing(value, home.get(value), stage)
    return stages


def _home(node: Node, home: dict[Node, Stage], stages: list[Stage]) -> Stage:
    """Return the stage that runs a call, a ``getitem`` or the output."""
    if node.op == "output" and stages:
        return stages[-1]
    if node.op == "call_module":
        return stages[len({stage.number for stage in home.values()})]
    source = node.args[0] if node.args else None
    if node.op == "call_function" and source in home:
        return home[source]
    raise ValueError(f"`{node}` is in no stage: cut the model with `split_module` first")


def _record_crossing(value: Node, maker: Stage | None, user: Stage) -> None:
    """Record that a stage uses a value; a placeholder or ``get_attr`` node has no maker."""
    if maker is None or maker is user or value in maker.sends.get(user.number, ()):
        return
    maker.sends.setdefault(user.number, []).append(value)
    user.receives.setdefault(maker.number, []).append(value)


# --- Step 4: one stage runs its order


@dataclass
class Held:  # given
    """The values that a stage keeps of a micro-batch from its forward to its backward.

    Attributes:
        received: For each stage that sent values, the list of them.
        sent: For each stage that needs values, the list of them, with their history.
        loss: The loss of the micro-batch; the last stage has it.
    """

    received: dict[int, list[Any]]
    sent: dict[int, list[Any]]
    loss: Tensor | None = None


class Engine:
    """Runs the actions of one stage.

    Attributes:
        gm: The cut model; only this stage's submodule runs, so only its parameters get gradients.
        stage: The stage, with the nodes that it runs and the values that it receives and sends.
        channel: Sends values to other stages and receives them.
        inputs: The model's inputs of each micro-batch.
        targets: The target of each micro-batch, for the loss.
        loss_fn: Takes the model's output and the target; ``None`` except in the last stage.
        held: For each micro-batch that waits for its backward, the values that it needs then.
        losses: The loss of each forward so far, without history; the last stage has them.

    In torch: ``torch.distributed.pipelining.PipelineStage``.
    """

    def __init__(  # given
        self,
        gm: GraphModule,
        number: int,
        channel: Any,
        inputs: Sequence[tuple[Any, ...]],
        targets: Sequence[Any],
        loss_fn: Callable[[Any, Any], Tensor],
    ) -> None:
        stages = stages_of(gm)
        self.gm, self.stage, self.channel = gm, stages[number], channel
        self.inputs, self.targets = inputs, targets
        self.loss_fn = loss_fn if number == len(stages) - 1 else None
        self.held: dict[int, Held] = {}
        self.losses: list[Tensor] = []

    def run(self, order: Iterable[Action]) -> None:
        """Run the actions one after the other, then wait until all messages have left."""
        for action in order:
            (self.forward if action.kind == "F" else self.backward)(action.microbatch)
        self.channel.flush()

    def forward(self, microbatch: int) -> None:
        """Receive the stage's values, compute, and send the values that other stages need.

        Receive one list of values from each stage in ``receives``, and send one to each stage in
        ``sends``. The last stage computes the loss. Keep in ``held`` everything that the backward
        needs.
        """
        received = {maker: self.channel.receive(maker, microbatch) for maker in self.stage.receives}
        values, output = self.compute(microbatch, received)
        sent = {user: [values[each] for each in nodes] for user, nodes in self.stage.sends.items()}
        for user, each in sent.items():
            self.channel.send(each, user, microbatch)
        self.held[microbatch] = Held(received, sent)
        if self.loss_fn is not None:
            loss = self.loss_fn(output, self.targets[microbatch])
            self.held[microbatch].loss = loss
            self.losses.append(loss.detach())

    def compute(
        self, microbatch: int, received: dict[int, list[Any]]
    ) -> tuple[dict[Node, Any], Any]:
        """Run the nodes of the stage.

        A placeholder takes its input of that micro-batch, or its default. A model may write to a
        value in place, which autograd refuses for a received tensor, because that is a leaf. So
        pass the nodes a clone of each received tensor that requires a gradient, also in a tuple.

        Args:
            microbatch: The micro-batch whose inputs the placeholders take.
            received: For each stage in ``receives``, the values that it sent.

        Returns:
            The value of each node, and the value of the last node. In the last stage, that is the
            model's output.
        """
        interpreter = Interpreter(self.gm)
        interpreter.args_iter = iter(self.inputs[microbatch])
        for maker, nodes in self.stage.receives.items():
            interpreter.env |= zip(nodes, map(_clone, received[maker]), strict=True)
        value = None
        for node in self.stage.nodes:
            value = interpreter.env[node] = interpreter.run_node(node)
        return interpreter.env, value

    def backward(self, microbatch: int) -> None:
        """Receive the gradients of the sent values, run autograd, send those of the received ones.

        To each stage that it received values from, a stage sends a list with one entry per received
        tensor that requires a gradient, in order: its gradient, or ``None`` if it got none. If
        several stages use a value, their gradients add up. Parameters add theirs up in ``grad``,
        over all micro-batches.
        """
        held = self.held.pop(microbatch)
        pairs = [(loss, None) for loss in differentiable(held.loss)]
        for user, values in held.sent.items():
            gradients = self.channel.receive(user, microbatch)
            pairs += zip(differentiable(values), gradients, strict=True)
        pairs = [pair for pair in pairs if pair[0] is held.loss or pair[1] is not None]
        if pairs:
            torch.autograd.backward([root for root, _ in pairs], [given for _, given in pairs])
        for maker, values in held.received.items():
            gradients = [leaf.grad for leaf in differentiable(values)]
            self.channel.send(gradients, maker, microbatch)


def differentiable(value: Any) -> list[Tensor]:  # given
    """Return the tensors that require a gradient in a value, including nested ones.

    >>> differentiable([torch.ones(1), {"weight": torch.ones(2, requires_grad=True)}])
    [tensor([1., 1.], requires_grad=True)]
    """
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor) and leaf.requires_grad]


def _clone(value: Any) -> Any:
    """Clone the tensors in a value that require a gradient."""
    return tree_map_only(Tensor, lambda leaf: leaf.clone() if leaf.requires_grad else leaf, value)


# --- Step 5: values travel between processes


@dataclass(frozen=True)
class Description:  # given
    """The facts that a stage must know about a tensor before it can receive the tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    requires_grad: bool

    @classmethod
    def of(cls, tensor: Tensor) -> Description:
        """Describe a tensor."""
        return cls(tuple(tensor.shape), tensor.dtype, tensor.requires_grad)

    def empty(self) -> Tensor:
        """Return a tensor to receive into."""
        return torch.empty(self.shape, dtype=self.dtype)


class Channel:
    """Sends values to other stages and receives them, through ``torch.distributed``.

    A stage's number is its rank. A value is anything that pickles, with tensors in it. It travels
    as several messages, all with the micro-batch as their tag: the number of bytes of the header,
    the header (the pickled value, with a ``Description`` in place of each tensor), and the data
    of each tensor.

    Attributes:
        leaving: The sends that may not be finished, each with its tensor, which must stay alive.

    In torch: ``PipelineStage.get_fwd_send_ops``. Shapes are agreed on once, before the first step.
    """

    def __init__(self) -> None:  # given
        self.leaving: list[tuple[Any, Tensor]] = []

    def send(self, value: Any, to: int, microbatch: int) -> None:
        """Send a value to another stage, without waiting until it has left.

        ``dist.isend`` sends contiguous tensors only, and ``leaving`` keeps each until it has left.

        Args:
            value: The value; its tensors are sent without their history.
            to: The other stage.
            microbatch: The tag.
        """
        header = bytearray(pickle.dumps(tree_map_only(Tensor, Description.of, value)))
        tensors = [torch.tensor([len(header)]), torch.frombuffer(header, dtype=torch.uint8)]
        tensors += [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
        self.leaving = [(work, tensor) for work, tensor in self.leaving if not work.is_completed()]
        for tensor in tensors:
            data = tensor.detach().contiguous()
            self.leaving.append((dist.isend(data, to, tag=microbatch), data))

    def receive(self, source: int, microbatch: int) -> Any:
        """Wait for a value that another stage sends.

        Args:
            source: The other stage.
            microbatch: The tag.

        Returns:
            The value. A tensor requires a gradient if the one that was sent does, and is a leaf.
        """
        size = self._filled(torch.empty(1, dtype=torch.int64), source, microbatch)
        header = self._filled(torch.empty(int(size), dtype=torch.uint8), source, microbatch)

        def tensor(description: Description) -> Tensor:
            data = self._filled(description.empty(), source, microbatch)
            return data.requires_grad_(description.requires_grad)

        return tree_map_only(Description, tensor, pickle.loads(header.numpy().tobytes()))

    def _filled(self, tensor: Tensor, source: int, microbatch: int) -> Tensor:
        dist.recv(tensor, source, tag=microbatch)
        return tensor

    def flush(self) -> None:
        """Wait until all messages have left, and empty ``leaving``."""
        for work, _ in self.leaving:
            work.wait()
        self.leaving.clear()


# --- Step 6: the processes


@dataclass
class Step:  # given
    """A step of training, as all its processes know it.

    Attributes:
        gm: The cut model.
        orders: One order per stage.
        inputs: The model's inputs of each micro-batch.
        targets: The target of each micro-batch.
        loss_fn: Takes the model's output and the target.
        folder: The folder in which the processes find each other and save their results.
        timeout: For how many seconds a process waits for another.
    """

    gm: GraphModule
    orders: list[Order]
    inputs: list[tuple[Any, ...]]
    targets: list[Any]
    loss_fn: Callable[[Any, Any], Tensor]
    folder: Path
    timeout: float

    def engine(self, number: int, channel: Channel) -> Engine:
        """Return the engine of a stage."""
        return Engine(self.gm, number, channel, self.inputs, self.targets, self.loss_fn)

    @contextmanager
    def process_group(self, number: int) -> Iterator[None]:
        """Let the process of a stage join the others, and leave them after the block."""
        torch.set_num_threads(1)
        store, patience = (self.folder / "store").as_uri(), timedelta(seconds=self.timeout)
        size = len(self.orders)
        dist.init_process_group("gloo", store, rank=number, world_size=size, timeout=patience)
        yield
        dist.destroy_process_group()

    def save(self, number: int, engine: Engine) -> None:
        """Save the losses of a stage, and the gradients of its parameters by name."""
        named = engine.gm.named_parameters()
        gradients = {name: each.grad for name, each in named if each.grad is not None}
        torch.save((engine.losses, gradients), self.folder / str(number))

    def results(self) -> list[tuple[list[Tensor], dict[str, Tensor]]]:
        """Return the losses and gradients that each stage has saved, in the order of the stages."""
        return [torch.load(self.folder / str(number)) for number in range(len(self.orders))]


def train_step(
    gm: GraphModule,
    inputs: tuple[Any, ...],
    targets: Tensor,
    loss_fn: Callable[[Any, Any], Tensor],
    *,
    order: Schedule,
    microbatches: int,
    world_size: int,
    timeout: float = 30,
) -> tuple[Tensor, dict[str, Tensor]]:  # given
    """Run a batch through a cut model forwards and backwards, one process per stage.

    The parameters don't change: pass the gradients to an optimizer. If a stage writes to a buffer,
    only its own process sees that. All processes have ended afterwards, even after an error.

    Args:
        gm: What ``split_module`` returned.
        inputs: The arguments of the model. Tensors are cut into micro-batches along their first
            dimension; each micro-batch gets everything else as it is.
        targets: The second argument of the loss, cut in the same way.
        loss_fn: Takes the model's output and the targets of a micro-batch; returns the mean over
            its examples.
        order: ``gpipe``, ``one_f_one_b``, or any function with the same signature.
        microbatches: The number of equal parts to cut the batch into.
        world_size: The number of processes, which must be the number of stages.
        timeout: For how many seconds a process waits for another.

    Returns:
        The mean loss of the micro-batches, and their mean gradients by the parameters' names in
        ``gm.named_parameters()``, without parameters that have none. The gradients of a parameter
        that several stages use are added up.

    Raises:
        ValueError: ``world_size`` isn't the number of stages, or the batch can't be cut into equal
            parts.
        RuntimeError: The orders deadlock, which is found before anything starts.
        torch.multiprocessing.spawn.ProcessException: A stage failed, died, or waited too long.
            The message has the number of the first one that ended, and its traceback.

    In torch: ``Schedule1F1B.step``, called by each process for itself.

    >>> from solutions.tracer import symbolic_trace
    >>> gm = cut_evenly(symbolic_trace(torch.nn.Sequential(*(torch.nn.Linear(2, 2),) * 2)), 2)
    >>> loss, gradients = train_step(
    ...     gm,
    ...     (torch.zeros(4, 2),),
    ...     torch.zeros(4, 2),
    ...     lambda output, target: (output - target).pow(2).mean(),
    ...     order=one_f_one_b,
    ...     microbatches=2,
    ...     world_size=2,
    ... )
    >>> list(gradients)
    ['submod_0.0.weight', 'submod_0.0.bias']
    """
    orders = orders_for(gm, order, microbatches, world_size)
    batch, goals = cut_batch(inputs, targets, microbatches)
    with tempfile.TemporaryDirectory() as folder:
        step = Step(gm, orders, batch, goals, loss_fn, Path(folder), timeout)
        run_processes(step)
        return together(step)


def orders_for(gm: GraphModule, order: Schedule, microbatches: int, world_size: int) -> list[Order]:
    """Return the order of each stage of a cut model, after checking the orders.

    Raises:
        ValueError: ``world_size`` isn't the number of stages. The message has both numbers.
        RuntimeError: The orders deadlock, as ``simulate`` finds.
    """
    stages = len(stages_of(gm))
    if stages != world_size:
        raise ValueError(f"the model has {stages} stages, so world_size can't be {world_size}")
    orders = order(stages, microbatches)
    simulate(orders)
    return orders


def cut_batch(
    inputs: tuple[Any, ...], targets: Any, microbatches: int
) -> tuple[list[tuple[Any, ...]], list[Any]]:  # given
    """Return the inputs and the targets of each micro-batch."""
    parts = [microbatches_of(each, microbatches) for each in inputs]
    batch = [tuple(part[number] for part in parts) for number in range(microbatches)]
    return batch, microbatches_of(targets, microbatches)


def microbatches_of(value: Any, microbatches: int) -> list[Any]:
    """Cut a tensor into equal parts along its first dimension, and repeat anything else.

    If the parts had different sizes, the mean of their losses wouldn't be that of the batch.

    Args:
        value: The value.
        microbatches: The number of parts.

    Returns:
        The parts.

    Raises:
        ValueError: The tensor can't be cut into equal parts. The message says into how many.

    >>> microbatches_of(torch.arange(4), 2), microbatches_of(True, 2)
    ([tensor([0, 1]), tensor([2, 3])], [True, True])
    """
    if not isinstance(value, Tensor):
        return [value] * microbatches
    if not value.dim() or len(value) % microbatches:
        examples = len(value) if value.dim() else 0
        raise ValueError(
            f"a batch of {examples} can't be cut into {microbatches} equal micro-batches: "
            f"choose a batch whose size is a multiple of {microbatches}"
        )
    return list(value.chunk(microbatches))


def first_backward() -> None:  # given
    """Run a backward, so that processes that are forked later can run one.

    At its first backward, autograd starts a thread for each device, and a fork of a process with
    such threads can't run a backward. Without a GPU there is no such device until a fake tensor
    claims one, so this backward runs before there is any fake tensor.
    """
    if not torch.accelerator.is_available():
        torch.ones((), requires_grad=True).backward()


first_backward()


def run_processes(step: Step) -> None:  # given
    """Run ``run_stage`` in a process per stage, and end all of them if one of them fails.

    The processes are forks: they share the model, the data and the loss, and nothing is pickled.
    So on a machine with a GPU, you can't start them once this process has used the GPU or has run
    a backward.
    """
    with warnings.catch_warnings():  # our forks leave the threads of this process alone
        warnings.simplefilter("ignore", DeprecationWarning)
        processes = start_processes(
            run_stage, (step,), len(step.orders), join=False, daemon=True, start_method="fork"
        )
    while not processes.join():
        pass


def run_stage(number: int, step: Step) -> None:
    """Run the order of one stage in the process of that stage, and save the results.

    The process is a fork, so the parameters may have gradients from before: clear them first
    (``zero_grad``). Do the rest inside the step's ``process_group``. At the end, wait for all other
    stages (``dist.barrier``), because a process that ends closes its connections.
    """
    step.gm.zero_grad()
    with step.process_group(number):
        engine = step.engine(number, Channel())
        engine.run(step.orders[number])
        step.save(number, engine)
        dist.barrier()


def together(step: Step) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the mean loss and the mean gradients over the micro-batches, from ``step.results()``.

    The gradients of a stage are added up over its micro-batches. A parameter that several stages
    use has gradients in each of them.
    """
    results = step.results()
    total: dict[str, Tensor] = {}
    for _, gradients in results:
        for name, gradient in gradients.items():
            total[name] = total[name] + gradient if name in total else gradient
    mean = torch.stack([loss for losses, _ in results for loss in losses]).mean()
    return mean, {name: each / len(step.inputs) for name, each in total.items()}
