"""Small models that return their loss, a channel without threads, torch's schedules, and ranks.

``torchrun -m tests.models.schedule FOLDER CASE ...`` runs cases of the stretch's tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, relu
from torch.utils._pytree import tree_map_only

from given.schedule import Wire, arrived, inputs_of, sum_shared
from kata.paths import ROOT
from tests.suite import equal, holds
from tests.suite.engine import symbolic_trace
from tests.suite.expect import Words, numeric_difference
from tests.suite.implementations import core_of, reference_of

# --- models


class Training(nn.Module):
    """Layers and a parameter; the loss is one of the ``output``, a function of the model."""

    def __init__(self, output: Callable[[Any, Tensor, Tensor], Tensor] | None = None):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))
        self.layers = nn.Sequential(*(nn.Linear(4, 4) for _ in range(8)))
        self.scale = nn.Parameter(torch.rand(4))
        self.output = output

    def forward(self, x, mask, target):
        return cross_entropy(self.output(self, x, mask), target)


def skip(model, x, mask):
    """A parameter of its own, a module used twice, values that pass by a stage, a size, a list."""
    early = model.a(x) * model.scale
    left, right = early.chunk(2, -1)
    late = torch.relu(model.a(torch.cat([right, left], -1) * mask))
    return model.c(late / x.size(-1) + early) * model.scale


def in_place(model, x, mask):
    """Each activation writes to what the layer before it returned."""
    return relu(model.b(relu(model.a(x * mask), inplace=True)), inplace=True)


def frozen(model, x, mask):
    """Only the last layer has gradients, and an index is passed through all stages."""
    model.a.requires_grad_(False)
    order = (x * mask).argsort(-1)
    return model.c(torch.tanh(model.a(x)).gather(-1, order))


def early(model, x, mask):
    """The first of three stages makes a value that the second and the last one need."""
    early = model.a(x).tanh()
    return model.c(model.b(early)) + early


def detached(model, x, mask):
    """The second of three stages uses a value that requires a gradient, and gives it none."""
    return model.c(model.b(model.a(x).relu().detach()))


def in_a_tuple(model, x, mask):
    """The fifth call returns a tuple, and the seventh of eleven writes to a tensor in it."""
    halves = (-model.a(x * 2).tanh()).unsafe_chunk(2, -1)
    written = halves[0].add_(1)
    return model.c(torch.cat([written, halves[1]], -1))


def halves(model, x, mask):
    """A tuple goes to the next stage, which gives a gradient to its second tensor alone."""
    halves = model.a(x).split(2, -1)
    return model.c(torch.cat([halves[0].detach(), halves[1]], -1))


def turned(model, x, mask):
    """A transposed value goes to the next stage, where only its strides allow a view."""
    turned = model.a(x).t()
    return model.c(turned.tanh().t().view(-1).view(-1, 4))


def tied(model, x, mask):
    """The first and the last stage use the same parameter."""
    return linear(model.b(model.a(x)), model.a.weight)


def row(model, x, mask):
    """One tensor goes from layer to layer, so torch's own stages can run all but the loss."""
    return model.layers(x)


class Perplexity(Training):
    """The second of three stages sends on its first value and the loss; the product is unused."""

    def forward(self, x, mask, target):
        y = self.b(self.a(x)).relu()
        loss = cross_entropy(y, target)
        y * loss
        return loss


OUTPUTS = (skip, in_place, frozen, early, detached, in_a_tuple, halves, turned, tied, row)
MODELS: dict[str, Callable[[], Training]] = {
    **{each.__name__: partial(Training, each) for each in OUTPUTS},
    "perplexity": Perplexity,
}


# --- what a stage writes in place, though another one uses the same memory


def residual(model, x, mask):
    """An activation writes to its argument, which is used again later."""
    y = model.a(x)
    return model.c(model.b(relu(y, inplace=True)).tanh()) + y


def through_a_view(model, x, mask):
    """The write goes to a view of what another stage uses."""
    y = model.a(x)
    return model.c(model.b(y[:, :4].mul_(2))) + y


def to_an_input(model, x, mask):
    """The write goes to an input of the model."""
    return model.c(model.b(model.a(mask.mul_(2))).tanh()) * mask


def two_copies(model, x, mask):
    """A stage receives a value and a view of it, and writes to one of them."""
    y = model.a(x)
    turned = y.t()
    return model.c(model.b(y.tanh_())) + turned.t()


def too_soon(model, x, mask):
    """A value is written to after another stage has used it, and before it is sent."""
    y = model.a(x)
    z = model.b(y)
    y.mul_(2)
    return model.c(z) + y


