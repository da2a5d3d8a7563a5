"""Schedules beside torch's own, several stages per worker, recomputation, and processes."""

import pytest
import torch
from torch import nn
from torch.nn.functional import dropout

from tests.models.schedule import (
    MODELS,
    TORCH,
    WRITES,
    Training,
    engines,
    gradients,
    loss_of,
    ranks,
    run,
    same_gradients,
    task,
    to_an_input,
    torch_orders,
)
from tests.suite import equal, holds, refuses, same_numbers
from tests.suite.engine import symbolic_trace
from tests.zoo import Model

# torch's 1F1B refuses fewer micro-batches than stages.
COMPARED = [
    (schedule, stages, microbatches)
    for schedule in TORCH
    for stages in (1, 2, 4, 8)
    for microbatches in (1, 4, 8, 16)
    if schedule == "gpipe" or microbatches >= stages
]


@pytest.mark.beyond("torch numbers the last stage's forwards from 1")
@pytest.mark.parametrize("microbatches", [1, 4])
def test_the_last_stage_begins_with_the_first_micro_batch(lesson, microbatches):
    last = lesson.one_f_one_b(1, microbatches)[-1]
    equal(
        [text for text in map(str, last) if "F" in text],
        [f"0F{number}" for number in range(microbatches)],
    )


@pytest.mark.parametrize(("schedule", "stages", "microbatches"), COMPARED)
def test_the_orders_are_torch_s(lesson, schedule, stages, microbatches):
    theirs = torch_orders(TORCH[schedule], stages, microbatches)
    ours = [list(map(str, order)) for order in getattr(lesson, schedule)(stages, microbatches)]
    if schedule == "one_f_one_b":  # torch numbers these forwards from 1: see above
        for orders in (ours, theirs):
            orders[-1] = [each.partition("F")[0] if "F" in each else each for each in orders[-1]]
    equal(ours, theirs)


# --- several stages per worker


@pytest.mark.parametrize(
    ("workers", "microbatches", "rounds"),
    [(2, 2, 2), (2, 4, 2), (2, 6, 3), (3, 6, 2), (4, 4, 3), (4, 8, 2)],
)
def test_interleaved_orders_are_torch_s(lesson, workers, microbatches, rounds):
    ours = lesson.interleaved(workers, microbatches, rounds)
    theirs = torch_orders("ScheduleInterleaved1F1B", workers, microbatches, rounds)
    equal([list(map(str, order)) for order in ours], theirs)
    expected = (workers - 1) / (rounds * microbatches + workers - 1)
    bubble = lesson.simulate(ours).bubble
    holds(bubble == pytest.approx(expected), f"a bubble of {expected:.3f}", got=bubble)


def test_micro_batches_must_be_a_multiple_of_the_workers(lesson):
    with refuses(ValueError, "5 micro-batches", "multiple of 2"):
        lesson.interleaved(2, 5)


