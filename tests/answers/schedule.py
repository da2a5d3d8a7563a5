"""Answers to ``schedule``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from threading import Thread
from types import SimpleNamespace

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from tests.suite.answers import around, on, right, wrong

# --- the orders


@wrong("test_gpipe_runs_all_forwards_then_all_backwards", says="a backward follows each forward")
def alternates_from_the_start(lesson):
    """Runs each backward right after its forward, so the stages take turns."""

    @on(lesson)
    def gpipe(stages, microbatches):
        return [
            [lesson.Action(stage, kind, each) for each in range(microbatches) for kind in "FB"]
            for stage in range(stages)
        ]


@wrong("test_forwards_run_ahead_then_both_alternate", says="actions are missing")
def stops_after_the_last_forward(lesson):
    """Pairs forwards with backwards, and forgets the backwards that are left."""

    @on(lesson)
    def alternate(forwards, backwards, ahead):
        pairs = zip(forwards[ahead:], backwards, strict=False)
        return forwards[:ahead] + [action for pair in pairs for action in pair]


@wrong("test_1f1b_alternates_from_the_first_backward_on", says="one forward too many runs ahead")
def counts_the_forward_that_alternates(lesson):
    """Lets the last stage run one forward ahead, the one before it two."""

    @on(lesson)
    def one_f_one_b(stages, microbatches):
        orders = lesson.gpipe(stages, microbatches)
        return [
            lesson.alternate(order[:microbatches], order[microbatches:], stages - stage)
            for stage, order in enumerate(orders)
        ]


# --- the clock


@wrong("test_an_action_needs_its_neighbour_s_result", says="needs the gradients of the next stage")
def backwards_wait_for_their_own_forward_alone(lesson):
    """Lets a backward start when the stage's own forward has ended."""

    @around(lesson)
    def source(original, action, last):
        return action._replace(kind="F") if action.kind == "B" else original(action, last)


@wrong("test_a_deadlock_names_each_action_and_what_it_waits_for", says="a timeline was returned")
def returns_what_ran(lesson):
    """Stops when nothing can run, and returns the timeline so far."""

    @around(lesson)
    def simulate(original, orders, forward=1, backward=2):
        try:
            return original(orders, forward, backward)
        except RuntimeError:
            return lesson.Timeline([[] for _ in orders])


@wrong(
    "test_a_deadlock_names_each_action_and_what_it_waits_for", says="the pairs are the wrong way"
)
def turns_the_pairs_round(lesson):
    """Passes first what waits, then what it waits for."""

    @around(lesson)
    def deadlock(original, pairs):
        return original(pair[::-1] for pair in pairs)


@wrong("test_a_worker_may_run_several_stages", says="the highest one in the orders")
def counts_the_workers(lesson):
    """Takes the number of orders for that of the stages."""

    @around(lesson)
    def simulate(original, orders, forward=1, backward=2):
        find = lesson.source
        lesson.source = lambda action, last: find(action, len(orders) - 1)
        try:
            return original(orders, forward, backward)
        finally:
            lesson.source = find


# --- the stages


@wrong(
    "test_stages_are_numbered_in_an_order_in_which_they_can_run",
    says="the number is the callback's",
)
def numbers_as_the_callback_does(lesson):
    """Takes a stage's number from its name."""

    @around(lesson)
    def stages_of(original, gm, cut):
        stages = original(gm, cut)
        for stage in stages:
            stage.number = int(stage.name)
        return stages


@wrong("test_stages_are_numbered_in_an_order_in_which_they_can_run", says="aren't sorted")
def leaves_the_stages_as_the_graph_reaches_them(lesson):
    """Numbers the stages without sorting them."""
    lesson.order_partitions = list


# --- the engine


@wrong("test_the_stage_of_the_loss_has_the_losses", says="keeps all activations alive")
def keeps_losses_with_their_history(lesson):
    """Appends the loss as it is."""

    @around(lesson.Engine)
    def forward(original, engine, microbatch):
        original(engine, microbatch)
        if engine.losses:
            engine.losses[-1] = engine.held[microbatch][1][engine.loss]


def at_once(pairs):
    if pairs:
        torch.autograd.backward(*map(list, zip(*pairs, strict=True)))


