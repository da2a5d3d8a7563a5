"""A pipeline of stages: the orders, a clock, the engine of one stage, and the processes."""

import multiprocessing
from contextlib import contextmanager
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import fx, nn
from torch.fx.passes.split_module import split_module
from torch.multiprocessing.spawn import ProcessException

from tests.models.schedule import (
    MODELS,
    engines,
    exchanged,
    loss_of,
    results,
    run,
    same_gradients,
    task,
    whole,
)
from tests.suite import equal, holds, is_value, noting, refuses, same_numbers
from tests.suite.engine import symbolic_trace

SCHEDULES = ("gpipe", "one_f_one_b")
SIZES = ((1, 1), (1, 4), (2, 3), (3, 2), (4, 4), (4, 8), (8, 3))


def printed(orders) -> list[str]:
    return [" ".join(map(str, order)) for order in orders]


def orders_of(lesson, *texts: str):
    """The orders that print as these texts."""
    return [[lesson.Action(each[0], int(each[1:])) for each in text.split()] for text in texts]


# --- Step 1: the orders


def test_gpipe_runs_all_forwards_then_all_backwards(lesson):
    equal(
        printed(lesson.gpipe(2, 3)),
        ["F0 F1 F2 B0 B1 B2"] * 2,
        cause=[
            (is_value(["F0 F1 F2 B2 B1 B0"] * 2), "the backwards begin with the last micro-batch"),
            (is_value(["F0 B0 F1 B1 F2 B2"] * 2), "a backward follows each forward"),
            (lambda got: len(got) == 3, "there is one order per micro-batch, not per stage"),
        ],
    )


def test_each_stage_has_its_own_order(lesson):
    orders = lesson.gpipe(2, 1)
    orders[0].clear()
    holds(
        len(orders[1]) == 2,
        "the order of stage 1 to stay the same when that of stage 0 is emptied",
        got=orders[1],
        cause=(lambda order: not order, "both stages have the same list"),
    )


ALL_ALIKE = "all stages run equally many forwards before the first backward"


def test_1f1b_alternates_from_the_first_backward_on(lesson):
    *others, last = lesson.one_f_one_b(4, 4)
    equal(
        printed(others),
        ["F0 F1 F2 F3 B0 B1 B2 B3", "F0 F1 F2 B0 F3 B1 B2 B3", "F0 F1 B0 F2 B1 F3 B2 B3"],
        cause=[
            (lambda got: got[0].startswith("F0 B0"), "the first stage runs no forwards ahead"),
            (lambda got: len({each.index("B") for each in got}) == 1, ALL_ALIKE),
            (lambda got: got[-1].startswith("F0 F1 F2 B0"), "one forward too many runs ahead"),
        ],
        hint="stage s of n runs n - s forwards before its first backward",
    )
    equal(
        [str(action)[0] for action in last],
        ["F", "B"] * 4,
        cause=(lambda got: got[:2] == ["F", "F"], "the last stage runs forwards ahead"),
        hint="the last stage has its gradient as soon as its forward has run",
    )


def test_1f1b_works_with_fewer_micro_batches_than_stages(lesson):
    equal(
        printed(lesson.one_f_one_b(3, 2)),
        ["F0 F1 B0 B1", "F0 F1 B0 B1", "F0 B0 F1 B1"],
        cause=(lambda got: "F2" in got[0], "there is no third micro-batch"),
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("stages", "microbatches"), SIZES)
def test_a_stage_runs_each_backward_once_in_order(lesson, schedule, stages, microbatches):
    orders = getattr(lesson, schedule)(stages, microbatches)
    wanted = [f"B{number}" for number in range(microbatches)]
    equal(
        [[text for text in map(str, each) if text[0] == "B"] for each in orders], [wanted] * stages
    )


# --- Step 2: a clock


