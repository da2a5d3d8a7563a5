"""Answers to ``schedule``."""

from __future__ import annotations

import io

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._pytree import tree_map_only

from tests.suite.answers import around, on, right, wrong

# --- the orders


@wrong("test_gpipe_runs_all_forwards_then_all_backwards", says="a backward follows each forward")
def alternates_from_the_start(lesson):
    """Runs each backward right after its forward, so the stages take turns."""

    @on(lesson)
    def gpipe(stages, microbatches):
        order = [lesson.Action(kind, each) for each in range(microbatches) for kind in "FB"]
        return [list(order) for _ in range(stages)]


@wrong("test_each_stage_has_its_own_order", says="both stages have the same list")
def shares_one_order(lesson):
    """Repeats one list."""
    gpipe = lesson.gpipe
    lesson.gpipe = lambda stages, microbatches: gpipe(1, microbatches) * stages


@wrong("test_1f1b_works_with_fewer_micro_batches_than_stages", says="there is no third micro-batch")
def runs_micro_batches_that_are_not_there(lesson):
    """Forgets that there may be fewer micro-batches than stages."""
    lesson.one_f_one_b = lambda stages, microbatches: [
        lesson._alternating(stages - stage, microbatches) for stage in range(stages)
    ]


# --- the clock


@wrong(
    "test_an_action_starts_when_its_stage_is_free_and_its_input_is_there",
    says="B0 of stage 0 doesn't wait for B0 of stage 1",
)
def backwards_wait_for_their_own_forward_alone(lesson):
    """Lets a backward start when the stage's own forward has ended."""

    @on(lesson)
    def _source(stage, action, stages):
        if action.kind == "F":
            return (stage - 1, action) if stage else None
        return stage, lesson.Action("F", action.microbatch)


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


# --- the engine


@wrong(
    "test_a_model_may_write_to_a_tensor_in_a_received_tuple",
    says="a leaf Variable that requires grad is being used in an in-place operation",
)
def clones_only_what_is_a_tensor_itself(lesson):
    """Clones a received tensor, but not those in a tuple."""
    lesson._clone = lambda value: (
        value.clone() if isinstance(value, Tensor) and value.requires_grad else value
    )


@wrong("test_a_placeholder_without_an_input_takes_its_default", says="StopIteration")
def expects_an_input_for_each_placeholder(lesson):
    """Takes the inputs one after the other, and forgets the defaults."""

    @on(lesson.Engine)
    def compute(engine, microbatch, received):
        interpreter, inputs = lesson.Interpreter(engine.gm), iter(engine.inputs[microbatch])
        for maker, nodes in engine.stage.receives.items():
            interpreter.env |= zip(nodes, map(lesson._clone, received[maker]), strict=True)
        value = None
        for node in engine.stage.nodes:
            is_input = node.op == "placeholder"
            value = next(inputs) if is_input else interpreter.run_node(node)
            interpreter.env[node] = value
        return interpreter.env, value


@wrong("test_the_last_stage_has_the_losses", says="a loss with history keeps all activations alive")
def keeps_losses_with_their_history(lesson):
    """Appends the loss as it is."""

    @around(lesson.Engine)
    def forward(original, engine, microbatch):
        original(engine, microbatch)
        if engine.losses:
            engine.losses[-1] = engine.held[microbatch].loss


@wrong(
    "test_loss_and_gradients_are_those_of_one_process",
    says="a sent tensor may have no gradient",
    never="two backwards",
)
def passes_missing_gradients_on(lesson):
    """Hands autograd every tensor, with or without a gradient."""

    @on(lesson.Engine)
    def backward(engine, microbatch):
        held = engine.held.pop(microbatch)
        pairs = [(loss, None) for loss in lesson.differentiable(held.loss)]
        for user, values in held.sent.items():
            gradients = engine.channel.receive(user, microbatch)
            pairs += zip(lesson.differentiable(values), gradients, strict=True)
        if pairs:
            torch.autograd.backward(*zip(*pairs, strict=True))
        for maker, values in held.received.items():
            leaves = lesson.differentiable(values)
            engine.channel.send([leaf.grad for leaf in leaves], maker, microbatch)


@wrong("test_the_engine_waits_until_all_messages_have_left", says="`flush` the channel once")
def leaves_without_waiting(lesson):
    """Ends while messages may still be on their way."""

    @on(lesson.Engine)
    def run(engine, order):
        for action in order:
            (engine.forward if action.kind == "F" else engine.backward)(action.microbatch)


