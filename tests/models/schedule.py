"""Small models to cut, the stages of a pipeline as threads, and torch's own schedules."""

from __future__ import annotations

import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils._pytree import tree_map_only

from tests.suite import equal, holds
from tests.suite.engine import symbolic_trace
from tests.suite.expect import Words, numeric_difference

# --- models


class Skip(nn.Module):
    """A parameter of its own, a module used twice, values that pass by a stage, a size, a list."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.rand(4))

    def forward(self, x, mask):
        early = self.first(x) * self.scale
        left, right = early.chunk(2, -1)
        late = torch.relu(self.first(torch.cat([right, left], -1) * mask))
        return self.last(late / x.size(-1) + early) * self.scale


class InPlace(nn.Module):
    """Each layer's activation writes to what the layer returned."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4), nn.ReLU(inplace=True))
        )

    def forward(self, x, mask):
        return self.layers(x * mask)


class Frozen(nn.Module):
    """Only the last layer has gradients, and an index is passed through all stages."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 4)

    def forward(self, x, mask):
        order = (x * mask).argsort(-1)
        return self.head(torch.tanh(self.body(x)).gather(-1, order))


class Early(nn.Module):
    """Returns, among others, a value of the first stage, which the second needs, too."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x, mask):
        early = self.first(x).tanh()
        return {"late": self.third(self.second(early)) * mask, "early": early}


class Detached(Early):
    """The second of three stages uses a value that requires a gradient, and gives it none."""

    def forward(self, x, mask):
        early = self.first(x).relu()
        return self.third(self.second(early.detach())) * mask


class Defaults(nn.Module):
    """An argument that isn't passed has a default."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, scale=2.0):
        return self.last(self.first(x).tanh() * scale)


class InATuple(nn.Module):
    """Of ten calls, the fifth returns a tuple, and the seventh writes to a tensor in it."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(2, 4)

    def forward(self, x):
        halves = (-self.first(x * 2).tanh()).unsafe_chunk(2, -1)
        written = halves[0].add_(1)
        return self.last(written * halves[1])


class Row(nn.Sequential):
    """One tensor goes from layer to layer, so torch's own stages can run it."""

    def __init__(self):
        super().__init__(*(nn.Linear(4, 4) for _ in range(8)))


MODELS = {"Skip": Skip, "InPlace": InPlace, "Frozen": Frozen, "Early": Early, "Detached": Detached}
ALONE = {"Row": Row, "Defaults": Defaults, "InATuple": InATuple}


def loss_of(output: Any, targets: Tensor) -> Tensor:
    """Cross entropy of the output, or of the sum of a dict's values."""
    return cross_entropy(sum(output.values()) if isinstance(output, dict) else output, targets)


class Task(NamedTuple):
    """A cut model, its micro-batches, and the loss and gradients that one process computes.

    Attributes:
        cut: The cut model.
        inputs: The arguments, per micro-batch.
        targets: The targets, per micro-batch.
        loss: The mean loss.
        gradients: The mean gradients, by the names that the cut model's parameters have.
    """

    cut: Any
    inputs: list[tuple[Tensor, ...]]
    targets: list[Tensor]
    loss: Tensor
    gradients: dict[str, Tensor]


def task(lesson, model: str = "Skip", *, stages: int = 3, microbatches: int = 4) -> Task:
    """A model, cut into stages that have equally many calls, and one process's numbers."""
    torch.manual_seed(0)
    made = (MODELS | ALONE)[model]()
    cut = lesson.cut_evenly(symbolic_trace(made), stages)
    count = sum(not node.args for node in cut.graph.find_nodes(op="placeholder"))
    inputs = [tuple(torch.rand(2, 4) for _ in range(count)) for _ in range(microbatches)]
    targets = [torch.randint(4, (2,)) for _ in range(microbatches)]
    whole = deepcopy(cut)
    losses = [loss_of(whole(*each), goal) for each, goal in zip(inputs, targets, strict=True)]
    torch.stack(losses).mean().backward()
    gradients = {n: p.grad for n, p in whole.named_parameters() if p.grad is not None}
    return Task(cut, inputs, targets, torch.stack(losses).mean().detach(), gradients)


def whole(batch: Task) -> tuple[tuple[Tensor, ...], Tensor]:
    """The inputs and the targets of a task, not cut into micro-batches."""
    return tuple(map(torch.cat, zip(*batch.inputs, strict=True))), torch.cat(batch.targets)


# --- a pipeline in one process


class Mailbox:
    """A channel between threads: values arrive without their history."""

    def __init__(self, number: int, boxes: dict, stop: threading.Event) -> None:
        self.number, self.boxes, self.stop = number, boxes, stop
        self.sent: list[tuple[str, int, int]] = []

    def box(self, source: int, to: int, microbatch: int) -> queue.Queue:
        return self.boxes.setdefault((source, to, microbatch), queue.Queue())

    def send(self, value, to, microbatch):
        copy = tree_map_only(Tensor, copied, value)
        self.sent.append(("F" if to > self.number else "B", to, microbatch))
        self.box(self.number, to, microbatch).put(copy)

    def receive(self, source, microbatch):
        deadline = time.monotonic() + 5
        while not self.stop.is_set() and time.monotonic() < deadline:
            try:
                return self.box(source, self.number, microbatch).get(timeout=0.02)
            except queue.Empty:
                continue
        raise Stopped(f"stage {self.number} got nothing of micro-batch {microbatch} from {source}")

    def flush(self):
        pass


class Stopped(Exception):
    """A stage waits for a value that no other stage sends."""