def test_an_action_starts_when_its_stage_is_free_and_its_input_is_there(lesson):
    timeline = lesson.simulate(orders_of(lesson, "F0 F1 B0 B1", "F0 B0 F1 B1"))
    equal(
        [[(str(each.action), each.start, each.end) for each in runs] for runs in timeline.stages],
        [
            [("F0", 0, 1), ("F1", 1, 2), ("B0", 4, 6), ("B1", 7, 9)],
            [("F0", 1, 2), ("B0", 2, 4), ("F1", 4, 5), ("B1", 5, 7)],
        ],
        cause=[
            (lambda got: got[0][2][1] == 2, "B0 of stage 0 doesn't wait for B0 of stage 1"),
            (lambda got: got[1][0][1] == 0, "F0 of stage 1 doesn't wait for F0 of stage 0"),
            (
                lambda got: any(b[1] < a[2] for runs in got for a, b in pairwise(runs)),
                "an action doesn't wait for the one before it in its stage",
            ),
        ],
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("stages", "microbatches"), [(1, 3), (2, 4), (4, 4), (4, 16), (8, 32)])
def test_the_bubble_agrees_with_the_formula(lesson, schedule, stages, microbatches):
    timeline = lesson.simulate(getattr(lesson, schedule)(stages, microbatches))
    holds(
        abs(timeline.bubble - (stages - 1) / (microbatches + stages - 1)) < 1e-9,
        f"a bubble of (s - 1) / (m + s - 1) for s = {stages}, m = {microbatches}",
        got=timeline.bubble,
    )


def test_forwards_and_backwards_take_the_time_that_was_passed(lesson):
    timeline = lesson.simulate(lesson.gpipe(2, 2), forward=10, backward=0.5)
    equal(
        float(timeline.end),
        31.5,
        cause=[
            (is_value(9.0), "the costs that were passed are ignored"),
            (is_value(12.0), "the costs of forwards and backwards are swapped"),
        ],
    )


def test_a_deadlock_names_each_stage_and_the_action_it_waits_for(lesson):
    orders = orders_of(lesson, "F0 B0 F1 B1", "F0 F1 B0 B1")
    with refuses(
        RuntimeError,
        "stage 0 waits for B0 of stage 1",
        "stage 1 waits for F1 of stage 0",
        cause="a timeline was returned, though no stage can go on: raise an error then",
    ):
        lesson.simulate(orders)


def test_a_finished_stage_is_not_part_of_a_deadlock(lesson):
    orders = orders_of(lesson, "F0", "B0 F0")
    with refuses(
        RuntimeError,
        "stage 1 waits for F0 of stage 1",
        cause="a timeline was returned, though B0 of the last stage needs F0, which comes after it",
    ):
        lesson.simulate(orders)


def test_a_simulation_leaves_the_orders_unchanged(lesson):
    orders = lesson.gpipe(2, 2)
    before = [list(map(str, order)) for order in orders]
    lesson.simulate(orders)
    equal(
        [list(map(str, order)) for order in orders],
        before,
        cause=(lambda got: got != before, "`simulate` changed the orders that it was given"),
    )


def test_alive_counts_the_micro_batches_that_a_stage_holds_at_once(lesson):
    equal(
        (lesson.alive(lesson.gpipe(4, 8)), lesson.alive(lesson.one_f_one_b(4, 8))),
        ([8, 8, 8, 8], [4, 3, 2, 1]),
        cause=[
            (lambda got: got[1] == [8] * 4, "all forwards were counted, not those held at a time"),
            (lambda got: got[0] == [0] * 4, "only the micro-batches held at the end were counted"),
        ],
    )


def test_alive_is_the_maximum_wherever_it_occurs_in_an_order(lesson):
    equal(
        lesson.alive(orders_of(lesson, "F0 B0 F1 F2 B1 B2", "F0 F1 B1 F2 B0 B2")),
        [2, 2],
        cause=(lambda got: got == [1, 2], "only the forwards before the first backward count"),
    )


# --- Step 3: the stages


def chain(lesson, stages: int):
    return lesson.cut_evenly(symbolic_trace(lambda x: (x + 1).relu().tanh().cos()), stages)


def names(nodes) -> list[str]:
    return [node.name for node in nodes]


@pytest.mark.parametrize("calls", [7, 5])
def test_an_even_cut_gives_each_stage_equally_many_calls(lesson, calls):
    layers = nn.Sequential(*(nn.Linear(2, 2) for _ in range(calls)))
    cut = lesson.cut_evenly(symbolic_trace(layers), 3)
    sizes = [len(list(stage.children())) for stage in cut.children()]
    holds(
        len(sizes) == 3 and sum(sizes) == calls and max(sizes) - min(sizes) <= 1,
        f"{calls} calls in three stages, whose numbers of calls differ by at most one",
        got=sizes,
        cause=(lambda got: len(got) != 3, "the number of stages isn't three"),
    )


