"""Run a split model as a pipeline: every stage in a process of its own, on PyTorch's own engine.

The model is traced, cut with ``split_module`` (yours, or the reference's) and handed to
``torch.distributed.pipelining``: one process a stage, micro-batches between them, gradients back.
The same batch then runs in one process, and the numbers are compared.

The processes speak gloo on the CPU, or nccl where every stage can have a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from datetime import timedelta
from multiprocessing import connection
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import SimpleQueue
from operator import attrgetter
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.fx import GraphModule, Node, symbolic_trace

from kata.torchvision_compat import torchvision

PROCESSES = multiprocessing.get_context("spawn")
# How long the processes wait for each other before they give up.
PATIENCE = timedelta(seconds=60)
# How long a stage that was asked to end may take before it is killed.
GRACE = 2.0
# Micro-batches add up in another order than a batch does: how far the sums may differ.
TOLERANCE = 1e-4

# The number of a stage, and the traceback of what went wrong there; the first comes first.
Failures = SimpleQueue[tuple[int, str]]


class PipelineError(RuntimeError):
    """A pipeline that cannot be built, or whose stages did not all finish."""


@dataclass(frozen=True)
class Plan:
    """What to run, and how; every process gets the same plan.

    Attributes:
        model: a classification model of torchvision, by name.
        stages: the number of stages, and of processes.
        batch: images in the batch.
        micro_batches: parts of the batch that follow each other through the pipeline.
        size: height and width of the images.
        rounds: how often the batch goes through; gradients are those of the last round.
        impl: whose ``split_module``: ``lessons`` or ``solutions``.
    """

    model: str
    stages: int = 2
    batch: int = 8
    micro_batches: int = 4
    size: int = 64
    rounds: int = 1
    impl: str = "lessons"

    @property
    def on_gpus(self) -> bool:
        """Whether every stage can have a GPU of its own."""
        return dist.is_nccl_available() and torch.cuda.device_count() >= self.stages

    @property
    def backend(self) -> str:
        return "nccl" if self.on_gpus else "gloo"

    def device(self, stage: int) -> torch.device:
        return torch.device("cuda", stage) if self.on_gpus else torch.device("cpu")

    def build_model(self) -> nn.Module:
        """The model with the same weights in every process.

        In eval mode: the statistics of a batch norm would see micro-batches, not the batch.
        """
        torch.manual_seed(0)
        model: nn.Module = torchvision.models.get_model(self.model, weights=None)
        return model.eval()

    def images_and_targets(self) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(1)
        images = torch.rand(self.batch, 3, self.size, self.size, generator=generator)
        return images, torch.arange(self.batch)


@dataclass
class Result:
    """What a run gave: the last stage's output, and the gradient of every parameter by its name."""

    output: Tensor
    gradients: dict[str, Tensor]


# Cutting


def narrow_places(m: GraphModule) -> list[int]:
    """List the places where the graph can be cut so that a single tensor travels.

    Parameters do not travel: each stage has its own.

    Args:
        m: a traced model.

    Returns:
        The number of calls in front of each such place.

    >>> narrow_places(symbolic_trace(lambda x: torch.tanh(torch.relu(x) * x) + 1))
    [2, 3]
    """
    calls = calls_of(m)
    place = {node: number for number, node in enumerate(calls, start=1)}
    values = [node for node in m.graph.nodes if node.op in {"placeholder", *CALLS}]
    last_use = {
        value: max((place.get(user, len(calls) + 1) for user in value.users), default=0)
        for value in values
    }
    alive = {value for value in values if value.op == "placeholder"}
    narrow = []
    for node, number in place.items():
        alive = {value for value in (*alive, node) if last_use[value] > number}
        if len(alive) == 1 and place.keys() >= alive and number < len(calls):
            narrow.append(number)
    return narrow


CALLS = ("call_function", "call_method", "call_module")


