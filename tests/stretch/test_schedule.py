"""Schedules beside torch's own, several stages per process, and recomputation."""

import pytest
import torch

from tests.models.schedule import (
    engines,
    in_processes,
    loss_of,
    results,
    run,
    sorted_by_name,
    task,
    torch_gradients,
    torch_interleaved_orders,
    torch_orders,
    whole,
)
from tests.suite import equal, holds, refuses, same_numbers

TORCH = {"gpipe": "ScheduleGPipe", "one_f_one_b": "Schedule1F1B"}
# torch's 1F1B refuses fewer micro-batches than stages.
COMPARED = [
    (schedule, stages, microbatches)
    for schedule in TORCH
    for stages in (1, 2, 3, 4, 8)
    for microbatches in (1, 2, 4, 8, 16)
    if schedule == "gpipe" or microbatches >= stages
]


@pytest.mark.beyond("torch numbers the last stage's forwards from 1")
@pytest.mark.parametrize("microbatches", [1, 4])
def test_the_last_stage_begins_with_the_first_micro_batch(lesson, microbatches):
    last = lesson.one_f_one_b(1, microbatches)[-1]
    equal(
        [text for text in map(str, last) if text[0] == "F"],
        [f"F{number}" for number in range(microbatches)],
    )


@pytest.mark.parametrize(("schedule", "stages", "microbatches"), COMPARED)
def test_the_orders_are_torch_s(lesson, schedule, stages, microbatches):
    from torch.distributed import pipelining

    theirs = torch_orders(getattr(pipelining, TORCH[schedule]), stages, microbatches)
    ours = [list(map(str, order)) for order in getattr(lesson, schedule)(stages, microbatches)]
    if schedule == "one_f_one_b":  # torch numbers these forwards from 1: see above
        for orders in (ours, theirs):
            orders[-1] = from_zero(orders[-1])
    equal(ours, theirs)


def from_zero(order: list[str]) -> list[str]:
    """An order whose forwards are numbered from 0."""
    first = min(int(each[1:]) for each in order if each[0] == "F")
    return [f"F{int(each[1:]) - first}" if each[0] == "F" else each for each in order]


@pytest.mark.slow
@pytest.mark.forks
@pytest.mark.parametrize("schedule", TORCH)
@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("microbatches", [4, 6])
def test_gradients_equal_torch_s_bit_for_bit(lesson, schedule, stages, microbatches, tmp_path):
    batch = task(lesson, "Row", stages=stages, microbatches=microbatches)
    inputs, targets = whole(batch)
    _, ours = lesson.train_step(
        batch.cut,
        inputs,
        targets,
        loss_of,
        order=getattr(lesson, schedule),
        microbatches=microbatches,
        world_size=stages,
    )
    theirs = torch_gradients(batch, TORCH[schedule], tmp_path)
    equal(sorted(ours), sorted(theirs))
    different = [name for name in ours if not torch.equal(ours[name], theirs[name])]
    equal(different, [])


# --- several stages per process

INTERLEAVED = [(2, 2, 2), (2, 4, 2), (2, 6, 3), (3, 6, 2), (4, 4, 3), (4, 8, 2)]


@pytest.mark.parametrize(("processes", "microbatches", "rounds"), INTERLEAVED)
def test_interleaved_orders_are_torch_s(lesson, processes, microbatches, rounds):
    theirs = torch_interleaved_orders(processes, microbatches, rounds)
    ours = lesson.interleaved(processes, microbatches, rounds)
    equal([list(map(str, order)) for order in ours], theirs)


@pytest.mark.parametrize(("processes", "microbatches", "rounds"), INTERLEAVED)
def test_more_rounds_make_the_bubble_shorter(lesson, processes, microbatches, rounds):
    timeline = lesson.clock(lesson.interleaved(processes, microbatches, rounds))
    expected = (processes - 1) / (rounds * microbatches + processes - 1)
    holds(timeline.bubble == pytest.approx(expected), f"a bubble of {expected:.3f}")


def test_processes_that_wait_for_each_other_are_a_deadlock(lesson):
    orders = lesson.interleaved(2, 2)
    orders[0].reverse()
    with refuses(RuntimeError, "deadlock", "0B1", "1F0"):
        lesson.clock(orders)


def test_micro_batches_must_be_a_multiple_of_the_processes(lesson):
    with refuses(ValueError, "5 micro-batches", "multiple of 2"):
        lesson.interleaved(2, 5)


@pytest.mark.slow
@pytest.mark.forks
def test_interleaved_gradients_are_those_of_one_process(lesson, tmp_path):
    processes, microbatches, stages = 2, 4, 4
    batch = task(lesson, "Skip", stages=stages, microbatches=microbatches)
    orders = lesson.interleaved(processes, microbatches)

    def work(rank: int) -> tuple[list, dict]:
        here: dict = {}
        own = {
            number: lesson.Engine(
                batch.cut,
                number,
                lesson.SharedChannel(number, stages, processes, here),
                batch.inputs,
                batch.targets,
                loss_of,
            )
            for number in range(rank, stages, processes)
        }
        lesson.Process(own).run(orders[rank])
        named = batch.cut.named_parameters()
        gradients = {name: each.grad for name, each in named if each.grad is not None}
        return [loss for engine in own.values() for loss in engine.losses], gradients

    parts = in_processes(processes, work, tmp_path)
    inputs, targets = whole(batch)
    expected = loss_of(batch.cut(*inputs), targets)
    expected.backward()
    same_numbers(torch.stack([loss for losses, _ in parts for loss in losses]).mean(), expected)
    ours: dict = {}
    for _, gradients in parts:
        for name, gradient in gradients.items():
            ours[name] = ours.get(name, 0) + gradient / microbatches
    theirs = {name: each.grad for name, each in batch.cut.named_parameters()}
    same_numbers(sorted_by_name(ours), sorted_by_name(theirs))


# --- recomputation


@pytest.mark.parametrize("model", ["Skip", "InPlace", "Frozen", "Early"])
def test_gradients_are_the_same_if_each_forward_runs_twice(lesson, model):
    batch = task(lesson, model)
    stages = engines(lesson, batch, "RecomputingEngine")
    run(stages, lesson.one_f_one_b(3, 4))
    loss, gradients = results(stages)
    same_numbers(loss, batch.loss)
    same_numbers(sorted_by_name(gradients), sorted_by_name(batch.gradients))


def test_no_activations_are_held_between_forward_and_backward(lesson):
    batch = task(lesson, stages=1, microbatches=1)
    (engine,) = engines(lesson, batch, "RecomputingEngine")
    engine.forward(0)
    held = engine.held[0]
    equal((held.sent, held.loss), ({}, None))
