"""The command ``pipeline``: a split model runs as a pipeline of processes, on PyTorch's own engine.

``split_module`` cuts the model where one tensor travels on; each stage runs as a process.
"""

from __future__ import annotations

import argparse
import tempfile
from bisect import bisect_right
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.fx import GraphModule, Node, symbolic_trace
from torch.multiprocessing.spawn import ProcessException, spawn
from torch.nn.functional import cross_entropy

from kata import workspace
from kata.lending import lending
from kata.terminal import open_console
from kata.tracing import GraphError, build

# Micro-batches add up in another order than a batch does: how far the sums may differ.
TOLERANCE = 1e-4
CALLS = ("call_function", "call_method", "call_module")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("model", help="a classification model of torchvision, such as resnet18")
    parser.add_argument("--stages", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--batch", type=int, default=8, help="images in the batch (8)")
    parser.add_argument("--micro-batches", type=int, default=4, help="its parts (4)")
    parser.add_argument("--size", type=int, default=64, help="height and width (64)")
    parser.add_argument("--impl", choices=("lessons", "solutions"), default="lessons")


def main(arguments: argparse.Namespace) -> int:
    """Run the pipeline and the whole model, and compare; the exit code is 1 if they differ."""
    console = open_console(plain=arguments.plain)
    plan = argparse.Namespace(**{**vars(arguments), "run": None})  # what a process can be given
    try:
        model, images, targets = given(plan)
        for number, stage in enumerate(stages_of(plan, model)):
            console.print(f"stage {number}: {len(calls_of(stage.submodule))} calls")
        with tempfile.TemporaryDirectory(prefix="kata-pipeline-") as folder:
            spawn(run_stage, (plan, folder), nprocs=plan.stages)
            files = [Path(folder, str(number)) for number in range(plan.stages)]
            ours = {name: each for file in files for name, each in torch.load(file).items()}
    except (GraphError, NotImplementedError, ProcessException) as error:
        open_console(plain=arguments.plain, stderr=True).print(f"error: {error}")
        return 1
    output = model(images)
    cross_entropy(output, targets).backward()
    difference = largest_difference(ours, numbers_of(model, output))
    console.print(f"output and gradients are {difference:.1e} from those of one process at most")
    return int(difference > TOLERANCE)


def run_stage(number: int, plan: argparse.Namespace, folder: str) -> None:
    """What each process does: send the batch through its stage, keep its gradients."""
    torch.set_num_threads(1)
    rendezvous = Path(folder, "rendezvous").as_uri()
    dist.init_process_group("gloo", rendezvous, rank=number, world_size=plan.stages)
    model, images, targets = given(plan)
    stage = stages_of(plan, model)[number]
    engine = PipelineStage(stage, number, plan.stages, torch.device("cpu"))
    schedule = ScheduleGPipe(engine, plan.micro_batches, loss_fn=cross_entropy)
    output = schedule.step(*[images] * (number == 0), target=targets)
    torch.save(numbers_of(model, output), Path(folder, str(number)))
    dist.barrier()
    dist.destroy_process_group()


def given(plan: argparse.Namespace) -> tuple[nn.Module, Tensor, Tensor]:
    """The same model, images and targets in each process; batch norm must not see the parts."""
    torch.manual_seed(0)
    images = torch.rand(plan.batch, 3, plan.size, plan.size)
    return build(plan.model).eval(), images, torch.arange(plan.batch)


def numbers_of(model: nn.Module, output: Tensor | None) -> dict[str, Tensor]:
    """The gradient of each parameter that has one, and the output of the last stage."""
    named = {} if output is None else {"output": output.detach()}
    return {n: p.grad for n, p in model.named_parameters() if p.grad is not None} | named


def largest_difference(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    """The largest difference between tensors of one name, by the largest value of each."""
    if ours.keys() != theirs.keys():
        return float("inf")
    return max(float((ours[n] - t).abs().max() / t.abs().max()) for n, t in theirs.items())


class Stage(nn.Module):
    """One submodule of a split model, and the parameters that the outer graph passes to it."""

    def __init__(self, split: GraphModule, call: Node) -> None:
        super().__init__()
        self.submodule = attrgetter(str(call.target))(split)
        taken = ((node.op == "get_attr", str(node.target)) for node in call.all_input_nodes)
        self.arguments = [attrgetter(name)(split) if is_own else None for is_own, name in taken]
        # The engine scales the gradients of the parameters that it finds on the module.
        self.own = nn.ParameterList(each for each in self.arguments if each is not None)

    def forward(self, value: Tensor) -> Tensor:
        received = value.clone()  # some models work in place, and this belongs to the engine
        if received.requires_grad:
            received.register_hook(Tensor.contiguous)
        values = (received if each is None else each for each in self.arguments)
        result: Tensor = self.submodule(*values)
        return result.contiguous()


def stages_of(plan: argparse.Namespace, model: nn.Module) -> list[Stage]:
    """The model, cut; the reference lends what ``split_module`` stands on, not itself."""
    package = "lessons" if plan.impl == "lessons" else "solutions.stretch"
    with lending(workspace.HERE.lessons, own="split_module"):
        split_module = import_module(f"{package}.split_module").split_module
        m = symbolic_trace(model)
        cuts, at = cuts_for(m, plan.stages), {node: n for n, node in enumerate(calls_of(m))}
        split = split_module(m, model, lambda node: bisect_right(cuts, at[node]))
    return [Stage(split, call) for call in split.graph.nodes if call.op == "call_module"]


def cuts_for(m: GraphModule, stages: int) -> list[int]:
    """Choose, of the places where one tensor travels on, those that divide the calls evenly."""
    places, share = narrow_places(m), len(calls_of(m)) / stages
    cuts = {min(places, key=lambda at: abs(at - share * n), default=0) for n in range(1, stages)}
    if len(cuts) < stages - 1:
        raise GraphError(f"one tensor travels on at {len(places)} places: choose fewer stages")
    return sorted(cuts)


def narrow_places(m: GraphModule) -> list[int]:
    """The places, as numbers of calls in front of them, where a single tensor travels on."""
    at = {node: number for number, node in enumerate(calls_of(m), start=1)}
    values = [node for node in m.graph.nodes if node.op == "placeholder" or node in at]
    last = {v: max((at.get(user, len(at) + 1) for user in v.users), default=0) for v in values}
    alive = {n: [v for v in values if at.get(v, 0) <= n < last[v]] for n in range(1, len(at))}
    return [n for n, found in alive.items() if len(found) == 1 and found[0] in at]


def calls_of(m: GraphModule) -> list[Node]:
    return [node for node in m.graph.nodes if node.op in CALLS]