def calls_of(m: GraphModule) -> list[Node]:
    return [node for node in m.graph.nodes if node.op in CALLS]


def cuts_for(m: GraphModule, stages: int) -> list[int]:
    """Choose the narrow places that divide the calls most evenly.

    Raises:
        PipelineError: there are too few of them.
    """
    places = narrow_places(m)
    if len(places) < stages - 1:
        raise PipelineError(
            f"{len(places)} places of this model let a single tensor through: "
            f"choose at most {len(places) + 1} stages"
        )
    cuts: list[int] = []
    for stage in range(1, stages):
        still_to_come = stages - 1 - stage
        possible = [place for place in places if place > max(cuts, default=0)]
        possible = possible[: len(possible) - still_to_come]
        ideal = len(calls_of(m)) * stage / stages
        cuts.append(min(possible, key=lambda place: abs(place - ideal)))
    return cuts


def split_into_stages(plan: Plan, model: nn.Module) -> GraphModule:
    """Trace and cut a model with the ``split_module`` that the plan names.

    Raises:
        PipelineError: it is not written yet, or the model cannot be cut into so many stages.
    """
    split_module = importlib.import_module(f"{plan.impl}.split_module").split_module
    m = symbolic_trace(model)
    cuts = cuts_for(m, plan.stages)
    position = {node: number for number, node in enumerate(calls_of(m))}
    try:
        split: GraphModule = split_module(m, model, lambda node: bisect_right(cuts, position[node]))
    except NotImplementedError as error:
        raise PipelineError(
            f"lessons/split_module is not written yet ({error}): "
            "finish the lesson, or run the reference with --impl solutions"
        ) from error
    return split


class Stage(nn.Module):
    """One submodule of a split model, and the parameters that the outer graph passes to it."""

    def __init__(self, split: GraphModule, call: Node) -> None:
        super().__init__()
        self.submodule: GraphModule = attrgetter(str(call.target))(split)
        self.arguments = [
            attrgetter(str(node.target))(split) if node.op == "get_attr" else None
            for node in call.all_input_nodes
        ]
        # The engine scales the gradients of the parameters that it finds on the module.
        for position, argument in enumerate(self.arguments):
            if isinstance(argument, nn.Parameter):
                self.register_parameter(f"argument_{position}", argument)

    def forward(self, value: Tensor) -> Tensor:
        """Put the value where the outer graph puts what travels."""
        # A clone: some models work in place, and what was received belongs to the engine.
        received = value.clone()
        # The engine sends only what is contiguous: values forward, gradients back.
        if received.requires_grad:
            received.register_hook(Tensor.contiguous)
        result: Tensor = self.submodule(*[received if a is None else a for a in self.arguments])
        return result.contiguous()


def stages_of(split: GraphModule) -> list[Stage]:
    return [Stage(split, call) for call in split.graph.nodes if call.op == "call_module"]


# One stage, in a process of its own


def run_stage(plan: Plan, stage: int, folder: Path, failures: Failures) -> None:
    """Run one stage from start to end; this is what each process does.

    A failure is reported before the process ends: the others notice that this one is gone, and
    fail as well, but theirs is not the failure to show.
    """
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        with process_group(plan, stage, folder):
            save(folder, stage, train(plan, stage))
    except BaseException:
        failures.put((stage, traceback.format_exc()))
        # Not sys.exit: the engine's threads may wait for a stage that is gone.
        os._exit(1)