@pytest.mark.parametrize("stages", [0, 5], ids=["0 stages", "5 stages"])
def test_a_model_of_four_calls_has_one_to_four_stages(lesson, stages):
    with refuses(
        ValueError,
        "4",
        str(stages),
        cause="a cut model was returned",
        hint="the message has the number of calls and the number of stages",
    ):
        chain(lesson, stages)


def test_a_stage_runs_its_call_and_the_inputs(lesson):
    stages = lesson.stages_of(chain(lesson, 2))
    equal(
        [(stage.number, names(stage.nodes)) for stage in stages],
        [(0, ["x", "submod_0"]), (1, ["x", "submod_1", "output"])],
        cause=[
            (lambda got: "output" not in got[1][1], "the last stage doesn't run the output"),
            (lambda got: "x" not in got[1][1], "only the first stage runs the placeholder"),
        ],
    )


def test_stages_are_numbered_in_the_order_of_the_graph(lesson):
    stages = lesson.stages_of(split(lambda x: (x + 1).relu(), {"add": 1, "relu": 0}))
    equal(
        [(stage.number, names(stage.nodes)[1]) for stage in stages],
        [(0, "submod_1"), (1, "submod_0")],
        cause=(lambda got: "submod_0" in got[0], "the number was taken from the name"),
    )


def test_a_stage_unpacks_the_tuple_that_its_call_returns(lesson):
    def two(x):
        return torch.add(x + 1, x * 2)

    cut = split(two, {"add": 0, "mul": 0, "add_1": 1})
    first, second = lesson.stages_of(cut)
    equal(
        (names(first.nodes), names(first.sends[1]), names(second.receives[0])),
        (["x", "submod_0", "getitem", "getitem_1"], *[["getitem", "getitem_1"]] * 2),
        cause=(lambda got: "submod_0" in got[1], "the tuple is sent, not the values taken from it"),
    )


def split(function, numbers):
    """A function that torch's ``split_module`` cut; a stage number for each of its calls."""
    gm = fx.symbolic_trace(function)
    return split_module(gm, gm, lambda node: numbers[node.name])


def test_a_value_goes_straight_to_each_stage_that_uses_it(lesson):
    def skip(x):
        early = x + 1
        return early.relu() * early

    cut = split(skip, {"add": 0, "relu": 1, "mul": 2})
    stages = lesson.stages_of(cut)
    equal(
        [{to: names(values) for to, values in stage.sends.items()} for stage in stages],
        [{1: ["submod_0"], 2: ["submod_0"]}, {2: ["submod_1"]}, {}],
        cause=[
            (lambda got: 2 not in got[0], "stage 0 doesn't send to stage 2"),
            (lambda got: "submod_0" in got[1][2], "stage 1 passes on a value that it has received"),
        ],
    )
    equal(
        {source: names(values) for source, values in stages[2].receives.items()},
        {1: ["submod_1"], 0: ["submod_0"]},
    )


def test_values_travel_in_the_order_in_which_their_stage_uses_them(lesson):
    def late(x):
        a, b = x + 1, x * 2
        return b - a.relu() - a

    numbers = {"add": 0, "mul": 0, "relu": 1, "sub": 2, "sub_1": 2}
    maker, _, user = lesson.stages_of(split(late, numbers))
    equal(
        (names(maker.sends[2]), names(user.receives[0])),
        (["getitem_1", "getitem"], ["getitem_1", "getitem"]),
        cause=(
            lambda got: got[0] == ["getitem", "getitem_1"],
            "they are in the order in which they are made, not the order of use",
        ),
    )


def test_a_value_that_two_nodes_of_a_stage_use_is_sent_once(lesson):
    def early_and_late(x):
        early = x + 1
        return early, early.relu()

    first, second = lesson.stages_of(split(early_and_late, {"add": 0, "relu": 1}))
    equal(
        (names(first.sends[1]), names(second.receives[0])),
        (["submod_0"], ["submod_0"]),
        cause=(lambda got: len(got[0]) > 1, "the value is sent once for each use"),
    )


def test_parameters_and_inputs_are_not_sent(lesson):
    first, *_, last = lesson.stages_of(task(lesson).cut)
    sent = [value.op for values in first.sends.values() for value in values]
    holds(
        not {"placeholder", "get_attr"} & set(sent),
        "only values that a stage computes to be sent",
        got=sent,
        hint="every stage has the inputs and the parameters",
    )
    holds("scale" in names(last.nodes), "the last stage reads `scale` itself", got=last.nodes)


