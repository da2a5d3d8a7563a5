"""What the lesson ``schedule`` gives you: time lines, values, a rehearsal, threads, a wire.

``Timeline`` prints what your clock found out. ``inputs_of`` cuts a batch. ``Rehearsing`` runs a
model on tensors without data before any stage runs. ``Workers`` are threads. ``Wire`` has the
methods of your ``Mailbox``, between processes that ``torchrun`` starts.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only

# --- the clock


class Run(NamedTuple):
    """An action, with the times at which it starts and ends."""

    action: Any
    start: float
    end: float


@dataclass
class Timeline:
    """The runs of each worker, in order.

    >>> timeline = Timeline([[Run("0F0", 0, 1), Run("0B0", 4, 6)], [Run("1F0", 1, 2)]])
    >>> print(timeline)
    0F0_............0B0_____
    ....1F0_................
    >>> timeline.end, round(timeline.bubble, 2)
    (6, 0.67)
    """

    workers: list[list[Run]]

    @property
    def end(self) -> float:
        """When the last action ends."""
        return max((run.end for runs in self.workers for run in runs), default=0)

    @property
    def bubble(self) -> float:
        """The share of the time that the workers spend waiting."""
        busy = sum(run.end - run.start for runs in self.workers for run in runs)
        return 1 - busy / (self.end * len(self.workers)) if busy else 0.0

    def __str__(self) -> str:
        return "\n".join(_row(runs, self.end) for runs in self.workers)


def _row(runs: list[Run], end: float) -> str:
    width = 4  # of a unit of time
    row = ""
    for action, start, stop in runs:
        row = row.ljust(round(start * width), ".")
        fill = "-" if getattr(action, "kind", "") == "B" else "_"
        row += str(action).ljust(round(stop * width) - len(row), fill)
    return row.ljust(round(end * width), ".")


def deadlock(pairs: Iterable[tuple[Any, Any]]) -> RuntimeError:
    """Return the error for actions (the second of each pair) that wait forever for the first."""
    waits = ", ".join(f"{user} waits for {needed}" for needed, user in [*pairs][::-1])
    return RuntimeError(f"deadlock: {waits}: change these orders")


# --- values, and the micro-batches


def loss_of(graph: Any) -> Any:
    """Return the node of the loss: the one value that a graph returns."""
    values = graph.find_nodes(op="output")[0].all_input_nodes
    if len(values) != 1:
        raise ValueError(f"the model returns {values}: let it return its loss, a single value")
    return values[0]


def differentiable(value: Any) -> list[Tensor]:
    """Return the tensors in a value that require a gradient, including nested ones.

    >>> differentiable([torch.ones(1), {"weight": torch.ones(2, requires_grad=True)}])
    [tensor([1., 1.], requires_grad=True)]
    """
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor) and leaf.requires_grad]


def inputs_of(graph: Any, batch: Sequence[Any], microbatches: int) -> list[dict[Any, Any]]:
    """Return the value of each placeholder, per micro-batch.

    Args:
        graph: The graph of a traced model.
        batch: Its arguments. A placeholder without one has its default. Every tensor in them is cut
            along its first dimension, also those in dicts, lists and tuples; a micro-batch gets
            everything else as it is.
        microbatches: The number of equal parts.

    Raises:
        ValueError: A tensor can't be cut into equal parts (one without dimensions can't), or the
            tensors have different numbers of examples.
        TypeError: There are too few or too many arguments, or one has tensors that pytree can't
            see.
    """
    nodes = graph.find_nodes(op="placeholder")
    values = [*batch, *(each for node in nodes[len(batch) :] for each in node.args)]
    if len(values) != len(nodes):
        names = ", ".join(node.name for node in nodes)
        raise TypeError(f"the model takes {names}: {len(batch)} arguments don't fit")
    tensors = _tensors_of(values)
    if any(not tensor.dim() for tensor in tensors):
        raise ValueError("a tensor without dimensions can't be cut: pass a number")
    sizes = {len(tensor) for tensor in tensors}
    if len(sizes) > 1:
        raise ValueError(f"the tensors of a batch have {sizes} examples: give all equally many")
    if any(size % microbatches for size in sizes):
        raise ValueError(
            f"a batch of {sizes.pop()} can't be cut into {microbatches} equal micro-batches: "
            f"choose a multiple of {microbatches}"
        )

    def part(number: int) -> Any:
        return tree_map_only(Tensor, lambda tensor: tensor.chunk(microbatches)[number], values)

    return [dict(zip(nodes, part(number), strict=True)) for number in range(microbatches)]


def _tensors_of(value: Any) -> list[Tensor]:
    """Return the tensors in an argument; refuse those that an object hides from pytree."""
    leaves = tree_leaves(value)
    for leaf in leaves:
        hidden = [] if isinstance(leaf, Tensor) else tree_leaves(getattr(leaf, "__dict__", None))
        if any(isinstance(each, Tensor) for each in hidden):
            raise TypeError(
                f"a `{type(leaf).__name__}` can't be cut into micro-batches, but it has tensors: "
                "pass them in a dict, or register the class with torch.utils._pytree"
            )
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


# --- a rehearsal


class Touch(NamedTuple):
    """One use of a tensor's memory.

    Attributes:
        position: When the node ran.
        node: The node.
        value: The argument that the tensor is a part of.
        copy: The value that came into the node's stage with this memory, or began it there.
        tensor: The tensor, a part of the value.
        is_write: Whether the node wrote to it.
    """

    position: int
    node: Any
    value: Any
    copy: Any
    tensor: Any
    is_write: bool


class Rehearsing:
    """Before an ``Interpreter``: runs a graph once, and finds out what the stages have to know.

    ``meta["val"]`` of a value that goes to another stage is then the value as it arrives: its
    shapes, strides and dtypes, and what requires a gradient. And a write in place that another
    stage would miss is refused.

    Args:
        module: The traced model.
        stages: Its stages.
    """

    def __init__(self, module: Any, stages: Sequence[Any]) -> None:
        super().__init__(module, False)  # type: ignore[call-arg]
        self.stages = stages
        self.home = {node: stage for stage in stages for node in stage.nodes}
        self.touches: list[Touch] = []
        self.copies: dict[Any, Any] = {}
        self.noted: set[Any] = set()
        self.result: Any = None

    def without_data(self, inputs: dict[Any, Any]) -> None:
        """Run the graph on fake tensors, which have no data, so nothing is computed."""
        with self.nothing_left(), FakeTensorMode(allow_non_fake_inputs=True) as mode:
            args = tree_map_only(Tensor, mode.from_tensor, [*inputs.values()])
            self.result = self.run(*args)  # type: ignore[attr-defined]

    def on_data(self, inputs: dict[Any, Any]) -> None:
        """Run the graph on copies of the inputs; random numbers are put back afterwards."""
        with self.nothing_left(), torch.random.fork_rng(), torch.no_grad():
            args = tree_map_only(Tensor, Tensor.clone, [*inputs.values()])
            self.result = self.run(*args)  # type: ignore[attr-defined]

    @contextmanager
    def nothing_left(self) -> Iterator[None]:
        """Put back what the block writes to buffers, and let autocast keep no cast weights."""
        before = [(buffer, buffer.clone()) for buffer in self.module.buffers()]  # type: ignore[attr-defined]
        is_cached = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)
        try:
            yield
        finally:
            torch.set_autocast_cache_enabled(is_cached)
            with torch.no_grad():
                for buffer, value in before:
                    buffer.copy_(value)

    def run_node(self, n: Any) -> Any:
        """Run a node, and note which memory it uses and which it writes to."""
        values = {value: _strided(self.env[value]) for value in n.all_input_nodes}  # type: ignore[attr-defined]
        for value in values:
            self.note_arrival(value, n)
        before = {value: [each._version for each in parts] for value, parts in values.items()}
        result = super().run_node(n)  # type: ignore[misc]
        used: dict[int, Any] = {}
        for value, parts in values.items():
            copy = self.copies.get(value, value) if self.is_local(value, n) else value
            for tensor, version in zip(parts, before[value], strict=True):
                used.setdefault(_memory(tensor), copy)
                position, is_write = len(self.env), tensor._version != version  # type: ignore[attr-defined]
                if not self.is_pick(n):
                    self.touches.append(Touch(position, n, value, copy, tensor, is_write))
        self.copies[n] = next((used[m] for m in map(_memory, _strided(result)) if m in used), n)
        return result

    def is_pick(self, n: Any) -> bool:
        """Return whether a node takes one of several values, which uses none of them."""
        is_getitem = n.op == "call_function" and n.target is operator.getitem
        return is_getitem and not isinstance(self.env[n.args[0]], Tensor)  # type: ignore[attr-defined]

    def is_local(self, value: Any, user: Any) -> bool:
        """Return whether a value is made in the stage that uses it."""
        return self.home.get(value) is self.home.get(user)

    def note_arrival(self, value: Any, user: Any) -> None:
        """Keep a value as it is when the first other stage takes it."""
        is_made = value in self.home and user in self.home
        if is_made and not self.is_local(value, user) and value not in self.noted:
            self.noted.add(value)
            value.meta["val"] = tree_map_only(Tensor, arrived, self.env[value])  # type: ignore[attr-defined]

    def refuse_writes(self) -> None:
        """Refuse a model in which a write in place wouldn't reach another use of the same memory.

        Raises:
            ValueError: There is such a write. The message names both nodes and their stages.
        """
        for write in [touch for touch in self.touches if touch.is_write]:
            for read in self.touches:
                is_other = read.node is not write.node and self.home.get(read.node)
                if is_other and _overlap(write.tensor, read.tensor) and self.differs(write, read):
                    raise ValueError(self.words(write, read))

    def differs(self, write: Touch, read: Touch) -> bool:
        """Return whether a use sees a write that it mustn't see, or doesn't see one that it must.

        Each stage has a copy of its own of what another stage makes, from the end of the maker's
        forward on. Inputs and buffers are shared, so the order of the stages would decide.
        """
        writer, reader, maker = map(self.home.get, (write.node, read.node, read.value))
        is_later = read.position > write.position
        if reader is writer:
            return is_later and read.copy is not write.copy
        return maker is None or is_later != (maker is writer)

    def words(self, write: Touch, read: Touch) -> str:
        writer, reader = self.home[write.node].number, self.home[read.node].number
        return (
            f"stage {writer} writes to `{write.value}` in place, at `{write.node}`, and "
            f"`{read.node}` in stage {reader} uses the same memory, as `{read.value}`. Stages "
            "don't share memory as one process does, so the loss would be wrong: let "
            f"`{write.node}` write to a clone, or put both nodes into one stage"
        )


def _strided(value: Any) -> list[Tensor]:
    leaves = [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
    return [leaf for leaf in leaves if leaf.layout is torch.strided]


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _overlap(left: Tensor, right: Tensor) -> bool:
    """Return whether two tensors have an element in common; where that is hard to say, they do."""
    if _memory(left) != _memory(right) or not left.numel() or not right.numel():
        return False
    if left.stride() != right.stride():
        return True
    spans = sorted(zip(left.stride(), left.shape, right.shape, strict=True), reverse=True)
    return _meet(int(right.storage_offset() - left.storage_offset()), spans)


def _meet(distance: int, spans: list[tuple[int, int, int]]) -> bool:
    """Return whether a distance is a sum of steps, so many of each stride as the sizes allow."""
    if not spans:
        return distance == 0
    (stride, left, right), *rest = spans
    if not stride:
        return _meet(distance, rest)
    ahead = sum(step * (size - 1) for step, size, _ in rest)
    back = sum(step * (size - 1) for step, _, size in rest)
    least = max(-((ahead - distance) // stride), 1 - right)
    most = min((distance + back) // stride, left - 1)
    return any(_meet(distance - steps * stride, rest) for steps in range(least, most + 1))


def check(rehearsal: Rehearsing, inputs: dict[Any, Any]) -> None:
    """Refuse a model whose stages would miss a write in place, or whose loss isn't one number.

    A model that needs data to run (it branches, or a shape depends on a value) runs once on a copy
    of the inputs. An error of the model's own is left to the stage that meets it.
    """
    try:
        rehearsal.without_data(inputs)
    except Exception:
        rehearsal = type(rehearsal)(rehearsal.module, rehearsal.stages)  # type: ignore[attr-defined]
        with suppress(Exception):
            rehearsal.on_data(inputs)
    rehearsal.refuse_writes()
    for loss in _strided(rehearsal.result):
        if loss.numel() != 1:
            shape = tuple(loss.shape)
            raise ValueError(f"the model returns a tensor of shape {shape}: let it return its mean")


# --- workers


def work(engines: Mapping[int, Any], order: Sequence[Any]) -> None:
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


class Workers(ThreadPoolExecutor):
    """Threads that have the autocast of the thread that makes them; plain threads have none."""

    def __init__(self, count: int) -> None:
        state = [
            (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
            for device in ("cpu", "cuda")
        ]
        super().__init__(count, initializer=_set_autocast, initargs=(state,))


def _set_autocast(state: list[tuple[str, bool, torch.dtype]]) -> None:
    for device, is_enabled, dtype in state:
        torch.set_autocast_enabled(device, is_enabled)
        torch.set_autocast_dtype(device, dtype)


class ClosedError(RuntimeError):
    """A worker waits for a value that no other worker will send."""


def arrived(tensor: Tensor) -> Tensor:
    """Return a tensor as another process receives it: a leaf, without history, with its strides."""
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


class Timed:
    """A channel that knows for how many seconds one worker has ``waited`` for values."""

    def __init__(self, channel: Any) -> None:
        self.channel, self.send, self.waited = channel, channel.send, 0.0

    def receive(self, message: Any) -> Any:
        """Wait for a value."""
        start = time.perf_counter()
        value = self.channel.receive(message)
        self.waited += time.perf_counter() - start
        return value


# --- processes


class Wire:
    """A channel between processes: stage ``s`` runs in the process of rank ``s % world_size``.

    Only tensors travel. Both sides know their shapes, strides and dtypes from ``meta["val"]``, and
    all other values, too. A gradient travels with one more number: whether it exists.

    What an action sends and what the next action receives is started as one batch, so two
    processes that send to each other don't wait for each other. With gloo, the tag tells messages
    apart; nccl has no tags, there the order of the messages does. With several stages per process
    that order may differ between two processes: use gloo then.

    A send goes on in the background: ``flush`` the wire before you drop it.

    Args:
        stages: All stages, also those of other processes, after a rehearsal.
        order: The actions of this process.
        device: Where its tensors are.

    In torch: ``torch.distributed.batch_isend_irecv``, as in its schedules.
    """

    def __init__(self, stages: Sequence[Any], order: Sequence[Any], device: Any = "cpu") -> None:
        self.rank, self.size, self.device = dist.get_rank(), dist.get_world_size(), device
        self.crossings = {
            (value, user.number): maker.number
            for user in stages
            for value, maker in user.inputs.items()
            if maker is not None
        }
        self.next = dict(pairwise(order))
        self.here: dict[Any, Any] = {}
        self.queued: dict[Any, list[Tensor]] = {}
        self.coming: dict[Any, tuple[list[Any], list[Tensor]]] = {}
        self.started: list[Any] = []  # keeps tensors alive until they have left

    def send(self, message: Any, value: Any) -> None:
        """Queue a value; with the last one of an action, start all of them."""
        origin, to = self.ends(message)
        if self.place(to) == self.rank:
            self.here[message] = tree_map_only(Tensor, arrived, value)
            self.queued[message] = []
        else:
            self.queued[message] = list(self.packed(message, value))
        action = origin, message[0], message[-1]
        if set(self.messages(action, sent=True)) <= set(self.queued):
            after = self.next.get(action)
            self.start(self.messages(after, sent=False) if after else [])

    def receive(self, message: Any) -> Any:
        """Wait for a value."""
        origin, to = self.ends(message)
        if self.place(origin) == self.rank:
            return self.here.pop(message)
        if not self.likes(message):  # nothing travels
            return self.unpacked(message, [])
        if message not in self.coming:
            self.start(self.messages((to, message[0], message[-1]), sent=False))
        works, parts = self.coming.pop(message)
        for work in works:
            work.wait()
        return self.unpacked(message, parts)

    def ends(self, message: Any) -> tuple[int, int]:
        """Return the stage that sends a message, and the one that receives it."""
        kind, value, user, _ = message
        maker = self.crossings[value, user]
        return (maker, user) if kind == "F" else (user, maker)

    def place(self, stage: int) -> int:
        """Return the rank of the process that runs a stage."""
        return stage % self.size

    def messages(self, action: Any, *, sent: bool) -> list[Any]:
        """Return the messages that an action sends, or those that it receives."""
        stage, kind, microbatch = action
        every = [(kind, value, user, microbatch) for value, user in self.crossings]
        every = [each for each in every if self.ends(each)[not sent] == stage]
        return [each for each in every if self.likes(each)]

    def start(self, arrivals: Iterable[Any]) -> None:
        """Start the queued sends and these receives, as one batch."""
        remote = [each for each in arrivals if self.place(self.ends(each)[0]) != self.rank]
        coming = {each: list(self.empty(each)) for each in remote if each not in self.coming}
        operations = [
            dist.P2POp(call, part, self.place(self.ends(message)[end]), tag=self.tag(message))
            for call, end, parts_of in ((dist.isend, 1, self.queued), (dist.irecv, 0, coming))
            for message, parts in parts_of.items()
            for part in parts
        ]
        works = dist.batch_isend_irecv(operations) if operations else []
        if len(works) < len(operations):  # nccl has one for all
            works = works * len(operations)
        self.started = [each for each in self.started if not each[0].is_completed()]
        sends = sum(map(len, self.queued.values()))
        self.started += zip(works[:sends], operations[:sends], strict=True)
        received = works[sends:]
        for message, parts in coming.items():
            self.coming[message] = received[: len(parts)], parts
            del received[: len(parts)]
        self.queued.clear()

    def flush(self) -> None:
        """Wait until everything has left. A tensor that is freed before that never arrives."""
        for work, _ in self.started:
            work.wait()
        self.started.clear()

    def tag(self, message: Any) -> int:
        """Return a number of its own for each value, direction and micro-batch."""
        kind, value, user, microbatch = message
        number = list(self.crossings).index((value, user))
        return (2 * microbatch + (kind == "B")) * len(self.crossings) + number

    def likes(self, message: Any) -> list[Tensor]:
        """Return a tensor without data for each one that travels."""
        tensors = [each for each in tree_leaves(message[1].meta["val"]) if isinstance(each, Tensor)]
        return [each for each in tensors if message[0] == "F" or each.requires_grad]

    def empty(self, message: Any) -> Iterator[Tensor]:
        """Yield the memory for each tensor of a message, in one dimension."""
        for like in self.likes(message):
            size = like.numel() + (message[0] == "B")
            yield torch.zeros(size, dtype=like.dtype, device=self.device)

    def packed(self, message: Any, value: Any) -> Iterator[Tensor]:
        """Yield the data of each tensor, in the order of its memory."""
        tensors = [each for each in tree_leaves(value) if isinstance(each, Tensor)]
        parts = value if message[0] == "B" else tensors
        for part, like, tensor in zip(self.empty(message), self.likes(message), parts, strict=True):
            if tensor is not None:
                part.as_strided(like.shape, like.stride()).copy_(tensor.detach())
                part[like.numel() :] = 1
            yield part

    def unpacked(self, message: Any, parts: list[Tensor]) -> Any:
        """Return the value that some data stands for."""
        pairs = zip(parts, self.likes(message), strict=True)
        tensors = [part.as_strided(like.shape, like.stride()) for part, like in pairs]
        if message[0] == "B":
            return [
                tensor if part[-1] else None for tensor, part in zip(tensors, parts, strict=True)
            ]
        left = iter(tensors)

        def next_one(like: Tensor) -> Tensor:
            return next(left).requires_grad_(like.requires_grad)

        return tree_map_only(Tensor, next_one, message[1].meta["val"])


def sum_shared(stages: Sequence[Any], root: torch.nn.Module) -> None:
    """Add up the gradients of the parameters that stages of several processes use.

    Args:
        stages: All stages.
        root: The traced model, whose parameters they use.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    users: dict[Tensor, set[int]] = {}
    for stage in stages:
        read = {str(value.target) for value in stage.inputs if value.op == "get_attr"}
        passed = [
            each for name, each in root.named_parameters(remove_duplicate=False) if name in read
        ]
        for parameter in (*stage.module.parameters(), *passed):
            users.setdefault(parameter, set()).add(stage.number % size)
    for parameter, ranks in users.items():
        if len(ranks) > 1 and parameter.requires_grad:
            mine = parameter.grad if rank in ranks else None
            total = _with_count(mine, parameter)
            dist.all_reduce(total)
            if rank in ranks and total[-1]:
                parameter.grad = total[:-1].view_as(parameter)


def _with_count(gradient: Tensor | None, parameter: Tensor) -> Tensor:
    """Return a gradient in one dimension, and after it whether there is one."""
    values = torch.zeros_like(parameter) if gradient is None else gradient
    count = values.new_tensor([float(gradient is not None)])
    return torch.cat([values.detach().flatten(), count])
