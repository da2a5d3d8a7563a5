"""Train a model that is cut into stages, and keep the stages busy.

A stage is a partition of the model's graph with its submodule. For each worker, you write the order
of its actions: the forward of stage 0 for micro-batch 0 (``0F0``), its backward (``0B0``), and so
on. A clock says how long an order takes, and an engine runs it, in threads or in processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, wait
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate, pairwise
from operator import attrgetter
from threading import Condition
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from given.schedule import (
    ClosedError,
    Rehearsing,
    Run,
    Timeline,
    Workers,
    arrived,
    check,
    deadlock,
    differentiable,
    inputs_of,
    loss_of,
    work,
)

from .code import GraphModule
from .graph import Graph, Node
from .interpreter import Interpreter
from .split_module import (
    Partition,
    assign_nodes,
    build_submodule,
    collect_crossings,
    order_partitions,
)


class Action(NamedTuple):  # given
    """The forward or the backward (``kind`` is ``"F"`` or ``"B"``) of a micro-batch in a stage.

    >>> [Action(0, "F", 0), Action(1, "B", 0)]
    [0F0, 1B0]
    """

    stage: int
    kind: str
    microbatch: int

    def __repr__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"


Order = list[Action]
# One order per worker, from the number of workers and the number of micro-batches
Schedule = Callable[[int, int], list[Order]]


# --- Step 1: the orders


def gpipe(stages: int, microbatches: int) -> list[Order]:  # step 1
    """Let every stage run all forwards, then all backwards.

    In torch: ``torch.distributed.pipelining.ScheduleGPipe``.

    >>> gpipe(2, 2)
    [[0F0, 0F1, 0B0, 0B1], [1F0, 1F1, 1B0, 1B1]]
    """
    return [
        [Action(stage, kind, number) for kind in "FB" for number in range(microbatches)]
        for stage in range(stages)
    ]


def alternate(forwards: Order, backwards: Order, ahead: int) -> Order:  # step 1
    """Run some forwards ahead, then a forward and a backward alternately, then the backwards left.

    >>> forwards, backwards = ([Action(0, kind, number) for number in range(3)] for kind in "FB")
    >>> alternate(forwards, backwards, ahead=1)
    [0F0, 0F1, 0B0, 0F2, 0B1, 0B2]
    >>> alternate(forwards, backwards, ahead=7)
    [0F0, 0F1, 0F2, 0B0, 0B1, 0B2]
    """
    order = forwards[:ahead]
    for number, backward in enumerate(backwards, ahead):
        order += [*forwards[number : number + 1], backward]
    return order


def one_f_one_b(stages: int, microbatches: int) -> list[Order]:  # step 1
    """Let every stage run each backward as soon as it can.

    The last stage alternates from the start: its forward is all that its backward needs. The stage
    before it waits longer for its first gradient, and runs one forward ahead meanwhile; the stage
    before that one, two.

    In torch: ``torch.distributed.pipelining.Schedule1F1B``.

    >>> one_f_one_b(2, 3)
    [[0F0, 0F1, 0B0, 0F2, 0B1, 0B2], [1F0, 1B0, 1F1, 1B1, 1F2, 1B2]]
    """
    return [
        alternate(order[:microbatches], order[microbatches:], ahead=stages - 1 - stage)
        for stage, order in enumerate(gpipe(stages, microbatches))
    ]


# --- Step 2: a clock


def source(action: Action, last: int) -> Action | None:  # step 2
    """Return the action whose result an action needs, or ``None``.

    A forward needs the activations that the stage before it computes. A backward needs the
    gradients that the stage after it computes; in the last stage, it needs its own forward.

    Args:
        action: The action.
        last: The number of the last stage.

    >>> source(Action(1, "F", 0), last=2), source(Action(1, "B", 0), last=2)
    (0F0, 2B0)
    >>> source(Action(0, "F", 0), last=2), source(Action(2, "B", 0), last=2)
    (None, 2F0)
    """
    stage, kind, microbatch = action
    if kind == "F":
        return Action(stage - 1, "F", microbatch) if stage else None
    return Action(stage + 1, "B", microbatch) if stage < last else Action(stage, "F", microbatch)


def simulate(orders: list[Order], forward: float = 1, backward: float = 2) -> Timeline:  # step 2
    """Work out when each action runs, if no worker waits longer than it has to.

    An action starts when two others have ended: the one before it in its worker's order, and its
    ``source``.

    Args:
        orders: One order per worker. A worker may run several stages, so the last stage is the
            highest one in the orders.
        forward: How long a forward takes.
        backward: How long a backward takes.

    Returns:
        A ``Timeline`` with, per worker, a list of ``Run(action, start, end)``.

    Raises:
        RuntimeError: Some actions wait for each other, or for one that is in no order. Raise
            ``deadlock(pairs)``; each pair is an action and one that waits for it. For ``[(1B0,
            0B0)]``, the message says ``0B0 waits for 1B0``.

    Hint: with the lists of what each action needs, ``graphlib.TopologicalSorter`` finds an order in
    which all of them can run. If there is none, ``args[1]`` of its ``CycleError`` is a list in
    which each action waits for the one before it.

    >>> timeline = simulate(gpipe(2, 2))
    >>> print(timeline)
    0F0_0F1_............0B0-----0B1-----
    ....1F0_1F1_1B0-----1B1-----........
    >>> timeline.end, round(timeline.bubble, 3)
    (9, 0.333)
    """
    cost, needs = {"F": forward, "B": backward}, _needs_of(orders)
    runs: dict[Action, Run] = {}
    for action in _in_order_of_need(needs):
        start = max((runs[each].end for each in needs[action]), default=0)
        runs[action] = Run(action, start, start + cost[action.kind])
    return Timeline([[runs[action] for action in order] for order in orders])


def _needs_of(orders: list[Order]) -> dict[Action, list[Action]]:
    """Return, for each action, those that must end first."""
    last = max((action.stage for order in orders for action in order), default=0)
    return {
        action: [each for each in (before, source(action, last)) if each is not None]
        for order in orders
        for before, action in pairwise([None, *order])
        if action is not None
    }


def _in_order_of_need(needs: Mapping[Action, list[Action]]) -> list[Action]:
    """Return the actions, each after those that it needs."""
    missing = [(each, user) for user, every in needs.items() for each in every if each not in needs]
    if missing:
        raise deadlock(missing)
    try:
        return [*TopologicalSorter(needs).static_order()]
    except CycleError as error:
        raise deadlock(pairwise(error.args[1])) from None


def alive(orders: list[Order]) -> list[int]:  # step 2
    """Return the largest number of micro-batches that each worker holds at once.

    A worker holds the activations of a micro-batch from its forward to its backward. If it runs two
    stages, a micro-batch counts in both.

    >>> alive(gpipe(2, 8)), alive(one_f_one_b(2, 8))
    ([8, 8], [2, 1])
    """
    return [
        max(accumulate((1 if action.kind == "F" else -1 for action in order), initial=0))
        for order in orders
    ]


# --- Step 3: the stages


@dataclass(eq=False)
class Stage(Partition):  # given
    """A partition that can run on its own.

    Attributes:
        number: Its position in the pipeline, from 0.
        module: Its submodule.
    """

    number: int = 0
    module: Any = field(default=None, repr=False)


def evenly(graph: Graph, stages: int) -> Callable[[Node], int]:  # given
    """Return a callback for ``assign_nodes`` that cuts a graph into stages of equally many calls.

    If the calls can't be shared out equally, some stages have one more.

    Raises:
        ValueError: ``stages`` isn't from 1 to the number of calls.
    """
    calls = [node for node in graph.nodes if node.op.startswith("call_")]
    if not 0 < stages <= len(calls):
        raise ValueError(f"a model of {len(calls)} calls can't be cut into {stages} stages")
    return {node: at * stages // len(calls) for at, node in enumerate(calls)}.__getitem__


def stages_of(gm: GraphModule, cut: Callable[[Node], int]) -> list[Stage]:  # step 3
    """Cut a traced model into stages, with the functions of the lesson ``split_module``.

    A stage is a partition, so these functions work on it: see the page. Besides, it needs a
    ``number`` and a ``module``, which ``build_submodule(stage, gm)`` returns.

    Args:
        gm: The traced model.
        cut: Returns the stage of each call.

    Returns:
        The stages in an order in which they can run, numbered in that order from 0.

    >>> from solutions.tracer import symbolic_trace
    >>> gm = symbolic_trace(lambda x: (x + 1).relu().tanh())
    >>> for stage in stages_of(gm, evenly(gm.graph, 3)):
    ...     print(stage.number, list(stage.inputs), list(stage.outputs))
    0 [x] [add]
    1 [add] [relu]
    2 [relu] [tanh]
    """
    stages = assign_nodes(gm.graph, cut, Stage)
    collect_crossings(gm, stages)
    ordered = order_partitions(stages)
    for number, stage in enumerate(ordered):
        stage.number, stage.module = number, build_submodule(stage, gm)
    return ordered


# --- Step 4: one stage runs its actions


class Message(NamedTuple):  # given
    """The name of a value on its way between two stages: it is sent once and received once.

    Attributes:
        kind: ``"F"``: the value itself. ``"B"``: a list, on its way back, with the gradient of each
            tensor that ``differentiable(value)`` returns, or ``None`` where there is no gradient.
        value: The node of the value.
        user: The number of the stage that uses the value, also on the way back.
        microbatch: The number of the micro-batch.
    """

    kind: str
    value: Node
    user: int
    microbatch: int


class Engine:
    """Runs the forwards and backwards of one stage.

    Attributes:
        gm: The traced model.
        stage: The stage.
        channel: Has ``send(message, value)`` and ``receive(message)``.
        inputs: A list with a dict per micro-batch: the value of each placeholder.
        receives: The values that other stages make for this one.
        sends: Each value that this stage makes for another, with the number of that stage.
        loss: The node of the loss. One stage makes it.
        held: The values that a stage keeps from a forward to its backward, by micro-batch.
        losses: The losses so far, detached; empty if another stage makes the loss.

    In torch: ``torch.distributed.pipelining.PipelineStage``.
    """

    def __init__(  # given
        self, gm: GraphModule, stages: list[Stage], number: int, channel: Any, inputs: Any
    ) -> None:
        self.gm, self.stage, self.channel, self.inputs = gm, stages[number], channel, inputs
        self.receives = [value for value, maker in self.stage.inputs.items() if maker is not None]
        self.sends = [
            (value, user.number)
            for user in stages
            for value, maker in user.inputs.items()
            if maker is self.stage
        ]
        self.loss = loss_of(gm.graph)
        self.held: dict[int, tuple[dict[Node, Any], dict[Node, Any]]] = {}
        self.losses: list[Tensor] = []

    def forward(self, microbatch: int) -> None:  # step 4
        """Receive the stage's values, call its module, and send each result to its users.

        Keep in ``held`` what was received and what was made, each by node. If the stage makes the
        loss, append it to ``losses``, detached.
        """
        received = {
            value: self.channel.receive(Message("F", value, self.stage.number, microbatch))
            for value in self.receives
        }
        made = self.compute(microbatch, received)
        for value, user in self.sends:
            self.channel.send(Message("F", value, user, microbatch), made[value])
        self.held[microbatch] = received, made
        if self.loss in made:
            self.losses.append(made[self.loss].detach())

    def compute(self, microbatch: int, received: dict[Node, Any]) -> dict[Node, Any]:  # step 4
        """Call the stage's module on its ``arguments``; return the stage's ``outputs`` by node.

        The module returns a tuple of them, or the value itself if the stage ``returns_single``.

        Args:
            microbatch: The number of the micro-batch.
            received: The value of each node in ``receives``.
        """
        result = self.stage.module(*self.arguments(microbatch, received))
        results = [result] if self.stage.returns_single else result
        return dict(zip(self.stage.outputs, results, strict=True))

    def arguments(self, microbatch: int, received: dict[Node, Any]) -> Iterator[Any]:  # given
        """Yield the value of each of the stage's ``inputs``.

        Autograd refuses a write in place to a leaf, so the module gets clones of what was received.
        """
        for value in self.stage.inputs:
            if value.op == "placeholder":
                yield self.inputs[microbatch][value]
            elif value.op == "get_attr":
                yield attrgetter(str(value.target))(self.gm)
            else:
                yield tree_map_only(Tensor, Tensor.clone, received[value])

    def backward(self, microbatch: int) -> None:  # step 4
        """Receive gradients of what was sent, run autograd, and send those of what was received.

        After a backward, the gradient of a leaf is in its ``grad``: that is what the stage that
        sent the tensor is waiting for. The gradient of the loss is one, divided by the number of
        micro-batches, so the parameters get the gradient of the mean. The tensors that were made
        may share a part of their graph, which a backward frees: start autograd at all that got a
        gradient, at once.
        """
        received, made = self.held.pop(microbatch)
        roots = differentiable(made.get(self.loss))
        gradients: list[Any] = [torch.full_like(root, 1 / len(self.inputs)) for root in roots]
        for value, user in self.sends:
            roots += differentiable(made[value])
            gradients += self.channel.receive(Message("B", value, user, microbatch))
        pairs = [pair for pair in zip(roots, gradients, strict=True) if pair[1] is not None]
        if pairs:
            torch.autograd.backward([root for root, _ in pairs], [given for _, given in pairs])
        for value in self.receives:
            gradients = [leaf.grad for leaf in differentiable(received[value])]
            self.channel.send(Message("B", value, self.stage.number, microbatch), gradients)


# --- Step 5: workers


class Mailbox:
    """A channel between threads.

    Attributes:
        values: The values that were sent and not yet received.
        changed: A ``Condition``: a lock with ``wait_for``, which waits without holding it.
        is_closed: Whether nothing more will be sent.
    """

    def __init__(self) -> None:  # given
        self.values: dict[Message, Any] = {}
        self.changed = Condition()
        self.is_closed = False

    def send(self, message: Message, value: Any) -> None:  # step 5
        """Leave a copy of a value in the mailbox, and wake the workers that wait.

        Let each tensor be one as ``arrived`` returns it: a leaf without history. A tuple or dict
        keeps its form.
        """
        copied = tree_map_only(Tensor, arrived, value)
        with self.changed:
            self.values[message] = copied
            self.changed.notify_all()

    def receive(self, message: Message) -> Any:  # step 5
        """Wait for a value, and take it out of the mailbox.

        Raises:
            ClosedError: The mailbox is closed, and the value isn't there.
        """
        with self.changed:
            self.changed.wait_for(lambda: self.is_closed or message in self.values)
            if message not in self.values:
                raise ClosedError(f"nothing more is sent, but a worker waits for {message}")
            return self.values.pop(message)

    def close(self) -> None:  # given
        """Let ``receive`` fail from now on where a value isn't there, also if it waits already."""
        with self.changed:
            self.is_closed = True
            self.changed.notify_all()