def one_by_one(pairs, *, retain_graph=False):
    for root, gradient in pairs:
        torch.autograd.backward(root, gradient, retain_graph=retain_graph)


def backward_with(lesson, *, total=1, start=at_once, is_left=lambda pair: pair[1] is not None):
    """A backward that starts with other gradients, or calls autograd in another way."""

    @on(lesson.Engine)
    def backward(engine, microbatch):
        received, made = engine.held.pop(microbatch)
        roots = lesson.differentiable(made.get(engine.loss))
        gradients = [torch.full_like(root, total / len(engine.inputs)) for root in roots]
        for value, user in engine.sends:
            roots += lesson.differentiable(made[value])
            gradients += engine.channel.receive(lesson.Message("B", value, user, microbatch))
        start([pair for pair in zip(roots, gradients, strict=False) if is_left(pair)])
        for value in engine.receives:
            message = lesson.Message("B", value, engine.stage.number, microbatch)
            leaves = lesson.differentiable(received[value])
            engine.channel.send(message, [leaf.grad for leaf in leaves])


@wrong("test_each_micro_batch_has_its_share_of_the_gradient", says="you add up 4 micro-batches")
def adds_up_the_micro_batches(lesson):
    """Starts at the loss with a gradient of one."""
    backward_with(lesson, total=4)


@wrong(
    "test_loss_and_gradients_are_those_of_one_process",
    says="a sent tensor may have no gradient",
    never="two backwards",
)
def passes_missing_gradients_on(lesson):
    """Hands autograd every tensor, with or without a gradient."""
    backward_with(lesson, is_left=lambda pair: True)


@wrong("test_loss_and_gradients_are_those_of_one_process", says="two backwards share a part")
def starts_autograd_several_times(lesson):
    """Calls ``backward`` once per value, and the first call frees what the second needs."""
    backward_with(lesson, start=one_by_one)


def post_with(
    lesson,
    *,
    send=lambda channel, message, grads: channel.send(message, grads),
    receive=lambda channel, message, _: channel.receive(message),
):
    """A backward whose gradients are changed by functions of the channel, message and value."""

    @around(lesson.Engine)
    def backward(original, engine, microbatch):
        channel, made = engine.channel, engine.held[microbatch][1]
        engine.channel = SimpleNamespace(
            send=partial(send, channel),
            receive=lambda message: receive(
                channel, message, lesson.differentiable(made[message.value])
            ),
        )
        original(engine, microbatch)
        engine.channel = channel


@wrong("test_loss_and_gradients_are_those_of_one_process", says="a parameter gets some, too")
def takes_a_missing_gradient_for_zeros(lesson):
    """Lets parameters that one process gives no gradient have one of zeros."""

    def receive(channel, message, tensors):
        pairs = zip(tensors, channel.receive(message), strict=True)
        return [torch.zeros_like(tensor) if given is None else given for tensor, given in pairs]

    post_with(lesson, receive=receive)


@wrong("test_loss_and_gradients_are_those_of_one_process", says="never received")
def asks_one_user_for_its_gradient(lesson):
    """Receives a gradient from the next stage alone, though two stages use some values."""

    def receive(channel, message, tensors):
        return channel.receive(message) if message.user < 2 else [None] * len(tensors)

    post_with(lesson, receive=receive)


@wrong(
    "test_the_gradient_of_each_tensor_that_requires_one_is_sent_back",
    says="`None` was left out of the list",
)
def leaves_out_missing_gradients(lesson):
    """Sends only the gradients that there are, so the other side can't tell whose they are."""

    def send(channel, message, grads):
        channel.send(message, [each for each in grads if each is not None])

    post_with(lesson, send=send)


@wrong(
    "test_the_gradient_of_each_tensor_that_requires_one_is_sent_back", says="zeros aren't `None`"
)
def sends_zeros_for_a_missing_gradient(lesson):
    """Sends a number for everything."""

    def send(channel, message, grads):
        channel.send(message, [torch.zeros(1) if each is None else each for each in grads])

    post_with(lesson, send=send)


@wrong(
    "test_a_stage_holds_as_many_micro_batches_as_alive_says",
    says="a micro-batch is held after its backward",
)
def never_lets_go(lesson):
    """Looks into ``held``, and leaves everything there."""

    @around(lesson.Engine)
    def backward(original, engine, microbatch):
        held = dict(engine.held)
        original(engine, microbatch)
        engine.held = held


