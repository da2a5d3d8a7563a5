"""Train a model that is cut into stages, and keep the stages busy.

A stage is a partition of the model's graph with its submodule. You cut a batch into micro-batches,
and write for each worker the order of its actions: the forward of stage 0 for micro-batch 0
(``0F0``), its backward (``0B0``), and so on. A clock says how long an order takes, and an engine
runs it: here in threads, on a cluster in processes. Only the channel between them changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Condition
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from given.schedule import (
    ClosedError,
    Rehearsing,
    Run,
    Timeline,
    Workers,
    arrived,
    check,
    deadlock,
    inputs_of,
)

from .code import GraphModule
from .graph import Graph, Node
from .interpreter import Interpreter
from .split_module import Partition


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


def gpipe(stages: int, microbatches: int) -> list[Order]:  # step 1
    """Let every stage run all forwards, then all backwards.

    In torch: ``torch.distributed.pipelining.ScheduleGPipe``.

    >>> gpipe(2, 2)
    [[0F0, 0F1, 0B0, 0B1], [1F0, 1F1, 1B0, 1B1]]
    """
    raise NotImplementedError("schedule: gpipe")


def alternate(forwards: Order, backwards: Order, ahead: int) -> Order:  # step 1
    """Run some forwards ahead, then a forward and a backward alternately, then what is left.

    >>> forwards, backwards = ([Action(0, kind, number) for number in range(3)] for kind in "FB")
    >>> alternate(forwards, backwards, ahead=1)
    [0F0, 0F1, 0B0, 0F2, 0B1, 0B2]
    >>> alternate(forwards, backwards, ahead=7)
    [0F0, 0F1, 0F2, 0B0, 0B1, 0B2]
    """
    raise NotImplementedError("schedule: alternate")


def one_f_one_b(stages: int, microbatches: int) -> list[Order]:  # step 1
    """Let every stage run each backward as soon as it can.

    The last stage alternates from the start: its forward is all that its backward needs. The
    stage before it has to wait longer for its first gradient, and runs one forward ahead
    meanwhile; the stage before that one, two.

    In torch: ``torch.distributed.pipelining.Schedule1F1B``.

    >>> one_f_one_b(2, 3)
    [[0F0, 0F1, 0B0, 0F2, 0B1, 0B2], [1F0, 1B0, 1F1, 1B1, 1F2, 1B2]]
    """
    raise NotImplementedError("schedule: one_f_one_b")


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
    raise NotImplementedError("schedule: source")


def simulate(orders: list[Order], forward: float = 1, backward: float = 2) -> Timeline:  # step 2
    """Work out when each action runs, if no worker waits longer than it has to.

    An action starts when two others have ended: the one before it in its worker's order, and its
    ``source``.

    Args:
        orders: One order per worker.
        forward: How long a forward takes.
        backward: How long a backward takes.

    Returns:
        A ``Timeline`` with a ``Run(action, start, end)`` for each action, worker by worker.

    Raises:
        RuntimeError: Some actions wait for each other, or for one that is in no order. Raise
            ``deadlock(pairs)``; each pair is a ``source`` and the action that waits for it. The
            message then says ``stage 0 waits for B0 of stage 1``.

    Hint: with the lists of what each action needs, ``graphlib.TopologicalSorter`` finds an order in
    which all of them can run. Its ``CycleError`` has the actions of a cycle in ``args[1]``.

    >>> timeline = simulate(gpipe(2, 2))
    >>> print(timeline)
    0F0_0F1_............0B0-----0B1-----
    ....1F0_1F1_1B0-----1B1-----........
    >>> timeline.end, round(timeline.bubble, 3)
    (9, 0.333)
    """
    raise NotImplementedError("schedule: simulate")


def alive(orders: list[Order]) -> list[int]:  # step 2
    """Return the largest number of micro-batches that each worker holds at once.

    A worker holds the activations of a micro-batch from its forward to its backward.

    >>> alive(gpipe(2, 8)), alive(one_f_one_b(2, 8))
    ([8, 8], [2, 1])
    """
    raise NotImplementedError("schedule: alive")


@dataclass(eq=False)
class Stage(Partition):  # given
    """A partition that can run on its own.

    Attributes:
        number: Its position in the pipeline, from 0.
        module: Its submodule.
    """

    number: int = 0
    module: Any = field(default=None, repr=False)


def evenly(graph: Graph, stages: int) -> Callable[[Node], int]:  # step 3
    """Return a callback for ``assign_nodes`` that cuts a graph into stages of equally many calls.

    If the calls can't be shared out equally, some stages have one more. Placeholders, ``get_attr``
    nodes and the output aren't calls.

    Raises:
        ValueError: ``stages`` isn't from 1 to the number of calls. The message has both numbers.

    >>> from lessons.tracer import symbolic_trace
    >>> graph = symbolic_trace(lambda x: (x + 1).relu().tanh().cos()).graph
    >>> cut = evenly(graph, 2)
    >>> [cut(node) for node in graph.nodes if node.op.startswith("call_")]
    [0, 0, 1, 1]
    """
    raise NotImplementedError("schedule: evenly")


def stages_of(gm: GraphModule, cut: Callable[[Node], int]) -> list[Stage]:  # step 3
    """Cut a traced model into stages, with the functions of the lesson ``split_module``.

    A stage is a partition, so it knows the values that it takes (``inputs``), each with the stage
    that makes it, and the values that others take from it (``outputs``). Besides, it needs a
    ``number`` and a ``module``: what ``build_submodule`` builds for it.

    Args:
        gm: The traced model.
        cut: Returns the stage of each call.

    Returns:
        The stages in an order in which they can run, numbered in that order from 0.

    >>> from lessons.tracer import symbolic_trace
    >>> gm = symbolic_trace(lambda x: (x + 1).relu().tanh())
    >>> for stage in stages_of(gm, evenly(gm.graph, 3)):
    ...     print(stage.number, list(stage.inputs), list(stage.outputs))
    0 [x] [add]
    1 [add] [relu]
    2 [relu] [tanh]
    """
    raise NotImplementedError("schedule: stages_of")


class Message(NamedTuple):  # given
    """The name of a value on its way between two stages: it is sent once and received once.

    Attributes:
        kind: ``"F"``: the value itself. ``"B"``: a list, on its way back, with the gradient of each
            tensor in the value that requires one, or ``None`` where there is no gradient.
        value: The node of the value.
        user: The number of the stage that uses the value.
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
        inputs: The value of each placeholder, per micro-batch.
        receives: The values that other stages make for this one.
        sends: Each value that this stage makes for another, with the number of that stage.
        loss: The node of the loss, which the model returns. One stage makes it.
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
        raise NotImplementedError("schedule: Engine.forward")

    def compute(self, microbatch: int, received: dict[Node, Any]) -> dict[Node, Any]:  # step 4
        """Call the stage's module; return its outputs by node.

        Args:
            microbatch: The number of the micro-batch.
            received: The value of each node in ``receives``.

        The module takes the stage's ``inputs`` in order. A placeholder has its value in
        ``self.inputs[microbatch]``. A ``get_attr`` node is an attribute of ``gm``; its target is a
        path, such as ``layers.0.weight``. Anything else was received, perhaps as a tuple of
        tensors. A received tensor that requires a gradient is a *leaf*: autograd's graph begins
        there, and autograd refuses a write to it in place. So pass a clone. The module returns a
        tuple, or the value itself if the stage ``returns_single``.
        """
        raise NotImplementedError("schedule: Engine.compute")

    def backward(self, microbatch: int) -> None:  # step 4
        """Receive the gradients of what was sent, run autograd, and send the gradients of the rest.

        After a backward, the gradient of a leaf is in its ``grad``: that is what the stage that
        sent the tensor is waiting for. The gradient of the loss is one, divided by the number of
        micro-batches, so the parameters get the gradient of the mean. Call autograd once, for all
        tensors that were made and got a gradient.
        """
        raise NotImplementedError("schedule: Engine.backward")


