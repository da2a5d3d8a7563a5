"""The command: its arguments, and what it prints."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields

from kata.pipeline.cuts import calls_of
from kata.pipeline.plan import PipelineError, Plan, check
from kata.pipeline.processes import run_pipeline
from kata.pipeline.results import Result, difference
from kata.pipeline.stages import split_into_stages, stages_of
from kata.pipeline.training import in_one_process

# Micro-batches add up in another order than a batch does: how far the sums may differ.
TOLERANCE = 1e-4
FIELDS = {field.name for field in fields(Plan)}


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
