"""Answers to ``capture``."""

from __future__ import annotations

import operator

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from tests.suite.answers import around, on, right, wrong

aten = torch.ops.aten


# --- wrong: record --------------------------------------------------------------------------------


@wrong("test_the_val_of_a_node_is_detached", says="detach the `val` that you keep")
def keeps_the_tensor_itself(lesson):
    """Keeps the result itself in ``meta["val"]``."""

    @around(lesson.Recorder)
    def bind(original, self, result, node):
        original(self, result, node)
        node.meta["val"] = result
        return result


@wrong("test_an_item_is_taken_at_its_position", says="(split, 1)")
def takes_the_first_item(lesson):
    """Reads every item at position 0."""

    @around(lesson.Recorder)
    def add_node(original, self, op, target, args=(), kwargs=None):
        if target is operator.getitem:
            args = (args[0], 0)
        return original(self, op, target, args, kwargs)


@wrong("test_a_constant_has_one_node_however_often_it_is_used", says="got: 4")
def reads_a_constant_each_time(lesson):
    """Makes a new node for every use of a constant."""

    @around(lesson.Recorder)
    def known(original, self, tensor):
        fake = original(self, tensor)
        for name, constant in self.constants.items():
            if constant is tensor:
                self.bind(fake, self.add_node("get_attr", name))
        return fake


# --- wrong: decompose -----------------------------------------------------------------------------


@wrong(
    "test_a_rule_may_call_an_operator_that_has_a_rule", says="the mode must be on while a rule runs"
)
def decomposes_one_level(lesson):
    """Records the operators that a rule calls, without looking them up in the table."""

    @around(lesson.Recorder)
    def decompose(original, self, func, args, kwargs):
        if getattr(self, "inside", False):
            with self:
                return func.decompose(*args, **kwargs)
        self.inside = True
        try:
            return original(self, func, args, kwargs)
        finally:
            self.inside = False


@wrong("test_a_rule_gets_the_keywords_of_the_call", says="the rule was called without the keywords")
def calls_a_rule_without_keywords(lesson):
    """Passes only the positional arguments to a rule."""

    @around(lesson.Recorder)
    def decompose(original, self, func, args, kwargs):
        return original(self, func, args, {})


# --- wrong: writes --------------------------------------------------------------------------------


@wrong("test_every_view_shows_a_write", says="numbers that the eager model gives")
def writes_the_tensor_alone(lesson):
    """Updates only the tensor that is written, and no other view of its memory."""

    @on(lesson.Recorder)
    def store(self, target, value):
        self.bind(target, self.node_of(value))


@wrong("test_a_view_is_read_again_only_after_a_write", says="as_strided")
def reads_again_always(lesson):
    """Reads every view again each time that it is used."""

    @on(lesson.Recorder)
    def node_of(self, tensor):
        value = self.values[id(self.known(tensor))]
        if value.tensor is not value.memory.base and not getattr(self, "reading", False):
            self.reading = True
            self.read_again(value)
            self.reading = False
        return value.node


@wrong(
    "test_an_input_with_gaps_between_its_columns_may_be_written", says="out of bounds for storage"
)
def compares_the_target_with_the_base_alone(lesson):
    """Takes the value for the base's new one, though its strides differ."""

    @on(lesson.Recorder)
    def store(self, target, value):
        base = self.base_of(target)
        if value.dtype != target.dtype:
            value = self.record(aten._to_copy.default, value, dtype=target.dtype)
        if lesson.window(target) != lesson.window(base):
            window = lesson.window(target)
            value = self.record(aten.as_strided_scatter.default, base, value, *window)
        node = self.node_of(value)
        self.values[id(base)].memory.writes += 1
        self.values[id(base)].refresh(node)


@wrong("test_a_write_to_memory_that_has_two_dtypes_is_refused", says="read memory of one dtype as")
def reads_again_without_a_look_at_the_dtype(lesson):
    """Compares the dtypes of a tensor and its base only when it writes."""

    @on(lesson.Recorder)
    def read_again(self, value):
        base, window = value.memory.base, lesson.window(value.tensor)
        if window != lesson.window(base):
            base = self.record(aten.as_strided.default, base, *window)
        value.refresh(self.node_of(base))


# --- wrong: modules, inputs, questions ------------------------------------------------------------


@wrong("test_a_call_that_fails_leaves_the_stack", says="still in the stack")
def leaves_out_the_hook_after_an_error(lesson):
    """Registers the second hook without ``always_call``."""
    register = lesson.register_module_forward_hook
    lesson.register_module_forward_hook = lambda hook, **options: register(hook)


@wrong("test_a_second_call_has_a_number", says="expected:")
def numbers_no_calls(lesson):
    """Gives each call of a module the same key."""
    item = lesson.stack_item
    lesson.stack_item = lambda path, call, module: item(path, 0, module)


@wrong("test_a_tied_parameter_is_one_input", says="a tied tensor is one input")
def lifts_every_name(lesson):
    """Makes an input for each name of a parameter."""

    @on(lesson.Recorder)
    def lift_state(self, model):
        if not isinstance(model, nn.Module):
            return {}
        named = [*model.named_parameters(remove_duplicate=False)]
        parameters = {name: self.lift(f"p_{name}", each) for name, each in named}
        buffers = {name: self.lift(f"b_{name}", each) for name, each in model.named_buffers()}
        return {**parameters, **buffers}


@wrong("test_the_error_names_the_line_that_asks_for_data", says="DataDependentOutputException")
def lets_torchs_error_out(lesson):
    """Computes, and lets torch's own error through."""
    lesson.compute = lambda func, args, kwargs: func(*args, **kwargs)


# --- right: of another shape ----------------------------------------------------------------------


@right(core_only=True)
def maps_by_hand(lesson):
    """Turns tensors into nodes by a map over all leaves."""

    @on(lesson.Recorder)
    def as_nodes(self, arguments):
        def leaf(value):
            return self.node_of(value) if isinstance(value, Tensor) else value

        return tree_map(leaf, arguments)


@right(core_only=True)
def looks_the_rule_up_first(lesson):
    """Asks the table, then torch, and returns early."""

    @on(lesson.Recorder)
    def decompose(self, func, args, kwargs):
        with self:
            if func in self.table:
                return self.table[func](*args, **kwargs)
            return func.decompose(*args, **kwargs)


@right(core_only=True)
def collects_state_in_a_loop(lesson):
    """Lifts parameters and buffers in one loop, by their kind."""

    @on(lesson.Recorder)
    def lift_state(self, model):
        state = {}
        if isinstance(model, nn.Module):
            for mark, named in (("p", model.named_parameters()), ("b", model.named_buffers())):
                for name, tensor in named:
                    state[name] = self.lift(f"{mark}_{name}", tensor)
        return state