def test_a_returned_value_goes_to_the_last_stage(lesson):
    def early_and_late(x):
        early = x + 1
        return early, early.relu().tanh()

    stages = lesson.stages_of(split(early_and_late, {"add": 0, "relu": 1, "tanh": 2}))
    holds(
        2 in stages[0].sends,
        "stage 0 to send its returned value to stage 2",
        got=stages[0].sends,
        hint="the output uses values too, and it belongs to the last stage",
    )


@pytest.mark.parametrize(
    ("function", "name"),
    [(lambda x: x + 1, "add"), (lambda x: x[0], "getitem")],
    ids=["add", "getitem"],
)
def test_a_model_that_is_not_cut_is_refused(lesson, function, name):
    with refuses(ValueError, name, cause="stages were returned"):
        lesson.stages_of(symbolic_trace(function))


# --- Step 4: one stage runs its order


AUTOGRAD = [
    (
        lambda error: "grad can be implicitly created only for scalar" in str(error),
        "autograd got `None` for a tensor that isn't a loss: a sent tensor may have no gradient",
    ),
    (
        lambda error: "Trying to backward through the graph a second time" in str(error),
        "two backwards share a part of the graph: pass all tensors to one `backward`",
    ),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("model", MODELS)
def test_loss_and_gradients_are_those_of_one_process(lesson, schedule, model):
    batch = task(lesson, model)
    stages = engines(lesson, batch)
    with noting(cause=AUTOGRAD, on=(RuntimeError,)):
        run(stages, getattr(lesson, schedule)(3, 4))
    loss, gradients = results(stages)
    same_numbers(loss, batch.loss)
    same_gradients(gradients, batch.gradients)


def test_a_placeholder_without_an_input_takes_its_default(lesson):
    batch = task(lesson, "Defaults", stages=2)
    stages = engines(lesson, batch)
    run(stages, lesson.gpipe(2, 4))
    same_numbers(results(stages)[0], batch.loss)


def test_a_model_may_write_to_a_tensor_in_a_received_tuple(lesson):
    batch = task(lesson, "InATuple", stages=2)
    stages = engines(lesson, batch)
    run(stages, lesson.gpipe(2, 4))
    same_gradients(results(stages)[1], batch.gradients)


@pytest.mark.parametrize(
    "orders",
    [("F1 F0 B0 B1", "F0 B0 F1 B1"), ("F0 F1 B1 B0", "F1 B1 F0 B0")],
    ids=["first", "both"],
)
def test_any_order_without_a_deadlock_has_the_same_gradients(lesson, orders):
    batch = task(lesson, stages=2, microbatches=2)
    stages = engines(lesson, batch)
    run(stages, orders_of(lesson, *orders))
    same_gradients(results(stages)[1], batch.gradients)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_stage_holds_as_many_micro_batches_as_alive_says(lesson, schedule, monkeypatch):
    batch = task(lesson)
    stages, most = engines(lesson, batch), [0, 0, 0]
    forward = lesson.Engine.forward

    def counting(engine, microbatch):
        forward(engine, microbatch)
        most[engine.stage.number] = max(most[engine.stage.number], len(engine.held))

    monkeypatch.setattr(lesson.Engine, "forward", counting)
    orders = getattr(lesson, schedule)(3, 4)
    run(stages, orders)
    equal(most, lesson.alive(orders))
    equal(
        [len(engine.held) for engine in stages],
        [0, 0, 0],
        cause=(lambda got: max(got) > 0, "a micro-batch is held after its backward"),
        hint="remove a micro-batch from `held` in its backward",
    )


def test_the_last_stage_has_the_losses(lesson):
    batch = task(lesson)
    stages = engines(lesson, batch)
    run(stages, lesson.gpipe(3, 4))
    equal([len(engine.losses) for engine in stages], [0, 0, 4])
    holds(
        not any(loss.requires_grad for loss in stages[-1].losses),
        "losses without history",
        got=stages[-1].losses,
        hint="a loss with history keeps all activations alive: `detach` it",
    )


def test_a_stage_runs_only_its_own_call(lesson):
    batch = task(lesson)
    stages, ran = engines(lesson, batch), []
    for engine in stages:
        for name, module in engine.gm.named_children():
            note = lambda *_, name=name, number=engine.stage.number: ran.append((number, name))
            module.register_forward_hook(note)
    run(stages, lesson.one_f_one_b(3, 4))
    equal(sorted(set(ran)), [(number, f"submod_{number}") for number in range(3)])


def test_each_stage_gets_one_message_with_all_its_values(lesson):
    batch = task(lesson, microbatches=1)
    stages = engines(lesson, batch)
    run(stages, lesson.gpipe(3, 1))
    wanted = [("F", to, 0) for to in stages[0].stage.sends]
    equal(sorted(stages[0].channel.sent), sorted(wanted), hint="send a list of all the values")


def test_the_engine_waits_until_all_messages_have_left(lesson):
    (engine,) = engines(lesson, task(lesson, stages=1))
    flushed = []
    engine.channel.flush = lambda: flushed.append(len(engine.losses))
    engine.run(lesson.gpipe(1, 4)[0])
    equal(flushed, [4], hint="`flush` the channel once, after the last action")


# --- Step 5: values travel between processes


@pytest.fixture
def sent(monkeypatch):
    """The tensors that leave, none of which arrives."""
    tensors = []

    def isend(tensor, *_, **__):
        tensors.append(tensor)
        return SimpleNamespace(is_completed=lambda: False, wait=lambda: None)

    monkeypatch.setattr(dist, "isend", isend)
    return tensors


def test_a_sent_tensor_is_contiguous_and_kept_until_it_has_left(lesson, sent):
    channel = lesson.Channel()
    channel.send([torch.rand(4, 2).t()], 1, 0)
    holds(
        all(tensor.is_contiguous() for tensor in sent),
        "contiguous tensors, because gloo sends only those",
        got=[(tuple(tensor.shape), tensor.stride()) for tensor in sent],
    )
    kept = [tensor for _, tensor in channel.leaving]
    holds(
        all(any(tensor is each for each in kept) for tensor in sent),
        "each tensor that was sent to be in `leaving`",
        got=f"{len(kept)} other tensors",
        hint="Python frees a tensor that nothing refers to, even if it hasn't been sent yet",
    )


def test_after_a_flush_nothing_is_leaving(lesson, sent):
    channel = lesson.Channel()
    channel.send(torch.rand(2), 1, 0)
    channel.flush()
    holds(
        channel.leaving == [],
        "an empty `leaving`",
        got=f"{len(channel.leaving)} entries",
        hint="empty the list: waiting for the same message again never ends",
    )


def test_values_arrive_in_another_process(lesson, tmp_path):
    values = [
        [torch.rand(2, 3, requires_grad=True), torch.arange(3), None],
        {"loss": torch.tensor(1.5), "size": 7, "pair": (torch.rand(4, 2).t(), [True])},
        torch.rand(3, dtype=torch.float64, requires_grad=True) * 2,
        torch.rand(0, 2),
        [torch.rand(2).to(torch.bfloat16), torch.tensor([True, False])],
    ]
    arrived = exchanged(lesson, values, tmp_path)
    detached = [torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, values)]
    same_numbers(
        [torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, arrived)], detached
    )
    equal(
        [each.requires_grad for each in (arrived[0][0], arrived[0][1], arrived[2])],
        [True, False, True],
        cause=(is_value([False] * 3), "no tensor that arrived requires a gradient"),
    )
    holds(arrived[2].is_leaf, "a received tensor to be a leaf", got=arrived[2])