def loss_of(graph: Graph) -> Node:  # given
    """Return the node of the loss: the one value that a graph returns."""
    values = graph.find_nodes(op="output")[0].all_input_nodes
    if len(values) != 1:
        raise ValueError(f"the model returns {values}: let it return its loss, a single value")
    return values[0]


def differentiable(value: Any) -> list[Tensor]:  # given
    """Return the tensors in a value that require a gradient, including nested ones.

    >>> differentiable([torch.ones(1), {"weight": torch.ones(2, requires_grad=True)}])
    [tensor([1., 1.], requires_grad=True)]
    """
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor) and leaf.requires_grad]


class Mailbox:
    """A channel between threads.

    Attributes:
        values: The values that were sent and not yet received.
        changed: A ``Condition``: a lock with ``wait_for``, which waits without holding it.
        is_closed: Whether nothing more will be sent, because a worker failed.
    """

    def __init__(self) -> None:  # given
        self.values: dict[Message, Any] = {}
        self.changed = Condition()
        self.is_closed = False

    def send(self, message: Message, value: Any) -> None:  # step 5
        """Leave a copy of a value in the mailbox, and wake the workers that wait.

        Let each tensor be one as ``arrived`` returns it: a leaf without history, as if it came
        from another machine. A tuple or dict keeps its form.
        """
        raise NotImplementedError("schedule: Mailbox.send")

    def receive(self, message: Message) -> Any:  # step 5
        """Wait for a value, and take it out of the mailbox.

        Raises:
            ClosedError: The mailbox is closed, and the value isn't there.
        """
        raise NotImplementedError("schedule: Mailbox.receive")

    def close(self) -> None:  # given
        """Let ``receive`` fail from now on where a value isn't there, also if it waits already."""
        with self.changed:
            self.is_closed = True
            self.changed.notify_all()