WRITES = {
    "a value": (residual, {"a": 0, "relu": 1, "b": 1}),
    "through a view": (through_a_view, {"a": 0, "getitem": 1, "mul_": 1, "b": 1}),
    "an input": (to_an_input, {"mul_": 0, "a": 0, "b": 0}),
    "one of two copies": (two_copies, {"a": 0, "t": 0}),
    "too soon": (too_soon, {"a": 0, "b": 1, "mul_": 0}),
}


# --- a task


class Task(NamedTuple):
    """A traced model, its stages, a batch and its micro-batches, and what one process computes."""

    gm: Any
    stages: list[Any]
    batch: tuple[Tensor, ...]
    inputs: list[dict[Any, Any]]
    loss: Tensor
    gradients: dict[str, Tensor]


def task(lesson, model: str = "skip", *, stages: int = 3, microbatches: int = 4) -> Task:
    """A model that is cut into stages, and the numbers of one process."""
    torch.manual_seed(0)
    gm = symbolic_trace(MODELS[model]())
    count = 2 * microbatches
    batch = torch.rand(count, 4), torch.rand(count, 4), torch.randint(4, (count,))
    inputs = inputs_of(gm.graph, batch, microbatches)
    losses = torch.stack([gm(*each.values()) for each in inputs])
    losses.mean().backward()
    found = gradients(gm)
    gm.zero_grad()
    parts = lesson.stages_of(gm, lesson.evenly(gm.graph, stages))
    return Task(gm, parts, batch, inputs, losses.mean().detach(), found)


def gradients(module: nn.Module) -> dict[str, Tensor]:
    named = module.named_parameters()
    return {name: each.grad.clone() for name, each in named if each.grad is not None}


def same_gradients(
    actual: dict[str, Tensor], expected: dict[str, Tensor], *, cause: Any = ""
) -> None:
    """Fail unless the gradients are those of one process; name the first one that isn't."""
    zeros = lambda _: any(not actual[name].any() for name in actual.keys() - expected.keys())
    words = "zeros are sent or passed on where there is no gradient: a parameter gets some, too"
    equal(sorted(actual), sorted(expected), cause=(zeros, words))
    for name in sorted(expected):
        difference = numeric_difference(actual[name], expected[name])
        wanted = f"the gradient of `{name}` that one process computes"
        holds(not difference, wanted, got=Words(difference), cause=cause)


# --- engines without threads


class Post:
    """A channel for engines that run one after the other; it never waits."""

    def __init__(self) -> None:
        self.there: dict[Any, Any] = {}  # sent, and not yet received
        self.sent: dict[Any, Any] = {}

    def send(self, message: Any, value: Any) -> None:
        copy = tree_map_only(Tensor, arrived, value)
        self.there[message] = self.sent[message] = copy

    def receive(self, message: Any) -> Any:
        is_of_another = any(each == message._replace(user=each.user) for each in self.sent)
        holds(
            message in self.there,
            f"`receive` of a message that was sent: {message}",
            got=Words(f"{len(self.there)} other messages: {[*self.there][:3]}"),
            cause=[
                (message in self.sent, "it was received before"),
                (is_of_another, "`user` is the stage that uses the value, also on the way back"),
            ],
            hint="a value, or its gradients, is sent once per micro-batch and user",
        )
        return self.there.pop(message)


def engines(lesson, batch: Task, kind: str = "Engine") -> list[Any]:
    """An engine for each stage, all with one channel."""
    post, make = Post(), getattr(lesson, kind)
    count = range(len(batch.stages))
    return [make(batch.gm, batch.stages, number, post, batch.inputs) for number in count]


def run(stages: list[Any], orders: list[list[Any]]) -> list[int]:
    """Run all actions when the clock says; return the most that each stage held at once."""
    clock, most = core_of("schedule").simulate(orders), [0] * len(stages)
    for action, *_ in sorted(chain(*clock.workers), key=attrgetter("start")):
        number, kind, microbatch = action
        engine = stages[number]
        (engine.forward if kind == "F" else engine.backward)(microbatch)
        most[number] = max(most[number], len(engine.held))
    left = stages[0].channel.there
    holds(
        not left,
        "each message that was sent to be received once",
        got=Words(f"{len(left)} that were never received: {[*left][:3]}"),
    )
    return most


def loss_of(stages: list[Any]) -> Tensor:
    return torch.stack([loss for engine in stages for loss in engine.losses]).mean()


# --- torch's orders