def run_threads(
    engines: Mapping[int, Engine], orders: list[Order], mailbox: Mailbox
) -> None:  # step 5
    """Call ``work(engines, order)`` for each order in a thread, and return when all have ended.

    If a worker fails, the others may wait for it forever. So close the mailbox, let them end, and
    raise the error of the one that failed, not the ``ClosedError`` of another. If there are only
    ``ClosedError``s, raise one of them.

    Hint: ``Workers(count)`` is a ``ThreadPoolExecutor``; ``concurrent.futures.wait`` can return at
    the first error.
    """
    with Workers(len(orders)) as pool:
        running = [pool.submit(work, engines, order) for order in orders]
        try:
            done, _ = wait(running, return_when=FIRST_EXCEPTION)
        finally:
            mailbox.close()
    for each in done:
        each.result()


class Rehearsal(Rehearsing, Interpreter):  # given
    """Your interpreter runs the model once without data."""


def train_step(
    gm: GraphModule,
    stages: list[Stage],
    batch: tuple[Any, ...],
    *,
    order: Schedule,
    microbatches: int,
) -> Tensor:  # given
    """Run a batch through all stages, forwards and backwards, and return the mean loss.

    Afterwards the parameters have their gradients, as after ``loss.backward()``.

    Args:
        gm: A traced model that returns its loss, the mean over the examples.
        stages: The result of ``stages_of``.
        batch: Its arguments.
        order: ``gpipe``, ``one_f_one_b``, or another function with the same signature.
        microbatches: The number of equal parts to cut the batch into.

    Raises:
        ValueError: The batch can't be cut, or a stage writes in place to what another one uses.
        RuntimeError: The orders deadlock.
    """
    orders, mailbox = order(len(stages), microbatches), Mailbox()
    simulate(orders)
    inputs = inputs_of(gm.graph, batch, microbatches)
    check(Rehearsal(gm, stages), inputs[0])
    engines = {number: Engine(gm, stages, number, mailbox, inputs) for number in range(len(stages))}
    run_threads(engines, orders, mailbox)
    return torch.stack([loss for engine in engines.values() for loss in engine.losses]).mean()