# --- Step 6: the processes


def test_a_batch_is_cut_into_equal_parts(lesson):
    parts = lesson.microbatches_of(torch.arange(6).view(6, 1), 3)
    equal([part.flatten().tolist() for part in parts], [[0, 1], [2, 3], [4, 5]])
    for value in ("all", [1, 2, 3]):
        equal(lesson.microbatches_of(value, 3), [value] * 3)


@pytest.mark.parametrize(
    "tensor", [torch.zeros(10, 2), torch.tensor(1.0)], ids=["ten rows", "no dimension"]
)
def test_parts_of_different_sizes_are_refused(lesson, tensor):
    with refuses(ValueError, "4", cause="parts were returned"):
        lesson.microbatches_of(tensor, 4)


def is_multiple(difference: torch.Tensor, unit: float) -> bool:
    """Whether all elements are the same multiple of a unit, and not zero."""
    times = (difference / unit).flatten()
    return bool(times[0].round() and torch.allclose(times, times[0].round(), atol=1e-4))


@pytest.mark.forks
def test_processes_compute_what_one_does_and_leave_the_model_alone(lesson):
    batch = task(lesson, stages=2)
    inputs, targets = whole(batch)
    batch.cut.submod_0.first.weight.grad = torch.full((4, 4), 7.0)
    loss, gradients = lesson.train_step(
        batch.cut,
        inputs,
        targets,
        loss_of,
        order=lesson.one_f_one_b,
        microbatches=4,
        world_size=2,
    )
    added = (
        lambda got: torch.allclose(got, 4 * batch.loss),
        "the losses were added up: return the mean",
    )
    same_numbers(loss, batch.loss, cause=added)
    expected, weight = batch.gradients, "submod_0.first.weight"
    same_gradients(
        gradients,
        expected,
        cause=[
            (
                lambda _: all(
                    torch.allclose(gradients[name], 4 * expected[name]) for name in expected
                ),
                "the gradients of the micro-batches were added up: return their mean",
            ),
            (
                lambda _: is_multiple(gradients[weight] - expected[weight], 7 / 4),
                "the gradients from before the step were counted, too: clear them in `run_stage`",
            ),
        ],
    )
    holds(
        bool((batch.cut.submod_0.first.weight.grad == 7).all()),
        "the gradients in this process as they were",
        got=batch.cut.submod_0.first.weight.grad,
    )