def end_with_parent() -> None:
    """End this process when the one that started it is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


@contextlib.contextmanager
def process_group(plan: Plan, stage: int, folder: Path) -> Iterator[None]:
    """Let the processes find each other through a file, and part in the end.

    After a failure they don't part: the process ends, and must not wait for the others first.
    """
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // plan.stages))
    if plan.on_gpus:
        torch.cuda.set_device(stage)
    dist.init_process_group(
        plan.backend,
        init_method=(folder / "rendezvous").as_uri(),
        rank=stage,
        world_size=plan.stages,
        timeout=PATIENCE,
    )
    yield
    dist.barrier()
    dist.destroy_process_group()


def train(plan: Plan, stage: int) -> Result:
    """Send the batch through the pipeline, forward and backward.

    Returns:
        The output (of the last stage; empty for the others) and the gradients of this stage.
    """
    device = plan.device(stage)
    model = plan.build_model().to(device)
    module = stages_of(split_into_stages(plan, model))[stage]
    engine = PipelineStage(module, stage, plan.stages, device)
    schedule = ScheduleGPipe(engine, plan.micro_batches, loss_fn=nn.functional.cross_entropy)
    images, targets = (tensor.to(device) for tensor in plan.images_and_targets())
    output = None
    for _ in range(plan.rounds):
        model.zero_grad()
        output = schedule.step(*[images] * (stage == 0), target=targets)
    return Result(torch.empty(0) if output is None else output.detach().cpu(), gradients_of(model))


def gradients_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None}


def save(folder: Path, stage: int, result: Result) -> None:
    torch.save(vars(result), folder / f"stage_{stage}.pt")


# All stages, from the process that starts them


def run_pipeline(
    plan: Plan, started: Callable[[int, int], None] = lambda stage, pid: None
) -> Result:
    """Run every stage in a process of its own, and put together what they give.

    Args:
        plan: what to run.
        started: is told the number and the process id of each stage.

    Returns:
        The output of the last stage, and the gradients of all.

    Raises:
        PipelineError: a stage died; the message says which, and of what. The others are ended, and
            no process is left.
    """
    with tempfile.TemporaryDirectory(prefix="pipeline-") as name:
        folder = Path(name).resolve()
        failures: Failures = PROCESSES.SimpleQueue()
        with running_stages(plan, folder, failures) as stages:
            for number, process in enumerate(stages):
                started(number, process.pid or 0)
            wait_for(stages, failures)
        return collect(plan, folder)


@contextlib.contextmanager
def running_stages(plan: Plan, folder: Path, failures: Failures) -> Iterator[list[SpawnProcess]]:
    """Start the processes, and leave none behind."""
    stages = [
        PROCESSES.Process(target=run_stage, args=(plan, stage, folder, failures), daemon=True)
        for stage in range(plan.stages)
    ]
    try:
        for process in stages:
            process.start()
        yield stages
    finally:
        end([process for process in stages if process.pid is not None])


def end(stages: list[SpawnProcess]) -> None:
    """Ask the processes to end, and kill those that do not."""
    for process in stages:
        process.terminate()
    deadline = time.monotonic() + GRACE
    for process in stages:
        process.join(max(0.0, deadline - time.monotonic()))
        process.kill()
        process.join()


def wait_for(stages: list[SpawnProcess], failures: Failures) -> None:
    """Wait until all stages are done, or one of them is not going to be.

    Raises:
        PipelineError: with the first failure.
    """
    while running := [process for process in stages if process.is_alive()]:
        connection.wait([process.sentinel for process in running])
        if any(process.exitcode not in (None, 0) for process in stages):
            break
    if any(process.exitcode not in (None, 0) for process in stages):
        raise PipelineError(first_failure(stages, failures))


def first_failure(stages: list[SpawnProcess], failures: Failures) -> str:
    """Tell the cause from what it led to: a stage killed from outside comes before any report."""
    for number, process in enumerate(stages):
        if (process.exitcode or 0) < 0:
            name = signal.Signals(-(process.exitcode or 0)).name
            return f"stage {number} was killed by {name}; the other stages were ended"
    if failures.empty():
        return "a stage ended without a word; the other stages were ended"
    number, text = failures.get()
    return f"stage {number} failed; the other stages were ended\n\n{text}"


def collect(plan: Plan, folder: Path) -> Result:
    results = [Result(**torch.load(folder / f"stage_{n}.pt")) for n in range(plan.stages)]
    gradients = {name: grad for result in results for name, grad in result.gradients.items()}
    return Result(results[-1].output, gradients)


def in_one_process(plan: Plan) -> Result:
    """The same batch through the whole model, here."""
    model = plan.build_model().to(plan.device(0))
    images, targets = (tensor.to(plan.device(0)) for tensor in plan.images_and_targets())
    output = model(images)
    nn.functional.cross_entropy(output, targets).backward()
    return Result(output.detach().cpu(), gradients_of(model))


# The command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("model", help="a classification model of torchvision, such as resnet18")
    parser.add_argument("--stages", type=positive, default=2, help="processes (default: 2)")
    parser.add_argument("--batch", type=positive, default=8, help="images in the batch (8)")
    parser.add_argument("--micro-batches", type=positive, default=4, help="its parts (4)")
    parser.add_argument("--size", type=positive, default=64, help="height and width (64)")
    parser.add_argument("--rounds", type=positive, default=1, help="passes of the batch (1)")
    parser.add_argument(
        "--impl",
        choices=("lessons", "solutions"),
        default="lessons",
        help="whose split_module: yours (the default) or the reference's",
    )


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def main(arguments: argparse.Namespace) -> int:
    """Run a model as a pipeline and in one process, and compare; the exit code is 1 on failure."""
    options = {name: value for name, value in vars(arguments).items() if name in FIELDS}
    plan = Plan(**options)
    try:
        check(plan)
        describe(plan)
        same = report(run_pipeline(plan, announce), in_one_process(plan))
    except PipelineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0 if same else 1


FIELDS = {field.name for field in fields(Plan)}


def check(plan: Plan) -> None:
    """Refuse a plan before any process is started.

    Raises:
        PipelineError: there is no such model, or the batch cannot be divided so.
    """
    if plan.model not in torchvision.models.list_models(module=torchvision.models):
        near = difflib.get_close_matches(plan.model, torchvision.models.list_models())
        hint = f": did you mean {' or '.join(near)}?" if near else ""
        raise PipelineError(f"torchvision has no classification model `{plan.model}`{hint}")
    if plan.batch % plan.micro_batches:
        raise PipelineError(
            f"a batch of {plan.batch} cannot be divided into {plan.micro_batches} equal parts"
        )


def describe(plan: Plan) -> None:
    """Print what is going to run: the split is made here first, so that its errors come plain."""
    stages = stages_of(split_into_stages(plan, plan.build_model()))
    print(
        f"{plan.model} in {plan.stages} stages, a batch of {plan.batch} in "
        f"{plan.micro_batches} micro-batches, {plan.backend} on {plan.device(0).type}"
    )
    for number, stage in enumerate(stages):
        names = [node.name for node in calls_of(stage.submodule)]
        print(f"  stage {number}: {len(names)} calls, {names[0]} to {names[-1]}")


def announce(stage: int, pid: int) -> None:
    print(f"  stage {stage} runs as process {pid}", flush=True)


def report(ours: Result, expected: Result) -> bool:
    """Print whether the pipeline gave the numbers of one process, and tell."""
    pairs = {
        "outputs": ({"output": ours.output}, {"output": expected.output}),
        "gradients": (ours.gradients, expected.gradients),
    }
    differences = {label: difference(*pair) for label, pair in pairs.items()}
    for label, largest in differences.items():
        verdict = "the same as" if largest <= TOLERANCE else "NOT those"
        print(f"{label}: {verdict} in one process (largest difference {largest:.1e})")
    return all(largest <= TOLERANCE for largest in differences.values())


def difference(ours: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """The largest difference between tensors of one name, by the largest value of each."""
    if ours.keys() != expected.keys():
        return float("inf")
    return max(
        float((ours[name] - tensor).abs().max() / tensor.abs().max().clamp(min=1e-6))
        for name, tensor in expected.items()
    )
