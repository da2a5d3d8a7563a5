"""A pipeline of stages: the orders, a clock, the stages, the engine of one stage, and workers."""

import threading
import time
from concurrent.futures import Future, wait
from types import SimpleNamespace

import pytest
import torch

from given.schedule import ClosedError, differentiable
from tests.models.schedule import (
    engines,
    gradients,
    loss_of,
    run,
    same_gradients,
    task,
)
from tests.suite import equal, holds, is_value, noting, refuses, same_numbers
from tests.suite.engine import symbolic_trace
from tests.suite.expect import Words, is_todo

SCHEDULES = ("gpipe", "one_f_one_b")


def printed(orders) -> list[str]:
    return [" ".join(map(str, order)) for order in orders]


def orders_of(lesson, *texts: str):
    """The orders that print as these texts; without a number, the first text is of stage 0."""
    return [
        [lesson.Action(int(each[:-2] or stage), each[-2], int(each[-1])) for each in text.split()]
        for stage, text in enumerate(texts)
    ]


# --- Step 1: the orders


def test_gpipe_runs_all_forwards_then_all_backwards(lesson):
    equal(printed(lesson.gpipe(2, 3)), ["0F0 0F1 0F2 0B0 0B1 0B2", "1F0 1F1 1F2 1B0 1B1 1B2"])


@pytest.mark.parametrize(
    ("ahead", "expected"),
    [
        (0, "F0 B0 F1 B1 F2 B2"),
        (1, "F0 F1 B0 F2 B1 B2"),
        (4, "F0 F1 F2 B0 B1 B2"),
    ],
)
def test_forwards_run_ahead_then_both_alternate(lesson, ahead, expected):
    forwards, backwards = orders_of(lesson, "F0 F1 F2", "B0 B1 B2")
    equal(
        [str(action)[1:] for action in lesson.alternate(forwards, backwards, ahead)],
        expected.split(),
        cause=[
            (lambda got: len(got) < 6, "actions are missing: after the forwards, only backwards"),
            (lambda got: len(got) > 6, "actions run twice: for 0, `[-0:]` is the whole list"),
            (lambda got: got[0] == "B0", "each forward comes before its backward"),
            (lambda got: got.index("B0") > ahead + 1, "too many forwards run ahead"),
        ],
    )
    equal((len(forwards), len(backwards)), (3, 3), hint="leave the lists as they are")


@pytest.mark.parametrize(
    ("stages", "microbatches", "expected"),
    [
        (3, 4, ["0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3", "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3"]),
        (3, 2, ["0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"]),
    ],
    ids=["more micro-batches than stages", "fewer"],
)
def test_1f1b_alternates_from_the_first_backward_on(lesson, stages, microbatches, expected):
    *others, last = lesson.one_f_one_b(stages, microbatches)
    equal(
        printed(others),
        expected,
        cause=(lambda got: "1F0 1F1 1F2" in got[1], "one forward too many runs ahead"),
        hint="stage s of n runs n - 1 - s forwards ahead",
    )
    equal(
        [str(action)[1] for action in last],
        ["F", "B"] * microbatches,
        hint="the last stage has its gradient as soon as its forward has run",
    )


# --- Step 2: a clock


def test_an_action_needs_its_neighbour_s_result(lesson):
    (asked,) = orders_of(lesson, "0F1 1F1 2F1 0B1 1B1 2B1")
    equal(
        [str(lesson.source(action, 2)) for action in asked],
        ["None", "0F1", "1F1", "1B1", "2B1", "2F1"],
        cause=[
            (lambda got: got[0] != "None", "no stage comes before stage 0"),
            (lambda got: got[1] == "0F0", "the result needed is of the same micro-batch, here 1"),
            (lambda got: got[3] != "1B1", "a backward needs the gradients of the next stage"),
            (lambda got: got[5] == "None", "the backward of the last stage needs its own forward"),
        ],
    )


def starts(timeline) -> list[list[tuple]]:
    return [[(str(action), start) for action, start, _ in runs] for runs in timeline.workers]