# --- the workers


@wrong(
    "test_a_tensor_arrives_as_if_it_came_from_another_machine",
    says="the tensor arrives with its history",
)
def sends_the_history_along(lesson):
    """Puts the value itself into the mailbox."""

    @on(lesson.Mailbox)
    def send(box, message, value):
        with box.changed:
            box.values[message] = value
            box.changed.notify_all()


def sending(lesson, change):
    """Let each tensor be changed on its way."""

    @around(lesson.Mailbox)
    def send(original, box, message, value):
        original(box, message, tree_map_only(Tensor, change, value))


@wrong(
    "test_a_tensor_arrives_as_if_it_came_from_another_machine",
    says="no tensor that arrives requires a gradient",
)
def forgets_what_requires_a_gradient(lesson):
    """Sends the numbers alone."""
    sending(lesson, Tensor.detach)


@wrong(
    "test_a_tensor_arrives_as_if_it_came_from_another_machine",
    says="no gradient for a tensor that needs none",
)
def asks_for_every_gradient(lesson):
    """Makes every tensor of floating-point numbers require a gradient."""
    sending(lesson, lambda t: t.detach().requires_grad_(t.is_floating_point()))


@wrong("test_a_tensor_arrives_as_if_it_came_from_another_machine", says="the strides changed")
def makes_everything_contiguous(lesson):
    """Sends contiguous tensors, as gloo wants them."""
    sending(lesson, lambda t: t.detach().contiguous().requires_grad_(t.requires_grad))


def sending_without(lesson, wake):
    """Leave a value in the mailbox, and wake those that wait in another way."""

    @on(lesson.Mailbox)
    def send(box, message, value):
        copied = tree_map_only(Tensor, lesson.arrived, value)
        with box.changed:
            box.values[message] = copied
            wake(box.changed)


@wrong("test_receive_waits_until_the_value_is_there_and_takes_it_out", says="is woken")
def lets_them_sleep(lesson):
    """Leaves the value in the mailbox without a word to those that wait."""
    sending_without(lesson, lambda changed: None)


@wrong("test_receive_waits_until_the_value_is_there_and_takes_it_out", says="is woken")
def wakes_the_first_that_waits(lesson):
    """Calls ``notify``, and the worker that wakes waits for something else."""
    sending_without(lesson, lambda changed: changed.notify())


def receiving(lesson, wait, fails=lambda box, message: message not in box.values, take=dict.pop):
    """A ``receive`` that waits, fails or takes the value in another way."""

    @on(lesson.Mailbox)
    def receive(box, message):
        with box.changed:
            wait(box, lambda: message in box.values or box.is_closed)
            if fails(box, message):
                raise lesson.ClosedError(f"nothing more is sent, not even {message}")
            return take(box.values, message)


def politely(box, question):
    box.changed.wait_for(question)


@wrong("test_receive_waits_until_the_value_is_there_and_takes_it_out", says="waits no more")
def waits_once(lesson):
    """Takes the first call for its own."""
    receiving(lesson, lambda box, question: question() or box.changed.wait())


@wrong("test_receive_waits_until_the_value_is_there_and_takes_it_out", says="are still there")
def leaves_the_values(lesson):
    """Reads a value, and leaves it in the mailbox."""
    receiving(lesson, politely, take=dict.get)


@wrong("test_a_worker_that_waits_leaves_the_processor_to_others", says="asking all the time")
def asks_all_the_time(lesson):
    """Waits in a loop."""

    @around(lesson.Mailbox)
    def receive(original, box, message):
        while message not in box.values and not box.is_closed:
            pass
        return original(box, message)


@wrong("test_a_closed_mailbox_fails_whoever_waits", says="though the mailbox is closed")
def throws_away_what_is_left(lesson):
    """Fails where the mailbox is closed, even if the value is there."""
    receiving(lesson, politely, fails=lambda box, _: box.is_closed)


@wrong("test_a_closed_mailbox_fails_whoever_waits", says="`receive` waits on")
def waits_for_the_value_alone(lesson):
    """Doesn't notice that the mailbox is closed."""

    @on(lesson.Mailbox)
    def receive(box, message):
        with box.changed:
            box.changed.wait_for(lambda: message in box.values)
            return box.values.pop(message)