def test_interleaved_gradients_are_those_of_one_process(lesson):
    batch = task(lesson, stages=4)
    two_workers = lambda stages, microbatches: lesson.interleaved(stages // 2, microbatches)
    loss = lesson.train_step(batch.gm, batch.stages, batch.batch, order=two_workers, microbatches=4)
    same_numbers(loss, batch.loss)
    same_gradients(gradients(batch.gm), batch.gradients)


# --- recomputation


@pytest.mark.parametrize("model", ["skip", "in_place", "frozen", "in_a_tuple"])
def test_gradients_are_the_same_if_each_forward_runs_twice(lesson, model):
    batch = task(lesson, model)
    stages = engines(lesson, batch, "RecomputingEngine")
    run(stages, lesson.one_f_one_b(3, 4))
    same_numbers(loss_of(stages), batch.loss)
    same_gradients(gradients(batch.gm), batch.gradients)


def test_a_second_forward_sees_the_inputs_as_they_were(lesson):
    gm = symbolic_trace(Training(to_an_input))
    values, found = (torch.rand(2, 4), torch.rand(2, 4), torch.tensor([0, 3])), []
    for kind in (lesson.Engine, lesson.RecomputingEngine):
        inputs = dict(
            zip(gm.graph.find_nodes(op="placeholder"), map(torch.clone, values), strict=True)
        )
        engine = kind(gm, lesson.stages_of(gm, lambda _: 0), 0, None, [inputs])
        engine.forward(0)
        engine.backward(0)
        found.append(gradients(gm))
        gm.zero_grad()
    same_gradients(*found)


def test_no_activations_are_held_between_forward_and_backward(lesson):
    (engine,) = engines(lesson, task(lesson, stages=1, microbatches=1), "RecomputingEngine")
    engine.forward(0)
    equal(engine.held[0], ({}, {}))


# --- a training step


@pytest.mark.unasked  # it is given
@pytest.mark.parametrize("calls", [5, 7])
def test_an_even_cut_counts_calls_alone(lesson, calls):
    gm = symbolic_trace(nn.Sequential(*(nn.ReLU() for _ in range(calls))))
    cut = lesson.evenly(gm.graph, 3)
    sizes = [len(stage.nodes) for stage in lesson.stages_of(gm, cut)]
    numbers = [*map(cut, gm.graph.find_nodes(op="call_module"))]
    equal((sum(sizes), max(sizes) - min(sizes), sorted(numbers)), (calls, 1, numbers))
    for count in (0, calls + 1):
        with refuses(ValueError, str(calls), str(count)):
            lesson.evenly(gm.graph, count)


def test_a_deadlock_is_found_before_anything_runs(lesson):
    batch, ran = task(lesson, stages=2), []
    batch.stages[0].module.register_forward_hook(lambda *_: ran.append(True))
    first, last = lesson.gpipe(2, 1)
    swapped = lambda *_: [first, last[::-1]]
    with refuses(RuntimeError, "deadlock", "1B0 waits for 1F0"):
        lesson.train_step(batch.gm, batch.stages, batch.batch, order=swapped, microbatches=1)
    equal(ran, [])


def step(lesson, model: nn.Module, batch: tuple, numbers=None, microbatches: int = 2):
    """The loss and the gradients of a step, of two stages or of those that are named."""
    gm = symbolic_trace(model)
    last = max(numbers.values()) + 1 if numbers else 0
    cut = (lambda node: numbers.get(node.name, last)) if numbers else lesson.evenly(gm.graph, 2)
    loss = lesson.train_step(
        gm, lesson.stages_of(gm, cut), batch, order=lesson.gpipe, microbatches=microbatches
    )
    return loss, gradients(gm)


@pytest.mark.parametrize("what", WRITES)
def test_a_write_in_place_that_another_stage_would_miss_is_refused(lesson, what):
    output, numbers = WRITES[what]
    batch = torch.rand(4, 4), torch.rand(4, 4), torch.randint(4, (4,))
    with refuses(ValueError, "in place, at `", "uses the same memory, as `", "write to a clone"):
        step(lesson, Training(output), batch, numbers)


class Nested(nn.Module):
    """Its arguments are a dict, a tuple, and a number that has a default."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, batch, targets, factor=2.0):
        made = self.b(self.a(batch["x"]).relu() + batch["y"][0])
        return (made * factor - targets[0]).pow(2).mean()


def test_every_tensor_in_an_argument_is_cut(lesson):
    model = Nested()
    x, y, target = torch.rand(3, 4, 3)
    batch = {"x": x, "y": (y,)}, (target,)
    expected = model(*batch)
    expected.backward()
    wanted = gradients(model)
    model.zero_grad()
    loss, got = step(lesson, model, batch)
    same_numbers(loss, expected.detach())
    same_gradients(got, wanted)


FOUR = torch.rand(4, 3)


@pytest.mark.parametrize(
    ("batch", "error", "words"),
    [
        ((torch.rand(5, 3), [torch.rand(5, 3)]), ValueError, "a multiple of 2"),
        ((FOUR, [torch.rand(2, 3)]), ValueError, "equally many"),
        ((torch.tensor(1.0), [FOUR]), ValueError, "without dimensions"),
        ((iter([FOUR]), [FOUR]), TypeError, "list_iterator"),
        ((FOUR,), TypeError, "1 argument"),
    ],
    ids=["odd", "two sizes", "no dimension", "hidden", "too few"],
)
def test_a_batch_that_cannot_be_cut_is_refused(lesson, batch, error, words):
    with refuses(error, words):
        step(lesson, Nested(), batch)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda x: (x * 2).relu(), "of shape (2, 3)"),
        (lambda x: (x.sum(), x.mean()), "a single value"),
    ],
)
def test_a_model_that_returns_no_single_number_is_refused(lesson, model, words):
    with refuses(ValueError, words):
        step(lesson, model, (FOUR,))


def test_each_stage_and_each_step_draws_numbers_of_its_own(lesson):
    a, b = (nn.Parameter(torch.ones(64)) for _ in range(2))
    model = Model(
        lambda model, x: dropout(x * model.a).mean() + dropout(x * model.b).mean(), a=a, b=b
    )
    batch = (torch.ones(2, 64),)
    first = step(lesson, model, batch)[1]
    model.zero_grad()
    second = step(lesson, model, batch)[1]
    holds(not torch.equal(first["a"], second["a"]), "another mask in the second step")
    holds(not torch.equal(first["a"], first["b"]), "another mask in the second stage")


class Branching(nn.Module):
    """A branch on data in a leaf module."""

    __module__ = "torch.nn"

    def forward(self, x):
        return x * 2 if x.sum() > 1e6 else x.relu()


def test_a_rehearsal_changes_no_buffer_and_may_need_data(lesson):
    layers = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), Branching(), nn.Linear(4, 4))
    model = Model(lambda model, x: model.layers(x).pow(2).mean(), layers=layers)
    batch = (torch.rand(8, 4),)
    state = torch.get_rng_state()
    step(lesson, model, batch, microbatches=4)
    equal(layers[1].num_batches_tracked.item(), 4)
    holds(torch.equal(state, torch.get_rng_state()), "no random number to be drawn")


# --- processes


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
def test_processes_compute_what_one_does_and_what_torch_s_do(lesson, processes, tmp_path):
    models = MODELS if processes == 2 else ["row", "skip"]
    kinds = [*TORCH, "interleaved"] if processes == 2 else [*TORCH]
    cases = [f"{model} {kind}" for model in models for kind in kinds]
    parts = ranks([*cases, *(f"torch {kind}" for kind in TORCH)], processes, tmp_path)
    for case in cases:
        model, _, kind = case.partition(" ")
        batch = task(lesson, model, stages=processes)
        losses = [loss for part in parts for loss in part[case][0]]
        same_numbers(torch.stack(losses).mean(), batch.loss)
        found = [part[case][1] for part in parts]
        same_gradients({name: g for part in found for name, g in part.items()}, batch.gradients)
    for kind in TORCH:
        for part in parts:
            (ours, theirs) = (part[f"row {kind}"][1], part[f"torch {kind}"][1])
            equal(sorted(ours), sorted(theirs))
            equal([name for name in ours if not torch.equal(ours[name], theirs[name])], [])
