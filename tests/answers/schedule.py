"""Answers to ``schedule``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Thread

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


@wrong(
    "test_a_deadlock_names_each_stage_and_the_action_it_waits_for", says="a timeline was returned"
)
def returns_what_ran(lesson):
    """Stops when nothing can run, and returns the timeline so far."""

    @around(lesson)
    def simulate(original, orders, forward=1, backward=2):
        try:
            return original(orders, forward, backward)
        except RuntimeError:
            return lesson.Timeline([[] for _ in orders])


# --- the stages


@wrong("test_an_even_cut_counts_calls_alone", says="the placeholders are counted, too")
def counts_every_node(lesson):
    """Shares out all nodes, though placeholders cost nothing."""

    @around(lesson)
    def evenly(original, graph, stages):
        original(graph, stages)
        nodes = list(graph.nodes)[:-1]
        return lambda node: nodes.index(node) * stages // len(nodes)


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


# --- the engine


@wrong("test_loss_and_gradients_are_those_of_one_process", says="pass a clone")
def passes_the_leaf(lesson):
    """Calls the module with the received tensors themselves."""

    @on(lesson.Engine)
    def compute(engine, microbatch, received):
        known = received | engine.inputs[microbatch]
        read = [
            known[value] if value in known else engine.gm.get_parameter(str(value.target))
            for value in engine.stage.inputs
        ]
        result = engine.stage.module(*read)
        results = [result] if engine.stage.returns_single else result
        return dict(zip(engine.stage.outputs, results, strict=True))


@wrong(
    "test_a_stage_computes_on_the_inputs_of_its_micro_batch",
    says="it has the inputs of micro-batch 0",
)
def takes_the_first_inputs(lesson):
    """Computes on the inputs of the first micro-batch each time."""

    @around(lesson.Engine)
    def compute(original, engine, microbatch, received):
        return original(engine, 0, received)


@wrong("test_the_stage_of_the_loss_has_the_losses", says="keeps all activations alive")
def keeps_losses_with_their_history(lesson):
    """Appends the loss as it is."""

    @around(lesson.Engine)
    def forward(original, engine, microbatch):
        original(engine, microbatch)
        if engine.losses:
            engine.losses[-1] = engine.held[microbatch][1][engine.loss]


def backward_with(lesson, *, share=True, none=True, one_by_one=False, keep=False, left_out=False):
    """A backward that goes wrong, or right, in one of several ways."""

    @on(lesson.Engine)
    def backward(engine, microbatch):
        received, made = engine.held[microbatch] if keep else engine.held.pop(microbatch)
        roots = lesson.differentiable(made.get(engine.loss))
        parts = len(engine.inputs) if share else 1
        gradients = [torch.full_like(root, 1 / parts) for root in roots]
        for value, user in engine.sends:
            roots += lesson.differentiable(made[value])
            gradients += engine.channel.receive(lesson.Message("B", value, user, microbatch))
        pairs = [
            pair for pair in zip(roots, gradients, strict=False) if pair[1] is not None or not none
        ]
        if one_by_one:
            for root, gradient in pairs:
                torch.autograd.backward(root, gradient, retain_graph=one_by_one == "retained")
        elif pairs:
            torch.autograd.backward(*map(list, zip(*pairs, strict=True)))
        for value in engine.receives:
            grads = [leaf.grad for leaf in lesson.differentiable(received[value])]
            grads = [grad for grad in grads if grad is not None or not left_out]
            message = lesson.Message("B", value, engine.stage.number, microbatch)
            engine.channel.send(message, grads)


@wrong("test_loss_and_gradients_are_those_of_one_process", says="you added up the gradients of 4")
def adds_up_the_micro_batches(lesson):
    """Starts at the loss with a gradient of one."""
    backward_with(lesson, share=False)


@wrong(
    "test_loss_and_gradients_are_those_of_one_process",
    says="a sent tensor may have no gradient",
    never="two backwards",
)
def passes_missing_gradients_on(lesson):
    """Hands autograd every tensor, with or without a gradient."""
    backward_with(lesson, none=False)


@wrong("test_loss_and_gradients_are_those_of_one_process", says="two backwards share a part")
def starts_autograd_several_times(lesson):
    """Calls ``backward`` once per value, and the first call frees what the second needs."""
    backward_with(lesson, one_by_one=True)


@wrong(
    "test_the_gradient_of_each_tensor_that_requires_one_is_sent_back",
    says="`None` was left out of the list",
)
def leaves_out_missing_gradients(lesson):
    """Sends only the gradients that there are, so the other side can't tell whose they are."""
    backward_with(lesson, left_out=True)


@wrong(
    "test_a_stage_holds_as_many_micro_batches_as_alive_says",
    says="a micro-batch is held after its backward",
)
def never_lets_go(lesson):
    """Looks into ``held``, and leaves everything there."""
    backward_with(lesson, keep=True)


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


@wrong("test_receive_waits_until_the_value_is_there_and_takes_it_out", says="isn't woken")
def lets_them_sleep(lesson):
    """Leaves the value in the mailbox without a word to those that wait."""

    @on(lesson.Mailbox)
    def send(box, message, value):
        copied = tree_map_only(Tensor, lesson.arrived, value)
        with box.changed:
            box.values[message] = copied


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


@wrong("test_threads_have_the_autocast_of_their_caller", says="a plain thread has no autocast")
def starts_plain_threads(lesson):
    """Uses the standard library's pool."""
    lesson.Workers = ThreadPoolExecutor


# --- right answers


@right(core_only=True)
def puts_larger_stages_last(lesson):
    """Gives the last stages one call more, if the calls can't be shared out equally."""

    @on(lesson)
    def evenly(graph, stages):
        calls = [node for node in graph.nodes if node.op.startswith("call_")]
        if not 0 < stages <= len(calls):
            raise ValueError(f"{len(calls)} calls can't be cut into {stages} stages")
        small, larger = divmod(len(calls), stages)
        sizes = [small] * (stages - larger) + [small + 1] * larger
        numbers = [number for number, size in enumerate(sizes) for _ in range(size)]
        return dict(zip(calls, numbers, strict=True)).__getitem__


@right(core_only=True)
def keeps_the_graph_for_the_next_value(lesson):
    """Calls ``backward`` once per value, and keeps what the next one needs."""
    backward_with(lesson, one_by_one="retained")


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