@wrong("test_each_worker_has_a_thread_of_its_own", says="one after the other")
def runs_one_worker_after_the_other(lesson):
    """Calls the workers in a loop."""

    @on(lesson)
    def run_threads(engines, orders, mailbox):
        for order in orders:
            lesson.work(engines, order)


def pool_with(lesson, end):
    """Runs the workers in a pool, and treats the ends of the workers in another way."""

    @on(lesson)
    def run_threads(engines, orders, mailbox):
        with lesson.Workers(len(orders)) as pool:
            end([pool.submit(lesson.work, engines, order) for order in orders], mailbox)


@wrong("test_a_worker_that_ends_first_has_not_failed", says="when the first worker ended")
def closes_after_the_first(lesson):
    """Closes the mailbox as soon as one worker has ended."""

    def end(running, mailbox):
        wait(running, return_when="FIRST_COMPLETED")
        mailbox.close()
        for each in running:
            each.result()

    pool_with(lesson, end)


@wrong("test_if_a_worker_fails_all_end_and_its_error_is_raised", says="the mailbox is open")
def asks_the_workers_in_turn(lesson):
    """Waits for the first worker, which waits for the one that failed."""
    pool_with(lesson, lambda running, _: [each.result() for each in running])


@wrong(
    "test_if_a_worker_fails_all_end_and_its_error_is_raised", says="a worker that waited in vain"
)
def raises_the_first_error_in_the_list(lesson):
    """Closes in time, and raises what the first worker ended with."""

    def end(running, mailbox):
        wait(running, return_when="FIRST_EXCEPTION")
        mailbox.close()
        for each in running:
            each.result()

    pool_with(lesson, end)


@wrong("test_threads_have_the_autocast_of_their_caller", says="a plain thread has no autocast")
def starts_plain_threads(lesson):
    """Uses the standard library's pool."""
    lesson.Workers = ThreadPoolExecutor


# --- right answers


@right(core_only=True)
def sends_no_empty_messages(lesson):
    """Neither sends nor receives gradients of a value that has none."""
    post_with(
        lesson,
        send=lambda channel, message, grads: grads and channel.send(message, grads),
        receive=lambda channel, message, tensors: channel.receive(message) if tensors else [],
    )


@right(core_only=True)
def keeps_the_graph_for_the_next_value(lesson):
    """Calls ``backward`` once per value, and keeps what the next one needs."""
    backward_with(lesson, start=partial(one_by_one, retain_graph=True))


@right(core_only=True)
def goes_round_until_nothing_moves(lesson):
    """A clock without a topological order: each worker runs what it can, round by round."""

    @on(lesson)
    def simulate(orders, forward=1, backward=2):
        cost, last = {"F": forward, "B": backward}, max(a.stage for o in orders for a in o)
        rows, ends = [[] for _ in orders], {}
        while True:
            before = len(ends)
            for order, row in zip(orders, rows, strict=True):
                for action in order[len(row) :]:
                    source = lesson.source(action, last)
                    if source is not None and source not in ends:
                        break
                    start = max(ends.get(source, 0), row[-1].end if row else 0)
                    row.append(lesson.Run(action, start, start + cost[action.kind]))
                    ends[action] = row[-1].end
            if len(ends) == before:
                break
        stuck = [o[len(r)] for o, r in zip(orders, rows, strict=True) if len(r) < len(o)]
        if stuck:
            raise lesson.deadlock((lesson.source(each, last), each) for each in stuck)
        return lesson.Timeline(rows)


@right(core_only=True)
def starts_threads_itself(lesson):
    """Uses plain threads, and carries autocast over."""

    @on(lesson)
    def run_threads(engines, orders, mailbox):
        errors, dtype = [], torch.get_autocast_dtype("cpu")
        is_enabled = torch.is_autocast_enabled("cpu")

        def run(order):
            try:
                with torch.autocast("cpu", dtype=dtype, enabled=is_enabled):
                    lesson.work(engines, order)
            except BaseException as error:
                errors.append(error)
                mailbox.close()

        threads = [Thread(target=run, args=(order,)) for order in orders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