# --- the channel and the processes


@wrong("test_values_arrive_in_another_process", says="no tensor that arrived requires a gradient")
def forgets_what_requires_a_gradient(lesson):
    """Sends the numbers alone."""
    receive = lesson.Channel.receive
    lesson.Channel.receive = lambda *args: tree_map_only(Tensor, Tensor.detach, receive(*args))


@wrong("test_parts_of_different_sizes_are_refused", says="parts were returned")
def cuts_as_chunk_does(lesson):
    """Lets ``chunk`` choose the sizes."""

    @on(lesson)
    def microbatches_of(value, microbatches):
        if isinstance(value, Tensor) and value.dim():
            return list(value.chunk(microbatches))
        return [value] * microbatches


@wrong(
    "test_processes_compute_what_one_does_and_leave_the_model_alone",
    says="the gradients from before the step were counted",
)
def keeps_older_gradients(lesson):
    """Doesn't clear the gradients that the process inherits."""

    @around(lesson)
    def run_stage(original, number, step):
        step.gm.zero_grad = lambda: None
        original(number, step)


@wrong(
    "test_a_stage_waits_for_the_others_before_its_process_ends", says="`dist.barrier` isn't called"
)
def leaves_before_the_others(lesson):
    """Ends its process while its neighbours may still receive."""

    @on(lesson)
    def run_stage(number, step):
        step.gm.zero_grad()
        with step.process_group(number):
            engine = step.engine(number, lesson.Channel())
            engine.run(step.orders[number])
            step.save(number, engine)


@wrong("test_gradients_of_several_stages_are_added_up", says="replaced that of another")
def takes_one_stage_for_all(lesson):
    """Takes a parameter's gradient from the last stage that has one."""

    @on(lesson)
    def together(step):
        losses, gradients = zip(*step.results(), strict=True)
        means = {name: each / len(step.inputs) for part in gradients for name, each in part.items()}
        return torch.stack([loss for part in losses for loss in part]).mean(), means


# --- right answers


@right(core_only=True)
def puts_larger_stages_last(lesson):
    """Gives the last stages one call more, if the calls can't be shared out equally."""

    @on(lesson)
    def cut_evenly(gm, stages):
        calls = [node for node in gm.graph.nodes if node.op.startswith("call_")]
        if not 0 < stages <= len(calls):
            raise ValueError(f"{len(calls)} calls can't be cut into {stages} stages")
        small, larger = divmod(len(calls), stages)
        sizes = [small] * (stages - larger) + [small + 1] * larger
        numbers = [number for number, size in enumerate(sizes) for _ in range(size)]
        return lesson.split_module(gm, gm, dict(zip(calls, numbers, strict=True)).__getitem__)


@right(core_only=True)
def starts_autograd_at_one_value_after_the_other(lesson):
    """Calls ``backward`` once per value that has a gradient."""

    @on(lesson.Engine)
    def backward(engine, microbatch):
        held = engine.held.pop(microbatch)
        roots, gradients = [], []
        if held.loss is not None and held.loss.requires_grad:
            roots, gradients = [held.loss], [None]
        for user, values in held.sent.items():
            arrived = engine.channel.receive(user, microbatch)
            for root, gradient in zip(lesson.differentiable(values), arrived, strict=True):
                if gradient is not None:
                    (roots.append(root), gradients.append(gradient))
        for root, gradient in zip(roots, gradients, strict=True):
            torch.autograd.backward(root, gradient, retain_graph=True)
        for maker, values in held.received.items():
            leaves = lesson.differentiable(values)
            engine.channel.send([leaf.grad for leaf in leaves], maker, microbatch)


@right(core_only=True)
def sends_pickles(lesson):
    """Sends a value as one pickle, with its tensors in it."""

    def send(channel, value, to, microbatch):
        buffer = io.BytesIO()
        torch.save(value, buffer)
        data = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
        for each in (torch.tensor([len(data)]), data):
            channel.leaving.append((dist.isend(each, to, tag=microbatch), each))

    def receive(channel, source, microbatch):
        size = torch.empty(1, dtype=torch.int64)
        dist.recv(size, source, tag=microbatch)
        data = torch.empty(int(size), dtype=torch.uint8)
        dist.recv(data, source, tag=microbatch)
        return torch.load(io.BytesIO(data.numpy().tobytes()), weights_only=False)

    lesson.Channel.send, lesson.Channel.receive = send, receive