def work(engines: Mapping[int, Engine], order: Order) -> None:  # given
    """Run the actions of one worker, in order. An error gets a note that names the action.

    Args:
        engines: The engines of the worker's stages, by the stages' numbers.
        order: Its order.
    """
    for action in order:
        engine = engines[action.stage]
        try:
            (engine.forward if action.kind == "F" else engine.backward)(action.microbatch)
        except Exception as error:
            error.add_note(f"While running {action}, in stage {action.stage}")
            raise


def run_threads(
    engines: Mapping[int, Engine], orders: list[Order], mailbox: Mailbox
) -> None:  # step 5
    """Let each order ``work`` in a thread of its own, and return when all have ended.

    If a worker fails, the others may wait for it forever. So close the mailbox, let them end, and
    raise the error of the one that failed, not the ``ClosedError`` of another.

    Hint: ``Workers`` is a ``ThreadPoolExecutor``; ``concurrent.futures.wait`` can return at the
    first error.
    """
    raise NotImplementedError("schedule: run_threads")


class Rehearsal(Rehearsing, Interpreter):  # given
    """Your interpreter runs the model once without data: see ``given/schedule.py``."""


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
        batch: The arguments of the model: see ``inputs_of``.
        order: ``gpipe``, ``one_f_one_b``, or another function with the same signature.
        microbatches: The number of equal parts to cut the batch into.

    Raises:
        ValueError: The batch can't be cut, or a stage writes in place to what another one uses.
        RuntimeError: The orders deadlock, which is found before anything runs.

    >>> from lessons.tracer import symbolic_trace
    >>> class Training(torch.nn.Sequential):
    ...     def forward(self, x, target):
    ...         return (super().forward(x) - target).pow(2).mean()
    >>> model = Training(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    >>> gm = symbolic_trace(model)
    >>> stages = stages_of(gm, evenly(gm.graph, 2))
    >>> batch = torch.rand(4, 2), torch.rand(4, 2)
    >>> loss = train_step(gm, stages, batch, order=one_f_one_b, microbatches=2)
    >>> torch.allclose(loss, model(*batch)), model[0].weight.grad.shape
    (True, torch.Size([2, 2]))
    """
    orders, mailbox = order(len(stages), microbatches), Mailbox()
    simulate(orders)
    inputs = inputs_of(gm.graph, batch, microbatches)
    check(Rehearsal(gm, stages), inputs[0])
    engines = {number: Engine(gm, stages, number, mailbox, inputs) for number in range(len(stages))}
    run_threads(engines, orders, mailbox)
    return torch.stack([loss for engine in engines.values() for loss in engine.losses]).mean()
