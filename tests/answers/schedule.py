"""Answers to ``schedule``."""

from __future__ import annotations

from functools import partial
from threading import Thread

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from tests.suite.answers import around, on, right, wrong

# --- the orders


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


# --- the stages


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
    never="an earlier `backward`",
)
def passes_missing_gradients_on(lesson):
    """Hands autograd every tensor, with or without a gradient."""
    backward_with(lesson, is_left=lambda pair: True)


@wrong("test_loss_and_gradients_are_those_of_one_process", says="an earlier `backward` freed it")
def starts_autograd_several_times(lesson):
    """Calls ``backward`` once per value, and the first call frees what the second needs."""
    backward_with(lesson, start=one_by_one)


@wrong("test_autograd_starts_at_all_tensors_at_once", says="once for all tensors")
def keeps_the_graph_for_the_next_value(lesson):
    """Calls ``backward`` once per value, and keeps what the next one needs."""
    backward_with(lesson, start=partial(one_by_one, retain_graph=True))


# --- the workers


@wrong("test_a_tensor_arrives_as_if_it_came_from_another_machine", says="no copy arrives")
def sends_the_history_along(lesson):
    """Puts the value itself into the mailbox."""

    @on(lesson.Mailbox)
    def send(box, message, value):
        with box.changed:
            box.values[message] = value
            box.changed.notify_all()


@wrong("test_receive_waits_until_the_value_is_there_and_takes_it_out", says="is woken")
def wakes_the_first_that_waits(lesson):
    """Calls ``notify``, and the worker that wakes waits for something else."""

    @on(lesson.Mailbox)
    def send(box, message, value):
        with box.changed:
            box.values[message] = tree_map_only(Tensor, lesson.arrived, value)
            box.changed.notify()


@wrong("test_if_a_worker_fails_all_end_and_its_error_is_raised", says="the mailbox is open")
def asks_the_workers_in_turn(lesson):
    """Waits for the first worker, which waits for the one that failed."""

    @on(lesson)
    def run_threads(engines, orders, mailbox):
        with lesson.Workers(len(orders)) as pool:
            for each in [pool.submit(lesson.work, engines, order) for order in orders]:
                each.result()


# --- right answers


@right(core_only=True)
def starts_at_a_sum_of_products(lesson):
    """Multiplies each tensor by its gradient, adds everything up, and calls ``backward`` there."""
    total = lambda pairs: sum((root * given).sum() for root, given in pairs)
    backward_with(lesson, start=lambda pairs: pairs and total(pairs).backward())


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
