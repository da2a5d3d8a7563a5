"""A pipeline of stages: the orders, a clock, the stages, the engine of one stage, and workers."""

import threading
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.models.schedule import (
    MODELS,
    engines,
    gradients,
    loss_of,
    run,
    same_gradients,
    task,
)
from tests.suite import equal, holds, is_value, noting, refuses, same_numbers
from tests.suite.engine import symbolic_trace

SCHEDULES = ("gpipe", "one_f_one_b")
SIZES = ((1, 1), (1, 4), (2, 3), (3, 2), (4, 4), (4, 8), (8, 3))


def printed(orders) -> list[str]:
    return [" ".join(map(str, order)) for order in orders]


def orders_of(lesson, *texts: str):
    """The orders that print as these texts; the actions of the first are those of stage 0."""
    return [
        [lesson.Action(stage, each[0], int(each[1:])) for each in text.split()]
        for stage, text in enumerate(texts)
    ]


# --- Step 1: the orders


def test_gpipe_runs_all_forwards_then_all_backwards(lesson):
    equal(
        printed(lesson.gpipe(2, 3)),
        ["0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1F1 1F2 1B0 1B1 1B2"],
        cause=[
            (lambda got: "0F0 0B0" in got[0], "a backward follows each forward"),
            (lambda got: "0B2 0B1" in got[0], "the backwards begin with the last micro-batch"),
            (lambda got: "0F0" in got[1], "all orders are those of stage 0"),
            (lambda got: len(got) == 3, "there is one order per micro-batch, not per stage"),
        ],
    )


@pytest.mark.parametrize(
    ("ahead", "expected"),
    [
        (0, "F0 B0 F1 B1 F2 B2"),
        (1, "F0 F1 B0 F2 B1 B2"),
        (3, "F0 F1 F2 B0 B1 B2"),
        (9, "F0 F1 F2 B0 B1 B2"),
    ],
)
def test_forwards_run_ahead_then_both_alternate(lesson, ahead, expected):
    forwards, backwards = orders_of(lesson, "F0 F1 F2", "B0 B1 B2")
    equal(
        [str(action)[1:] for action in lesson.alternate(forwards, backwards, ahead)],
        expected.split(),
        cause=[
            (
                lambda got: len(got) < 6,
                "actions are missing: after the last forward, only backwards",
            ),
            (
                lambda got: got[ahead][0] == "B",
                "after those ahead comes a forward, then a backward",
            ),
        ],
    )
    equal(len(forwards), 3, cause=(lambda got: got != 3, "`alternate` changed the list it got"))


ALL_ALIKE = "all stages run equally many forwards before the first backward"


def test_1f1b_alternates_from_the_first_backward_on(lesson):
    *others, last = lesson.one_f_one_b(4, 4)
    equal(
        printed(others),
        [
            "0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3",
            "1F0 1F1 1F2 1B0 1F3 1B1 1B2 1B3",
            "2F0 2F1 2B0 2F2 2B1 2F3 2B2 2B3",
        ],
        cause=[
            (lambda got: got[0].startswith("0F0 0B0"), "the first stage runs no forwards ahead"),
            (lambda got: len({each.index("B") for each in got}) == 1, ALL_ALIKE),
            (lambda got: got[-1].startswith("2F0 2F1 2F2 2B0"), "one forward too many runs ahead"),
        ],
        hint="stage s of n runs n - 1 - s forwards ahead",
    )
    equal(
        [str(action)[1] for action in last],
        ["F", "B"] * 4,
        cause=(lambda got: got[:2] == ["F", "F"], "the last stage runs forwards ahead"),
        hint="the last stage has its gradient as soon as its forward has run",
    )


def test_1f1b_works_with_fewer_micro_batches_than_stages(lesson):
    equal(
        printed(lesson.one_f_one_b(3, 2)),
        ["0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1", "2F0 2B0 2F1 2B1"],
        cause=(lambda got: "0F2" in got[0], "there is no third micro-batch"),
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("stages", "microbatches"), SIZES)
def test_a_stage_runs_each_backward_once_in_order(lesson, schedule, stages, microbatches):
    orders = getattr(lesson, schedule)(stages, microbatches)
    equal(
        [[text for text in map(str, order) if "B" in text] for order in orders],
        [[f"{stage}B{number}" for number in range(microbatches)] for stage in range(stages)],
    )


# --- Step 2: a clock