def torch_orders(
    schedule: str, processes: int, microbatches: int, rounds: int = 1
) -> list[list[str]]:
    """Return the order of each process in a schedule of torch's, printed as ours is."""
    from torch.distributed import pipelining

    fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    # this process is the first of some that aren't there
    dist.init_process_group("fake", rank=0, world_size=processes, store=fake.FakeStore())
    try:
        count, device = processes * rounds, torch.device("cpu")
        numbers = range(0, count, processes)
        own = [pipelining.PipelineStage(nn.Identity(), each, count, device) for each in numbers]
        kind = getattr(pipelining, schedule)
        made = kind(own if rounds > 1 else own[0], microbatches, loss_fn=cross_entropy)
    except ValueError as error:
        pytest.skip(f"torch refuses: {error}")
    finally:
        dist.destroy_process_group()
    orders = getattr(made, "pipeline_order", None) or made._get_pipeline_order()
    return [[str(each) for each in orders[rank] if is_action(each)] for rank in range(processes)]


def is_action(each: Any) -> bool:
    return each is not None and "REDUCE" not in str(each)


# --- processes that torchrun starts


def torchrun(
    *words: str, processes: int = 2, place: tuple[str, ...] = ("--standalone",)
) -> subprocess.Popen[str]:
    if not dist.is_gloo_available():
        pytest.skip("this torch has no gloo")
    command = [sys.executable, "-m", "torch.distributed.run", *place]
    return subprocess.Popen(
        [*command, f"--nproc-per-node={processes}", *words],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(agent: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for an agent of torchrun; return its exit code and what was printed."""
    try:
        printed, _ = agent.communicate(timeout=120)
    finally:
        agent.terminate()  # it ends its processes, too; a kill would leave them
        agent.wait(30)
    return agent.returncode, printed


def ranks(cases: list[str], processes: int, folder: Path) -> list[dict[str, Any]]:
    """Return what some cases return, by their names, in each of some processes."""
    agent = torchrun("-m", "tests.models.schedule", str(folder), *cases, processes=processes)
    code, printed = finished(agent)
    holds(code == 0, "all processes to end well", got=Words(printed[-2000:]))
    return [torch.load(folder / f"{rank}.pt") for rank in range(processes)]


Results = tuple[list[Tensor], dict[str, Tensor]]


def step_on_wire(model: str, schedule: str, rounds: int = 1) -> Results:
    """The losses and the gradients of one step on this rank."""
    lesson = reference_of("schedule")
    rank, size = dist.get_rank(), dist.get_world_size()
    batch = task(lesson, model, stages=size * rounds)
    lesson.Rehearsal(batch.gm, batch.stages).without_data(batch.inputs[0])
    order = getattr(lesson, schedule)(size, len(batch.inputs))[rank]
    wire = Wire(batch.stages, order)
    own = {
        number: lesson.Engine(batch.gm, batch.stages, number, wire, batch.inputs)
        for number in range(rank, size * rounds, size)
    }
    lesson.work(own, order)
    wire.flush()
    sum_shared(batch.stages, batch.gm)
    dist.barrier()
    losses = [loss for engine in own.values() for loss in engine.losses]
    return losses, gradients(batch.gm)


def step_of_torch(schedule: str) -> Results:
    """The same of torch's pipelining, whose last stage leaves the loss to the schedule."""
    from torch.distributed import pipelining

    lesson = reference_of("schedule")
    rank, size = dist.get_rank(), dist.get_world_size()
    batch = task(lesson, "row", stages=size)
    calls = [node for node in batch.stages[rank].nodes if node.op == "call_module"]
    layers = nn.Sequential(*(batch.gm.get_submodule(str(node.target)) for node in calls))
    stage = pipelining.PipelineStage(layers, rank, size, torch.device("cpu"))
    made = getattr(pipelining, schedule)(stage, len(batch.inputs), loss_fn=cross_entropy)
    losses: list[Tensor] = []
    made.step(*[batch.batch[0]] * (rank == 0), target=batch.batch[-1], losses=losses)
    return [each.detach() for each in losses], gradients(batch.gm)


TORCH = {"gpipe": "ScheduleGPipe", "one_f_one_b": "Schedule1F1B"}


def result_of(case: str) -> Results:
    """Run a case: a model (``torch``: its own stages) and a schedule."""
    model, schedule = case.split()
    if model == "torch":
        return step_of_torch(TORCH[schedule])
    return step_on_wire(model, schedule, rounds=2 if schedule == "interleaved" else 1)


def main(folder: str, *cases: str) -> None:
    """Save what some cases return on this rank."""
    from tests.suite import engine

    torch.set_num_threads(1)
    engine.use(torch.fx)
    dist.init_process_group("gloo")
    results = {case: result_of(case) for case in cases}
    torch.save(results, Path(folder, f"{dist.get_rank()}.pt"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