def test_an_action_starts_when_its_worker_is_free_and_its_input_is_there(lesson):
    timeline = lesson.simulate(orders_of(lesson, "F0 F1 B0 B1", "F0 B0 F1 B1"))
    equal(
        starts(timeline),
        [
            [("0F0", 0), ("0F1", 1), ("0B0", 4), ("0B1", 7)],
            [("1F0", 1), ("1B0", 2), ("1F1", 4), ("1B1", 5)],
        ],
        cause=(lambda got: (got[0][1][1], got[1][1][1]) == (2, 4), "a forward took 2 instead of 1"),
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
    orders = orders_of(lesson, "0F0 2F0 2B0 0B0", "1F0 3F0 3B0 1B0")
    equal(
        starts(lesson.simulate(orders)),
        [
            [("0F0", 0), ("2F0", 2), ("2B0", 6), ("0B0", 10)],
            [("1F0", 1), ("3F0", 3), ("3B0", 4), ("1B0", 8)],
        ],
        cause=[
            (lambda got: len(got) == 4, "there is one list per worker, not one per stage"),
            (lambda got: got[0][2:] == [("2B0", 3), ("0B0", 8)], "here stage 3 is the last one"),
        ],
    )


@pytest.mark.parametrize(
    ("texts", "pairs"),
    [
        (("F0 B0 F1 B1", "F0 F1 B0 B1"), [("0B0", "1B0"), ("1F1", "0F1")]),
        (("F0", "B0 F0"), [("1B0", "1F0")]),
        (("", "F0 B0"), [("1F0", "0F0")]),
        (("F0 B0", "F0"), [("0B0", "1B0")]),
    ],
    ids=["circle", "wrong order", "no forward", "no backward"],
)
def test_a_deadlock_names_each_action_and_what_it_waits_for(lesson, texts, pairs):
    orders = orders_of(lesson, *texts)
    is_unknown = lambda error: str(error) not in " ".join(printed(orders))
    are_swapped = lambda error: all(f"{b} waits for {a}" in str(error) for a, b in pairs)
    words = "an action waits for one that is in no order: raise `deadlock` then, too"
    with (
        noting(cause=(is_unknown, words), on=(KeyError,)),
        refuses(
            RuntimeError,
            *(f"{user} waits for {needed}" for user, needed in pairs),
            cause=[
                (lambda error: error is None, "a timeline was returned, but an action can't run"),
                (are_swapped, "of each pair, the second action waits for the first"),
                (lambda error: "waits for" not in str(error), "it isn't `deadlock`'s error"),
            ],
            hint="they wait in a circle, or for an action that is in no order",
        ),
    ):
        lesson.simulate(orders)


def test_a_deadlock_names_no_action_that_can_run(lesson):
    with refuses(RuntimeError, "deadlock"):
        try:
            lesson.simulate(orders_of(lesson, "F0 B0 F1 B1", "F0 F1 B0 B1"))
        except RuntimeError as error:
            words = str(error)
            holds("1F0 waits" not in words, "no `1F0`: it runs after `0F0`", got=Words(words))
            raise


def test_alive_counts_the_micro_batches_that_a_worker_holds_at_once(lesson):
    equal(
        (lesson.alive(lesson.gpipe(4, 8)), lesson.alive(lesson.one_f_one_b(4, 8))),
        ([8, 8, 8, 8], [4, 3, 2, 1]),
        cause=[
            (lambda got: got[1] == [8] * 4, "all forwards count, not those held at once"),
            (lambda got: got[0] == [0] * 4, "nothing is held at the end: return the most at once"),
        ],
    )
    equal(
        lesson.alive(orders_of(lesson, "F0 B0 F1 F2 B1 B2", "1F0 3F0 3B0 1B0", "", "F0 F1")),
        [2, 2, 0, 2],
        cause=[
            (lambda got: got[1] == 1, "the worker holds a micro-batch once in each of two stages"),
            (lambda got: got[3] == 1, "the last action counts, too"),
        ],
    )


# --- Step 3: the stages


def chain(x, y):
    return ((x + 1).relu() * y).tanh()


def names(nodes) -> list[str]:
    return [node.name for node in nodes]


def cut(lesson, gm, **numbers: int) -> list:
    """The stages of a model, from the numbers of its calls."""
    is_input = lambda error: error.args[0].op == "placeholder"
    words = "the stage's `inputs` don't have it: `collect_crossings` comes first"
    with noting(cause=(is_input, words), on=(KeyError,)):
        return lesson.stages_of(gm, lambda node: numbers[node.name])


def test_a_stage_knows_what_crosses_its_borders_and_computes_its_part(lesson):
    gm = symbolic_trace(chain)
    first, second = cut(lesson, gm, add=0, relu=0, mul=1, tanh=1)
    holds(isinstance(first, lesson.Stage), "a `Stage`", got=first, hint="pass it to `assign_nodes`")
    equal(
        [names(each) for each in (first.inputs, first.outputs, second.inputs, second.outputs)],
        [["x"], ["relu"], ["relu", "y"], ["tanh"]],
        hint="`collect_crossings`",
    )
    x, y = torch.rand(3), torch.rand(3)
    holds(first.module is not None, "a module in each stage", hint="`build_submodule`")
    same_numbers(second.module(first.module(x), y), chain(x, y))


def test_stages_are_numbered_in_an_order_in_which_they_can_run(lesson):
    gm = symbolic_trace(lambda x: (x + 1) * x.relu())  # the first stage reached is the last to run
    stages = cut(lesson, gm, add=3, relu=7, mul=3)
    equal(
        [(stage.number, names(stage.nodes)) for stage in stages],
        [(0, ["relu"]), (1, ["add", "mul"])],
        cause=(
            is_value([(0, ["add", "mul"]), (1, ["relu"])]),
            "they aren't sorted by what they need",
        ),
        hint="`collect_crossings`, `order_partitions`, then `enumerate`",
    )


# --- Step 4: one stage runs its actions


@pytest.mark.parametrize(
    ("model", "stages", "kind"),
    [("skip", 3, torch.Tensor), ("halves", 4, tuple)],
    ids=["several values", "one tuple"],
)
def test_what_a_stage_made_is_found_by_its_nodes(lesson, model, stages, kind):
    engine, *_ = engines(lesson, task(lesson, model, stages=stages))
    words = "the module returns the value itself if `returns_single`, otherwise a tuple"
    with noting(cause=(lambda _: True, words), on=(ValueError,)):
        made = engine.compute(0, {})
    types = {node: type(value) for node, value in made.items()}
    equal(types, dict.fromkeys(engine.stage.outputs, kind), hint=words)


def test_each_value_is_sent_to_each_stage_that_uses_it(lesson):
    first, *_ = engines(lesson, task(lesson, "early", microbatches=1))
    first.forward(0)
    sent = {(value, user) for _, value, user, _ in first.channel.sent}
    equal(sent, {*first.sends}, hint="send it once to each user: see `sends`")


def test_each_micro_batch_has_its_share_of_the_gradient(lesson):
    batch = task(lesson, stages=1)
    (engine,) = engines(lesson, batch)
    batch.gm(*batch.inputs[1].values()).backward()
    whole = gradients(batch.gm)
    batch.gm.zero_grad()
    engine.forward(0)
    engine.forward(1)
    equal(
        (sorted(engine.held), len(engine.losses)),
        ([0, 1], 2),
        hint="`forward` fills `held`, under the micro-batch's number, and appends the loss",
    )
    kept = engine.held[1]
    engine.backward(1)
    cut = (lambda _: not any(map(differentiable, kept)), "what `held` has requires no gradient")
    holds(gradients(batch.gm), "gradients of the parameters", got={}, cause=cut)
    times = gradients(batch.gm)["scale"] / whole["scale"]
    same_gradients(
        gradients(batch.gm),
        {name: each / 4 for name, each in whole.items()},
        cause=[
            (times.allclose(torch.ones(4)), "you add up 4 micro-batches: start with 1 / 4"),
            (times.allclose(times[0]), "the gradient of the loss is 1 / 4: see `inputs`"),
            (lambda _: torch.equal(*engine.losses), "two micro-batches have the inputs of one"),
        ],
    )


def test_the_gradient_of_each_tensor_that_requires_one_is_sent_back(lesson):
    batch = task(lesson, "halves", stages=2, microbatches=1)
    stages = engines(lesson, batch)
    for action in (stages[0].forward, stages[1].forward, stages[1].backward):
        action(0)
    sent = {
        (kind, value.name): given for (kind, value, *_), given in stages[0].channel.sent.items()
    }
    found = sent["B", "split"]
    holds(
        len(found) == 2 and found[0] is None and found[1] is not None,
        "a list of two: `None` for the first tensor of the tuple, a gradient for the second",
        got=found,
        cause=[
            (
                not any(each.requires_grad for each in sent["F", "split"]),
                "what was sent requires no gradient: it was detached, or made under `no_grad`",
            ),
            (
                lambda got: got == [None, None],
                "autograd hasn't filled in the `grad` of these leaves",
            ),
            (lambda got: len(got) == 1, "the first tensor has no gradient, and was left out"),
            (
                lambda got: isinstance(got[0], torch.Tensor) and not got[0].any(),
                "zeros aren't `None`: the tensor has no gradient",
            ),
        ],
    )


ONCE = (
    lambda error: "Trying to backward through the graph a second time" in str(error),
    "an earlier `backward` freed it: run one per micro-batch, from all tensors at once",
)
NOTHING = (
    lambda error: "grad can be implicitly created only for scalar" in str(error),
    "autograd got `None` for a tensor that isn't a loss: a sent tensor may have no gradient",
)


def test_the_stage_of_the_loss_has_the_losses(lesson):
    stages = engines(lesson, task(lesson, "perplexity"))
    missed = lambda error: error.args[0] is stages[0].loss
    cause = (missed, "here the last stage doesn't make the loss: look whether `loss` was made")
    with noting(cause=[cause, ONCE, NOTHING], on=(KeyError, RuntimeError)):
        run(stages, lesson.gpipe(3, 4))
    losses = [engine.losses for engine in stages]
    equal([len(each) for each in losses], [0, 4, 0])
    holds(
        all(isinstance(loss, torch.Tensor) and not loss.requires_grad for loss in losses[1]),
        "tensors without history",
        got=losses[1],
        cause=(
            lambda got: got[0].requires_grad,
            "a loss with history keeps all activations alive: `detach` it",
        ),
    )


def test_a_tensor_that_requires_no_gradient_has_no_entry(lesson):
    stages = engines(lesson, task(lesson, "frozen", microbatches=1))
    run(stages, lesson.gpipe(3, 1))
    sent = stages[0].channel.sent.items()
    equal(
        [given for (kind, value, *_), given in sent if (kind, value.name) == ("B", "argsort")],
        [[]],
        hint="the entries are those of `differentiable(value)`",
    )


@pytest.mark.parametrize(
    "model", ["skip", "in_place", "frozen", "early", "detached", "perplexity", "halves"]
)
def test_loss_and_gradients_are_those_of_one_process(lesson, model):
    batch = task(lesson, model)
    stages = engines(lesson, batch)
    with noting(cause=[ONCE, NOTHING], on=(RuntimeError,)):
        run(stages, lesson.one_f_one_b(3, 4))
    share = lambda got: got.allclose(batch.loss / 4)
    same_numbers(loss_of(stages), batch.loss, cause=(share, "append each loss as it is, undivided"))
    same_gradients(gradients(batch.gm), batch.gradients)


def test_autograd_starts_at_all_tensors_at_once(lesson):
    batch, fired = task(lesson, "early", microbatches=1), []
    batch.gm.a.weight.register_post_accumulate_grad_hook(lambda _: fired.append(True))
    run(engines(lesson, batch), lesson.gpipe(3, 1))
    hint = "call `backward` once for all tensors: a hook of a parameter runs each time"
    equal(len(fired), 1, hint=hint)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_stage_holds_as_many_micro_batches_as_alive_says(lesson, schedule):
    stages, orders = engines(lesson, task(lesson)), getattr(lesson, schedule)(3, 4)
    most = run(stages, orders)
    hint = "remove a micro-batch from `held` in its backward"
    equal([len(engine.held) for engine in stages], [0, 0, 0], hint=hint)
    equal(most, lesson.alive(orders))


# --- Step 5: workers


def message(lesson, number: int = 0):
    node = next(iter(symbolic_trace(chain).graph.nodes))
    return lesson.Message("F", node, 1, number)


def test_a_tensor_arrives_as_if_it_came_from_another_machine(lesson):
    box, key = lesson.Mailbox(), message(lesson)
    made = (torch.rand(2, 3, requires_grad=True) * 2).t()
    box.send(key, [made, None, {"plain": (torch.rand(2), 7)}])
    sent = made.detach().clone()
    made.detach().zero_()  # the sender goes on, and writes to its tensor
    arrived = box.receive(key)
    copy, nothing, nested = arrived
    equal(
        [type(arrived), nothing, type(nested.get("plain")), nested["plain"][1]],
        [list, None, tuple, 7],
        hint="`tree_map_only` changes the tensors in a nested value and keeps its form",
    )
    holds(
        copy.is_leaf and copy.requires_grad,
        "a leaf that requires a gradient, because the tensor that was sent does",
        got=copy,
        cause=[
            (lambda got: got is made, "no copy arrives: change each tensor in a tuple or dict"),
            (lambda got: not got.is_leaf, "the tensor arrives with its history: `detach` it"),
        ],
    )
    same_numbers(
        copy.detach(),
        sent,
        cause=(lambda got: not got.any(), "a write after `send` arrives: `send` has to copy"),
    )
    holds(not nested["plain"][0].requires_grad, "no gradient for a tensor that needs none")
    equal(copy.stride(), made.stride(), hint="a later `view` may need the strides")


def started(function, *arguments) -> Future:
    """Call a function in a thread that needn't end."""
    future = Future()

    def call() -> None:
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    return future


def outcome(future: Future) -> object:
    """What a call has returned within two seconds."""
    try:
        return future.result(2)
    except (ClosedError, TimeoutError) as error:
        return type(error).__name__


class Waited(threading.Condition):
    """Counts the threads that have begun to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)

    def wait(self, timeout: float | None = None) -> bool:
        self.begun.release()
        return super().wait(timeout)


def test_receive_waits_until_the_value_is_there_and_takes_it_out(lesson):
    box, keys = lesson.Mailbox(), [message(lesson, number) for number in range(3)]
    box.changed, waiting = Waited(), []
    box.send(keys[2], "never received")
    for key in keys[:2]:
        waiting.append(started(box.receive, key))
        box.changed.begun.acquire(timeout=0.2)
    box.send(keys[1], None)
    second = outcome(waiting[1])
    box.changed.begun.acquire(timeout=0.2)  # the first one waits again
    box.send(keys[0], "first")
    equal(
        [outcome(waiting[0]), second],
        ["first", None],
        cause=[
            (is_value(["ClosedError", None]), "woken for another value, it waits no more"),
            (is_value(["ClosedError"] * 2), "`receive` doesn't wait, but the mailbox isn't closed"),
            (is_value(["TimeoutError"] * 2), "not every worker that waits is woken by a send"),
            (lambda got: got[0] == "first", "`None` is a value: ask whether the message is there"),
        ],
        hint="`wait_for` in `receive`, and `notify_all` in `send`",
    )
    stays = (lambda got: len(got) > 1, "what was received stays in the mailbox: take it out")
    equal([*box.values], keys[2:], cause=stays)


def test_a_worker_that_waits_leaves_the_processor_to_others(lesson):
    box, key = lesson.Mailbox(), message(lesson)
    waiting = started(lambda: (box.receive(key), time.thread_time()))
    time.sleep(0.2)
    box.send(key, 1)
    _, seconds = waiting.result(2)
    holds(
        seconds < 0.02,
        "no time of the processor, while it waits",
        got=Words(f"{seconds:.2f} of 0.2 seconds"),
        hint="`self.changed.wait_for` waits without asking all the time",
    )


def test_a_wait_on_a_closed_mailbox_fails(lesson):
    box, there, missing = lesson.Mailbox(), message(lesson, 0), message(lesson, 1)
    box.send(there, 7)
    waiting = started(box.receive, missing)
    box.close()
    is_another = lambda error: type(error) in (KeyError, RuntimeError)
    words = "the mailbox is closed and the value isn't there: raise `ClosedError`"
    with noting(cause=(is_another, words), on=(KeyError, RuntimeError)):
        equal(
            outcome(waiting),
            "ClosedError",
            cause=(is_value("TimeoutError"), "`receive` waits on, though the mailbox is closed"),
            hint="wait for either: the message is there, or `is_closed`",
        )
    equal(
        outcome(started(box.receive, there)),
        7,
        cause=(is_value("ClosedError"), "the value is there, though the mailbox is closed"),
    )


def workers(lesson, *functions):
    """A worker per function, which runs as the forward of its only micro-batch."""
    engines = {
        number: SimpleNamespace(forward=lambda _, function=function: function())
        for number, function in enumerate(functions)
    }
    return engines, orders_of(lesson, *["F0"] * len(functions))


def test_each_worker_has_a_thread_of_its_own_and_runs_its_stages(lesson):
    together, ran = threading.Barrier(3), []
    meet = lambda: together.wait(2)
    engines, orders = workers(lesson, meet, meet, meet, lambda: ran.append(3))
    orders[0] += orders.pop()  # the first worker has two stages
    with noting(
        cause=[
            (
                lambda error: isinstance(error, KeyError),
                "a worker may run several stages: `work` takes all engines",
            ),
            (lambda _: True, "the workers run one after the other: start all, then wait"),
        ],
        on=(threading.BrokenBarrierError, KeyError),
    ):
        lesson.run_threads(engines, orders, lesson.Mailbox())
    equal(ran, [3])


def test_a_worker_that_ends_first_has_not_failed(lesson):
    box, key, came = lesson.Mailbox(), message(lesson), []
    ends, late = (lambda: None), (lambda: (time.sleep(0.1), box.send(key, 1)))

    def waits():
        try:
            came.append(box.receive(key))
        except ClosedError:
            came.append("closed" if box.is_closed else "")
            raise

    ended = outcome(started(lesson.run_threads, *workers(lesson, ends, late, waits), box))
    equal(
        (ended, came),
        (None, [1]),
        cause=(lambda got: "closed" in got[1], "the mailbox was closed when a worker had ended"),
        hint="close it after an error, or when all have ended",
    )


def test_if_a_worker_fails_all_end_and_its_error_is_raised(lesson):
    box, key, ended = lesson.Mailbox(), message(lesson), []

    def waits():
        try:
            box.receive(key)
        finally:
            time.sleep(0.05)
            ended.append(True)

    def fails():
        time.sleep(0.05)
        raise ArithmeticError("bad numbers")

    functions = [waits, fails, waits, *[lambda: None] * 100]  # the last ones end well
    running = started(lesson.run_threads, *workers(lesson, *functions), box)
    wait([running], 2)
    has_ended, is_open = running.done(), not box.is_closed
    box.close()  # or the threads would never end
    holds(
        has_ended,
        "an end, because a worker has failed",
        got=Words("still running after 2 seconds"),
        cause=(is_open, "the mailbox is open, and the others wait for the one that failed"),
        hint="`concurrent.futures.wait` can return at the first error",
    )
    error = running.exception()
    if is_todo(error):
        raise error
    equal(
        repr(error),
        "ArithmeticError('bad numbers')",
        cause=[
            (lambda got: "bad numbers" in got, "the worker's error is wrapped: raise it itself"),
            (lambda got: "Closed" in got, "the error is that of a worker that waited in vain"),
            (is_value("None"), "the error is lost: any of the workers may be the one that failed"),
        ],
    )
    equal(error.__notes__, ["While running 1F0, in stage 1"])
    still_runs = (
        lambda got: len(got) < 2,
        "a worker still runs: wait for all, also after an error",
    )
    equal(ended, [True, True], cause=still_runs)


def test_a_worker_that_finds_the_mailbox_closed_has_failed(lesson):
    box, key = lesson.Mailbox(), message(lesson)
    box.close()
    with refuses(ClosedError, cause="its error is lost, though no other worker has failed"):
        lesson.run_threads(*workers(lesson, lambda: box.receive(key)), box)


def test_threads_compute_what_one_process_does(lesson):
    batch, order = task(lesson), lesson.one_f_one_b
    loss = lesson.train_step(batch.gm, batch.stages, batch.batch, order=order, microbatches=4)
    same_numbers(loss, batch.loss)
    same_gradients(gradients(batch.gm), batch.gradients)


def test_threads_have_the_autocast_of_their_caller(lesson):
    batch, seen = task(lesson, "row", stages=2, microbatches=2), []
    batch.stages[1].module.register_forward_pre_hook(lambda _, given: seen.append(given[0].dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        lesson.train_step(batch.gm, batch.stages, batch.batch, order=lesson.gpipe, microbatches=2)
    equal(
        {*seen},
        {torch.bfloat16},
        cause=(is_value({torch.float32}), "a plain thread has no autocast: use `Workers`"),
    )