def test_an_action_needs_its_neighbour_s_result(lesson):
    asked = ["0F1", "1F1", "2F1", "0B1", "1B1", "2B1"]
    sources = [lesson.source(lesson.Action(int(s), k, int(n)), 2) for s, k, n in asked]
    equal(
        list(map(str, sources)),
        ["None", "0F1", "1F1", "1B1", "2B1", "2F1"],
        cause=[
            (
                lambda got: got[3:5] == ["0F1", "1F1"],
                "a backward needs the gradients of the next stage",
            ),
            (lambda got: got[5] == "None", "the backward of the last stage needs its own forward"),
        ],
    )


def test_an_action_starts_when_its_worker_is_free_and_its_input_is_there(lesson):
    timeline = lesson.simulate(orders_of(lesson, "F0 F1 B0 B1", "F0 B0 F1 B1"))
    equal(
        [[(str(each.action), each.start, each.end) for each in runs] for runs in timeline.workers],
        [
            [("0F0", 0, 1), ("0F1", 1, 2), ("0B0", 4, 6), ("0B1", 7, 9)],
            [("1F0", 1, 2), ("1B0", 2, 4), ("1F1", 4, 5), ("1B1", 5, 7)],
        ],
        cause=[
            (lambda got: got[0][2][1] == 2, "0B0 doesn't wait for 1B0"),
            (lambda got: got[1][0][1] == 0, "1F0 doesn't wait for 0F0"),
            (
                lambda got: any(b[1] < a[2] for runs in got for a, b in pairwise(runs)),
                "an action doesn't wait for the one before it in its order",
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


def test_a_worker_may_run_several_stages(lesson):
    texts = ["0F0 2F0 2B0 0B0", "1F0 3F0 3B0 1B0"]
    orders = [[lesson.Action(int(s), k, int(n)) for s, k, n in text.split()] for text in texts]
    timeline = lesson.simulate(orders)
    equal(
        [[(str(each.action), each.start) for each in runs] for runs in timeline.workers],
        [
            [("0F0", 0), ("2F0", 2), ("2B0", 6), ("0B0", 10)],
            [("1F0", 1), ("3F0", 3), ("3B0", 4), ("1B0", 8)],
        ],
        hint="the last stage isn't the number of orders: look at the actions",
    )


def test_a_deadlock_names_each_stage_and_the_action_it_waits_for(lesson):
    orders = orders_of(lesson, "F0 B0 F1 B1", "F0 F1 B0 B1")
    with refuses(
        RuntimeError,
        "stage 0 waits for B0 of stage 1",
        "stage 1 waits for F1 of stage 0",
        cause=[
            (lambda got: got is None, "a timeline was returned, though no stage can go on"),
            (
                lambda got: "waits for B0 of stage 0" in str(got),
                "an action and the one before it in its order aren't a pair: no stage sends there",
            ),
        ],
        hint="keep the pairs in which the first action is the `source` of the second",
    ):
        lesson.simulate(orders)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (("F0", "B0 F0"), "stage 1 waits for F0 of stage 1"),
        (("", "F0 B0"), "stage 1 waits for F0 of stage 0"),
        (("F0 B0", "F0"), "stage 0 waits for B0 of stage 1"),
    ],
    ids=["wrong order", "no forward", "no backward"],
)
def test_an_action_whose_source_never_runs_is_a_deadlock(lesson, texts, words):
    with refuses(
        RuntimeError,
        words,
        cause="a timeline was returned, though an action waits forever",
        hint="an action may be in no order: it never runs",
    ):
        lesson.simulate(orders_of(lesson, *texts))


def test_alive_counts_the_micro_batches_that_a_worker_holds_at_once(lesson):
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


def chain(x, y):
    return ((x + 1).relu() * y).tanh()


@pytest.mark.parametrize("calls", [7, 5])
def test_an_even_cut_gives_each_stage_equally_many_calls(lesson, calls):
    graph = symbolic_trace(nn.Sequential(*(nn.Linear(2, 2) for _ in range(calls)))).graph
    cut = lesson.evenly(graph, 3)
    numbers = [cut(node) for node in graph.nodes if node.op.startswith("call_")]
    sizes = [numbers.count(stage) for stage in range(3)]
    holds(
        sum(sizes) == calls and max(sizes) - min(sizes) <= 1 and numbers == sorted(numbers),
        f"{calls} calls in stages 0 to 2, whose numbers of calls differ by at most one",
        got=numbers,
        cause=(lambda got: max(got) > 2, "there are more than three stages"),
    )


def test_an_even_cut_counts_calls_alone(lesson):
    graph = symbolic_trace(chain).graph
    cut = lesson.evenly(graph, 2)
    equal(
        [cut(node) for node in graph.nodes if node.op.startswith("call_")],
        [0, 0, 1, 1],
        cause=(
            lambda got: got.count(0) < 2,
            "the placeholders are counted, too: they aren't calls",
        ),
    )


@pytest.mark.parametrize("stages", [0, 5], ids=["0 stages", "5 stages"])
def test_a_model_of_four_calls_has_one_to_four_stages(lesson, stages):
    with refuses(
        ValueError,
        "4",
        str(stages),
        cause="a callback was returned",
        hint="the message has the number of calls and the number of stages",
    ):
        lesson.evenly(symbolic_trace(chain).graph, stages)


def names(nodes) -> list[str]:
    return [node.name for node in nodes]


def cut_by(numbers: dict[str, int]):
    return lambda node: numbers[node.name]


def test_a_stage_knows_what_it_takes_and_what_others_take_from_it(lesson):
    gm = symbolic_trace(chain)
    first, second = lesson.stages_of(gm, cut_by({"add": 0, "relu": 0, "mul": 1, "tanh": 1}))
    equal([names(first.inputs), names(first.outputs)], [["x"], ["relu"]])
    equal([names(second.inputs), names(second.outputs)], [["relu", "y"], ["tanh"]])
    holds(second.dependencies == [first], "stage 1 depends on stage 0", got=second.dependencies)


def test_a_value_goes_straight_to_each_stage_that_uses_it(lesson):
    def skip(x):
        early = x + 1
        return early.relu() * early

    stages = lesson.stages_of(symbolic_trace(skip), cut_by({"add": 0, "relu": 1, "mul": 2}))
    equal([names(stage.inputs) for stage in stages], [["x"], ["add"], ["relu", "add"]])


def test_stages_are_numbered_in_an_order_in_which_they_can_run(lesson):
    gm = symbolic_trace(lambda x: (x + 1).relu().tanh())
    stages = lesson.stages_of(gm, cut_by({"add": 7, "relu": 0, "tanh": 3}))
    equal(
        [(stage.number, names(stage.nodes)) for stage in stages],
        [(0, ["add"]), (1, ["relu"]), (2, ["tanh"])],
        cause=[
            (lambda got: got[0][0] == 7, "the number is the callback's, not the position"),
            (lambda got: {each[0] for each in got} == {0}, "the stages have no numbers yet"),
        ],
        hint="`order_partitions`, then `enumerate`",
    )


def test_a_stage_s_module_computes_what_the_stage_does(lesson):
    gm = symbolic_trace(chain)
    first, second = lesson.stages_of(gm, cut_by({"add": 0, "relu": 0, "mul": 1, "tanh": 1}))
    x, y = torch.rand(3), torch.rand(3)
    holds(first.module is not None, "a module in each stage", hint="`build_submodule`")
    same_numbers(second.module(first.module(x), y), chain(x, y))


# --- Step 4: one stage runs its actions


LEAF = (
    lambda error: "leaf Variable that requires grad" in str(error),
    "the module got the received tensor itself, a leaf that it writes to: pass a clone, also of "
    "a tensor in a tuple",
)
ONCE = (
    lambda error: "Trying to backward through the graph a second time" in str(error),
    "two backwards share a part of the graph: pass all tensors to one `backward`",
)
NOTHING = (
    lambda error: "grad can be implicitly created only for scalar" in str(error),
    "autograd got `None` for a tensor that isn't a loss: a sent tensor may have no gradient",
)


def test_a_stage_computes_on_the_inputs_of_its_micro_batch(lesson):
    batch = task(lesson, stages=1)
    (engine,) = engines(lesson, batch)
    made = engine.compute(1, {})
    losses = [batch.gm(*batch.inputs[number].values()) for number in (0, 1)]
    first = (lambda got: torch.equal(got[0], losses[0]), "it has the inputs of micro-batch 0")
    same_numbers([*made.values()], [losses[1]], cause=first)


def test_a_placeholder_without_an_input_takes_its_default(lesson):
    batch = task(lesson, "Defaults", stages=2)
    stages = engines(lesson, batch)
    run(stages, lesson.gpipe(2, 4))
    same_numbers(loss_of(stages), batch.loss)


@pytest.mark.parametrize("model", ["Row", "Skip"], ids=["one value", "several values"])
def test_what_a_stage_made_is_found_by_its_nodes(lesson, model):
    engine, *_ = engines(lesson, task(lesson, model))
    made = engine.compute(0, {})
    equal(list(made), list(engine.stage.outputs))
    holds(
        all(isinstance(value, torch.Tensor) for value in made.values()),
        "a tensor for each output",
        got={node.name: type(value) for node, value in made.items()},
        hint="the module returns the value itself if `returns_single`, otherwise a tuple",
    )


def test_each_value_is_sent_to_each_stage_that_uses_it(lesson):
    batch = task(lesson, "Early", microbatches=1)
    first, *_ = engines(lesson, batch)
    first.forward(0)
    sent = {(value, user) for _, value, user, _ in first.channel.sent}
    equal(sent, {*first.sends}, hint="send it once to each user: see `sends`")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("model", MODELS)
def test_loss_and_gradients_are_those_of_one_process(lesson, schedule, model):
    batch = task(lesson, model)
    stages = engines(lesson, batch)
    with noting(cause=[LEAF, ONCE, NOTHING], on=(RuntimeError,)):
        run(stages, getattr(lesson, schedule)(3, 4))
    same_numbers(loss_of(stages), batch.loss)
    got, expected = gradients(batch.gm), batch.gradients
    name = next(iter(expected))
    same_gradients(
        got,
        expected,
        cause=[
            (
                lambda _: torch.allclose(got[name], 4 * expected[name], rtol=1e-3),
                "you added up the gradients of 4 micro-batches: that of the loss is 1 / 4",
            )
        ],
    )


@pytest.mark.parametrize(
    "texts",
    [("F1 F0 B0 B1", "F0 B0 F1 B1"), ("F0 F1 B1 B0", "F1 B1 F0 B0")],
    ids=["first", "both"],
)
def test_any_order_without_a_deadlock_has_the_same_gradients(lesson, texts):
    batch = task(lesson, stages=2, microbatches=2)
    left, right = orders_of(lesson, *texts)
    stages = engines(lesson, batch)
    # As the orders of a clock, but without one: what is received was sent before.
    for number, action in merged(left, right):
        engine = stages[number]
        (engine.forward if action.kind == "F" else engine.backward)(action.microbatch)
    same_gradients(gradients(batch.gm), batch.gradients)


def merged(left, right):
    """The actions of two stages, in an order in which they can run."""
    forwards = [*((0, each) for each in left if each.kind == "F")]
    return [*forwards, *((1, each) for each in right), *((0, e) for e in left if e.kind == "B")]


def test_the_gradient_of_each_tensor_that_requires_one_is_sent_back(lesson):
    batch = task(lesson, "Halves", stages=2, microbatches=1, cut=cut_at("getitem"))
    stages = engines(lesson, batch)
    run(stages, lesson.gpipe(2, 1))
    (sent,) = [value for message, value in stages[0].channel.sent.items() if message.kind == "B"]
    holds(
        len(sent) == 2 and sent[0] is None and sent[1] is not None,
        "a list of two: `None` for the first tensor of the tuple, a gradient for the second",
        got=sent,
        cause=[
            (lambda got: len(got) == 1 and got[0] is not None, "`None` was left out of the list"),
            (lambda got: len(got) == 1, "there is one entry per value, not per tensor in it"),
            (lambda got: got[0] is not None, "zeros aren't `None`: the tensor has no gradient"),
        ],
    )


def cut_at(first: str):
    """Cut before the node of this name."""

    def number(node) -> int:
        nodes = list(node.graph.nodes)
        return int(nodes.index(node) >= [each.name for each in nodes].index(first))

    return number


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_stage_holds_as_many_micro_batches_as_alive_says(lesson, schedule, monkeypatch):
    stages, most = engines(lesson, task(lesson)), [0, 0, 0]
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


def test_the_stage_of_the_loss_has_the_losses(lesson):
    stages = engines(lesson, task(lesson))
    run(stages, lesson.gpipe(3, 4))
    equal([len(engine.losses) for engine in stages], [0, 0, 4])
    holds(
        not any(loss.requires_grad for loss in stages[-1].losses),
        "losses without history",
        got=stages[-1].losses,
        hint="a loss with history keeps all activations alive: `detach` it",
    )


# --- Step 5: workers


def message(lesson, number: int = 0):
    node = next(iter(symbolic_trace(chain).graph.nodes))
    return lesson.Message("F", node, 1, number)


def test_a_tensor_arrives_as_if_it_came_from_another_machine(lesson):
    box, key = lesson.Mailbox(), message(lesson)
    weight = torch.rand(2, 3, requires_grad=True)
    value = {"made": (weight * 2).t(), "plain": (torch.rand(2), 7)}
    box.send(key, value)
    arrived = box.receive(key)
    equal(
        [type(arrived), type(arrived.get("plain")), arrived["plain"][1]],
        [dict, tuple, 7],
        hint="`tree_map_only` changes the tensors in a nested value and keeps its form",
    )
    made, plain = arrived["made"], arrived["plain"][0]
    same_numbers([made.detach(), plain], [value["made"].detach(), value["plain"][0]])
    holds(
        made.is_leaf and made.requires_grad,
        "a leaf that requires a gradient, because the tensor that was sent does",
        got=made,
        cause=[
            (lambda got: not got.requires_grad, "no tensor that arrives requires a gradient"),
            (lambda got: not got.is_leaf, "the tensor arrives with its history: `detach` it"),
        ],
    )
    holds(not plain.requires_grad, "no gradient for a tensor that needs none", got=plain)
    equal(
        (made.stride(), plain.data_ptr() != value["plain"][0].data_ptr()),
        (value["made"].stride(), True),
        cause=[
            (lambda got: not got[1], "both stages have the same memory: send a copy"),
            (lambda got: got[0] == (2, 1), "the strides changed: a later `view` may fail"),
        ],
    )


def test_receive_waits_until_the_value_is_there_and_takes_it_out(lesson):
    box, first, second = lesson.Mailbox(), message(lesson, 0), message(lesson, 1)
    got = []
    thread = threading.Thread(target=lambda: got.append(box.receive(second)), daemon=True)
    thread.start()
    box.send(first, 1)
    box.send(second, 2)
    thread.join(2)
    equal(
        got,
        [2],
        cause=[
            (
                lambda got: not got,
                "a worker that waits isn't woken: `notify_all` when values change",
            ),
            (is_value([1]), "it took a value that was sent under another name"),
        ],
    )
    equal([*box.values], [first], cause=(lambda got: second in got, "the value is still there"))


def test_a_closed_mailbox_fails_whoever_waits(lesson):
    box, key, errors = lesson.Mailbox(), message(lesson), []

    def wait():
        try:
            box.receive(key)
        except Exception as error:
            errors.append(type(error).__name__)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    box.close()
    thread.join(2)
    equal(
        errors,
        ["ClosedError"],
        cause=(lambda got: got == [], "`receive` waits on, though the mailbox is closed"),
        hint="wait for either: the message is there, or `is_closed`",
    )


def workers(lesson, *functions):
    """A worker per function, which runs as the forward of its only micro-batch."""
    engines = {
        number: SimpleNamespace(forward=lambda _, function=function: function())
        for number, function in enumerate(functions)
    }
    return engines, orders_of(lesson, *["F0"] * len(functions))


def test_each_worker_has_a_thread_of_its_own(lesson):
    together = threading.Barrier(3)
    meet = lambda: together.wait(2)
    with noting(
        cause=(lambda _: True, "the workers run one after the other: start all, then wait"),
        on=(threading.BrokenBarrierError,),
    ):
        lesson.run_threads(*workers(lesson, meet, meet, meet), lesson.Mailbox())


def test_if_a_worker_fails_all_end_and_its_error_is_raised(lesson):
    box, key, ended = lesson.Mailbox(), message(lesson), []

    def waits():
        try:
            box.receive(key)
        finally:
            ended.append(True)

    def fails():
        raise ArithmeticError("bad numbers")

    before = threading.active_count()
    with pytest.raises((ArithmeticError, RuntimeError)) as caught:
        lesson.run_threads(*workers(lesson, waits, fails, waits), box)
    equal(
        repr(caught.value),
        "ArithmeticError('bad numbers')",
        cause=(lambda got: "Closed" in got, "the error is that of a worker that waited in vain"),
    )
    equal(caught.value.__notes__, ["While running 1F0, in stage 1"])
    equal((ended, threading.active_count()), ([True, True], before))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_threads_compute_what_one_process_does(lesson, schedule):
    batch = task(lesson, microbatches=4)
    loss = lesson.train_step(
        batch.gm, batch.stages, batch.batch, order=getattr(lesson, schedule), microbatches=4
    )
    same_numbers(loss, batch.loss)
    same_gradients(gradients(batch.gm), batch.gradients)


def test_threads_have_the_autocast_of_their_caller(lesson):
    batch, seen = task(lesson, "Row", stages=2, microbatches=2), []
    batch.stages[1].module.register_forward_pre_hook(lambda _, given: seen.append(given[0].dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        lesson.train_step(batch.gm, batch.stages, batch.batch, order=lesson.gpipe, microbatches=2)
    equal(
        {*seen},
        {torch.bfloat16},
        cause=(is_value({torch.float32}), "a plain thread has no autocast: use `Workers`"),
    )