@pytest.mark.parametrize("world_size", [2, 4], ids=["2 processes", "4 processes"])
def test_a_world_of_another_size_is_refused(lesson, world_size):
    batch = task(lesson)
    with refuses(ValueError, "3", str(world_size), cause="a step was run"):
        lesson.train_step(
            batch.cut,
            *whole(batch),
            loss_of,
            order=lesson.gpipe,
            microbatches=4,
            world_size=world_size,
        )


def test_a_deadlock_is_found_before_anything_starts(lesson, monkeypatch):
    batch, started = task(lesson, stages=2), []
    monkeypatch.setattr(lesson, "run_processes", started.append)
    deadlocked = orders_of(lesson, "F0 B0 F1 B1", "F0 F1 B0 B1")
    with refuses(RuntimeError, "stage 0 waits for B0 of stage 1", hint="`simulate` finds it"):
        lesson.train_step(
            batch.cut,
            *whole(batch),
            loss_of,
            order=lambda *_: deadlocked,
            microbatches=4,
            world_size=2,
        )
    equal(started, [])


def test_a_stage_waits_for_the_others_before_its_process_ends(lesson, monkeypatch, tmp_path):
    done, model = [], nn.Linear(1, 1)
    engine = SimpleNamespace(gm=model, losses=[], run=lambda order: done.append(f"runs {order}"))
    step = lesson.Step(model, [["F0"], ["F1"]], [], [], None, tmp_path, 5)

    @contextmanager
    def process_group(number):
        done.append(f"joins as {number}")
        yield
        done.append("leaves")

    monkeypatch.setattr(step, "engine", lambda number, channel: engine)
    monkeypatch.setattr(step, "process_group", process_group)
    monkeypatch.setattr(dist, "barrier", lambda: done.append("waits"))
    lesson.run_stage(1, step)
    equal(
        done,
        ["joins as 1", "runs ['F1']", "waits", "leaves"],
        cause=[
            (lambda got: "waits" not in got, "`dist.barrier` isn't called"),
            (lambda got: got.index("leaves") < got.index("waits"), "it leaves before it waits"),
        ],
    )
    holds((tmp_path / "1").exists(), "the results of stage 1 in the step's folder")


def test_gradients_of_several_stages_are_added_up(lesson):
    shared, own = torch.tensor([2.0]), torch.tensor([6.0])
    step = SimpleNamespace(
        inputs=[(), ()],
        results=lambda: [
            ([], {"shared": shared}),
            ([torch.tensor(1.0), torch.tensor(3.0)], {"shared": shared, "own": own}),
        ],
    )
    loss, gradients = lesson.together(step)
    equal(loss.item(), 2.0)
    equal(
        {name: each.item() for name, each in gradients.items()},
        {"shared": 2.0, "own": 3.0},
        cause=(
            is_value({"shared": 1.0, "own": 3.0}),
            "the gradient of one stage replaced that of another: add them up",
        ),
    )


def test_after_a_failure_all_processes_have_ended(lesson):
    def fails(output, _):
        raise ValueError("bad numbers")

    batch = task(lesson, stages=2)
    with refuses(ProcessException, cause="a loss was returned"):
        lesson.train_step(
            batch.cut, *whole(batch), fails, order=lesson.gpipe, microbatches=4, world_size=2
        )
    equal(multiprocessing.active_children(), [])
