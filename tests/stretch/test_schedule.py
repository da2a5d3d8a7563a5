"""What goes beyond the core of ``schedule``: torch's own schedules as the judge, and the extras."""

import multiprocessing
import os
import time
from itertools import combinations, pairwise
from random import Random

import pytest
import torch
from torch import nn

from tests.models.schedule import (
    engines,
    in_processes,
    kill_self,
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
from tests.suite.engine import symbolic_trace

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


@pytest.mark.stretch
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


@pytest.mark.stretch
@pytest.mark.slow
@pytest.mark.forks
@pytest.mark.parametrize("schedule", TORCH)
@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("microbatches", [4, 6])
def test_gradients_are_torch_s_to_the_bit(lesson, schedule, stages, microbatches, tmp_path):
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


def test_orders_of_processes_that_wait_for_each_other_are_refused(lesson):
    orders = lesson.interleaved(2, 2)
    orders[0].reverse()
    with refuses(RuntimeError, "deadlock", "0B1", "1F0"):
        lesson.clock(orders)


def test_micro_batches_that_make_no_equal_groups_are_refused(lesson):
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


# --- cuts by cost


def row(lesson, costs: list[float], stages: int) -> list[float]:
    """Return what each stage costs after a row of calls with these costs is cut."""
    layers = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in costs))
    gm = symbolic_trace(layers)
    calls = [node for node in gm.graph.nodes if node.op == "call_module"]
    cost = dict(zip(calls, costs, strict=True))
    cut = lesson.cut_by_cost(gm, stages, cost.__getitem__)
    lengths = [len(list(stage.children())) for stage in cut.children()]
    starts = [sum(lengths[:at]) for at in range(len(lengths) + 1)]
    return [sum(costs[a:b]) for a, b in pairwise(starts)]


@pytest.mark.stretch
def test_the_slowest_stage_is_as_fast_as_it_can_be(lesson):
    equal(max(row(lesson, [5, 1, 1, 1, 2, 2], 3)), 5)
    equal(max(row(lesson, [1, 1, 1, 9], 2)), 9)
    equal(row(lesson, [1, 2, 3], 3), [1, 2, 3])


@pytest.mark.stretch
@pytest.mark.parametrize("seed", range(10))
def test_no_other_cuts_are_better(lesson, seed):
    choose = Random(seed)
    costs = [choose.randint(1, 9) for _ in range(8)]
    stages = choose.randint(2, 5)
    every = (
        max(sum(costs[a:b]) for a, b in pairwise((0, *cuts, 8)))
        for cuts in combinations(range(1, 8), stages - 1)
    )
    equal(max(row(lesson, costs, stages)), min(every))


@pytest.mark.stretch
def test_costs_can_be_measured(lesson):
    gm = symbolic_trace(lambda x: (x + 1).relu())
    cost = lesson.seconds(gm, torch.ones(2))
    holds(all(cost(node) > 0 for node in gm.graph.nodes), "a time for each node")


@pytest.mark.stretch
def test_more_stages_than_calls_are_refused(lesson):
    with refuses(ValueError, "1 calls", "2 stages"):
        row(lesson, [1], 2)


# --- recomputation


@pytest.mark.stretch
@pytest.mark.parametrize("model", ["Skip", "InPlace", "Frozen", "Early"])
def test_a_forward_that_runs_twice_gives_the_same(lesson, model):
    batch = task(lesson, model)
    stages = engines(lesson, batch, "RecomputingEngine")
    run(stages, lesson.one_f_one_b(3, 4))
    loss, gradients = results(stages)
    same_numbers(loss, batch.loss)
    same_numbers(sorted_by_name(gradients), sorted_by_name(batch.gradients))


@pytest.mark.stretch
def test_no_activations_are_held_between_forward_and_backward(lesson):
    batch = task(lesson, stages=1, microbatches=1)
    (engine,) = engines(lesson, batch, "RecomputingEngine")
    engine.forward(0)
    held = engine.held[0]
    equal((held.sent, held.loss), ({}, None))


# --- processes


@pytest.mark.stretch
@pytest.mark.slow
@pytest.mark.forks
def test_a_stage_that_dies_in_a_step_is_named_within_seconds(lesson):
    batch, parent = task(lesson, stages=3), os.getpid()
    inputs, targets = whole(batch)

    class Dies(nn.Module):
        def forward(self, *_):
            kill_self() if os.getpid() != parent else None

    batch.cut.submod_1.register_forward_pre_hook(Dies())
    start = time.monotonic()
    with refuses(RuntimeError, "stage 1 died", "F0"):
        lesson.train_step(
            batch.cut, inputs, targets, loss_of, order=lesson.gpipe, microbatches=4, world_size=3
        )
    holds(time.monotonic() - start < 10, "an error within ten seconds")
    equal(multiprocessing.active_children(), [])


def quiet(_stage, say):
    say("waits for", "F0 of another stage")
    time.sleep(60)


def loses(_stage, _say):
    raise ConnectionError("stage 1")


def fails(_stage, _say):
    time.sleep(0.3)
    raise ValueError("bad numbers")


def sleeps(_stage, say):
    say("runs", "F3")
    time.sleep(60)


def dies(_stage, say):
    say("runs", "B2")
    time.sleep(0.1)
    kill_self()


CAUSES = {
    "failed": ((loses, fails), "stage 1 failed", "ValueError: bad numbers"),
    "died": ((quiet, dies), "stage 1 died", "exit code -9", "runs B2"),
    "hangs": ((quiet, sleeps), "no progress", "stage 1 runs F3"),
    "all wait": ((quiet, quiet), "stage 0 waits for F0", "stage 1 waits for F0"),
    "lost": ((loses, loses), "stage 0 lost stage 1", "stage 1 lost stage 1"),
}


@pytest.mark.stretch
@pytest.mark.parametrize("case", CAUSES.values())
def test_the_stage_that_is_the_cause_is_named(lesson, case):
    works, *words = case
    workers = [lesson.Worker.start(number, work) for number, work in enumerate(works)]
    for worker in workers:
        worker.line.poll(20)
    try:
        with refuses(RuntimeError, *words, cause="`watch` returned"):
            watched_but_not_blamed(lesson, workers, "".join(words))
    finally:
        for worker in workers:
            worker.end()


def watched_but_not_blamed(lesson, workers, words: str) -> None:
    """Watch; fail if the error names stage 0 where it isn't the cause."""
    try:
        lesson.watch(workers, 0.5)
    except RuntimeError as error:
        if "stage 0" not in words and "stage 0" in str(error):
            holds(False, "stage 0 not to be named: it waits for stage 1", got=str(error))
        raise


@pytest.mark.stretch
def test_workers_that_are_done_are_no_error(lesson):
    workers = [
        lesson.Worker.start(number, lambda stage, say: say("runs", "F0")) for number in (0, 1)
    ]
    lesson.run_workers(workers, 5)
    holds(all(not worker.process.is_alive() for worker in workers), "no worker at work")


@pytest.mark.stretch
def test_after_a_failure_no_worker_is_left(lesson):
    workers = [lesson.Worker.start(number, work) for number, work in enumerate((quiet, dies))]
    with refuses(RuntimeError, "stage 1 died", cause="`run_workers` returned"):
        lesson.run_workers(workers, 5)
    left = [worker.stage for worker in workers if worker.process.is_alive()]
    equal(left, [], hint="kill them in a `finally`: a stage waits for one that is gone")