def copied(tensor: Tensor) -> Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def engines(lesson, batch: Task, kind: str = "Engine") -> list[Any]:
    """An engine for each stage, each with a model of its own, joined by mailboxes."""
    boxes: dict = {}
    stop = threading.Event()
    count = len(list(batch.cut.graph.find_nodes(op="call_module")))
    return [
        getattr(lesson, kind)(
            deepcopy(batch.cut),
            number,
            Mailbox(number, boxes, stop),
            batch.inputs,
            batch.targets,
            loss_of,
        )
        for number in range(count)
    ]


def run(stages: list[Any], orders: list[list[Any]]) -> None:
    """Run each engine in a thread; raise what the first of them raised."""
    errors: list[BaseException] = []

    def work(engine, order):
        try:
            engine.run(order)
        except BaseException as error:
            errors.append(error)
            engine.channel.stop.set()

    threads = [
        threading.Thread(target=work, args=each) for each in zip(stages, orders, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise min(errors, key=lambda error: isinstance(error, Stopped))


def results(stages: list[Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """The mean loss of the stages' engines, and the mean gradients."""
    losses = [loss for engine in stages for loss in engine.losses]
    gradients: dict[str, Tensor] = {}
    for engine in stages:
        for name, parameter in engine.gm.named_parameters():
            if parameter.grad is not None:
                gradients[name] = gradients.get(name, 0) + parameter.grad / len(losses)
    return torch.stack(losses).mean(), gradients


def sorted_by_name(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return dict(sorted(tensors.items()))


def same_gradients(
    actual: dict[str, Tensor], expected: dict[str, Tensor], *, cause: Any = ""
) -> None:
    """Fail unless the gradients are those of one process; name the first one that isn't."""
    equal(sorted(actual), sorted(expected))
    for name in sorted(expected):
        difference = numeric_difference(actual[name], expected[name])
        wanted = f"the gradient of `{name}` that one process computes"
        holds(not difference, wanted, got=Words(difference), cause=cause)


# --- processes


def in_processes(count: int, work: Callable[[int], Any], folder: Path) -> list[Any]:
    """Return what ``work(rank)`` returns in each of some processes that are joined by gloo."""
    if not dist.is_gloo_available():
        pytest.skip("this torch has no gloo")

    def run(rank: int) -> None:
        torch.set_num_threads(1)
        store = Path(folder, "store").as_uri()
        dist.init_process_group("gloo", store, rank=rank, world_size=count)
        torch.save(work(rank), Path(folder, f"{rank}.pt"))
        dist.barrier()
        os._exit(0)

    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=run, args=(rank,)) for rank in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        process.kill()
    return [torch.load(Path(folder, f"{rank}.pt"), weights_only=False) for rank in range(count)]


def exchanged(lesson, values: list[Any], folder: Path) -> list[Any]:
    """Send values to another process, which receives the last first, and return the received."""
    make = lesson.Channel  # here: a process that skips its test would be lost

    def work(rank: int) -> Any:
        try:
            channel = make()
            if rank == 0:
                for number, value in enumerate(values):
                    channel.send(value, 1, number)
                channel.flush()
                return None
            return [channel.receive(0, number) for number in reversed(range(len(values)))][::-1]
        except Exception as error:
            return error

    sent, arrived = in_processes(2, work, folder)
    for outcome in (sent, arrived):
        if isinstance(outcome, Exception):
            raise outcome
    return arrived


# --- torch


@contextmanager
def first_rank_of(count: int) -> Iterator[None]:
    """Let this process be the first of some that aren't there, for torch's schedules."""
    fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    dist.init_process_group("fake", rank=0, world_size=count, store=fake.FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def torch_orders(schedule: Any, stages: int, microbatches: int) -> list[list[str]]:
    """Return the order of each stage in a schedule of torch's, printed as ours is."""
    from torch.distributed.pipelining import PipelineStage

    with first_rank_of(stages):
        stage = PipelineStage(nn.Linear(2, 2), 0, stages, torch.device("cpu"))
        try:
            made = schedule(stage, microbatches, loss_fn=loss_of)
        except ValueError as error:
            pytest.skip(f"torch refuses: {error}")
        if not hasattr(made, "_get_pipeline_order"):
            pytest.skip("this torch doesn't tell its order")
        orders = made._get_pipeline_order()
    return [
        [str(each).lstrip("0123456789") for each in orders[rank] if is_action(each)]
        for rank in range(stages)
    ]


def torch_interleaved_orders(processes: int, microbatches: int, rounds: int) -> list[list[str]]:
    """Return the order of each process in torch's interleaved schedule, printed as ours is."""
    from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B

    count, device = processes * rounds, torch.device("cpu")
    with first_rank_of(processes):
        numbers = range(0, count, processes)
        own = [PipelineStage(nn.Linear(2, 2), number, count, device) for number in numbers]
        orders = ScheduleInterleaved1F1B(own, microbatches, loss_fn=loss_of).pipeline_order
    return [[str(each) for each in orders[rank] if is_action(each)] for rank in range(processes)]


def is_action(each: Any) -> bool:
    return each is not None and "REDUCE" not in str(each)


def torch_gradients(batch: Task, schedule: str, folder: Path) -> dict[str, Tensor]:
    """The gradients that torch's pipelining computes, one process per stage, on the same stages."""
    from torch.distributed import pipelining

    (inputs,), targets = whole(batch)
    count = len(list(batch.cut.children()))

    def work(rank: int) -> dict[str, Tensor]:
        module = getattr(batch.cut, f"submod_{rank}")
        stage = pipelining.PipelineStage(module, rank, count, torch.device("cpu"))
        made = getattr(pipelining, schedule)(stage, len(batch.targets), loss_fn=loss_of)
        made.step(*[inputs] * (rank == 0), target=targets)
        named = batch.cut.named_parameters()
        return {name: each.grad for name, each in named if each.grad is not None}

    return {k: v for part in in_processes(count, work, folder) for k, v in part.items()}
