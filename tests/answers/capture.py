"""Answers to ``capture``."""

from __future__ import annotations

import operator
from contextlib import contextmanager
from itertools import count

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from tests.suite.answers import around, on, right, wrong

aten = torch.ops.aten


# --- wrong: record --------------------------------------------------------------------------------


@wrong(
    "test_a_node_is_named_after_its_operator_without_the_overload",
    says="the name has the overload in it",
)
def names_a_node_after_the_overload(lesson):
    """Lets the graph name the node, which names it after the whole target."""

    @on(lesson.Recorder)
    def add_node(self, op, target, args=(), kwargs=None):
        node = self.graph.create_node(op, target, args, kwargs, str(target).replace("aten.", ""))
        node.meta["nn_module_stack"] = dict(self.running)
        return node


@wrong("test_the_val_of_a_node_is_detached", says="detach the `val` that you keep")
def keeps_the_tensor_itself(lesson):
    """Keeps the result itself in ``meta["val"]``."""

    @around(lesson.Recorder)
    def bind(original, self, result, node):
        original(self, result, node)
        node.meta["val"] = result
        return result


@wrong("test_an_item_after_a_none_is_taken_at_its_position", says="which isn't a tensor")
def makes_a_node_for_none(lesson):
    """Adds a node for every item, also for one that isn't a tensor."""

    @around(lesson.Recorder)
    def bind(original, self, result, node):
        if isinstance(result, tuple | list):
            for position, item in enumerate(result):
                self.bind(item, self.add_node("call_function", operator.getitem, (node, position)))
            node.meta["val"] = result
            return result
        return original(self, result, node)


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


@wrong("test_a_rule_replaces_an_operator", says="the mode on")
def runs_a_rule_with_the_mode_off(lesson):
    """Calls the rule where it stands: what it calls is computed, and not recorded."""

    @on(lesson.Recorder)
    def decompose(self, func, args, kwargs):
        result = self.table.get(func, func.decompose)(*args, **kwargs)
        if isinstance(result, Tensor):
            self.bind(result, self.node_of(args[0]) if args else self.add_node("get_attr", "x"))
        return result


@wrong("test_a_rule_gets_the_keywords_of_the_call", says="the rule was called without the keywords")
def calls_a_rule_without_keywords(lesson):
    """Passes only the positional arguments to a rule."""

    @around(lesson.Recorder)
    def decompose(original, self, func, args, kwargs):
        return original(self, func, args, {})


# --- wrong: inputs --------------------------------------------------------------------------------


@wrong("test_an_input_keeps_its_strides", says="the copy is contiguous")
def lifts_a_new_tensor_of_the_same_shape(lesson):
    """Makes an empty tensor of the shape, and forgets the strides."""

    @on(lesson.Recorder)
    def lift(self, name, value):
        node = self.graph.placeholder(name.replace(".", "_").replace("-", "_"))
        if isinstance(value, Tensor):
            with self.fake_mode:
                value = torch.empty(value.shape, dtype=value.dtype)
        return self.bind(value, node)


@wrong("test_the_state_names_the_placeholder_that_the_graph_named", says="had a `p_a_b`")
def notes_the_name_that_it_asked_for(lesson):
    """Notes the placeholder under the name that it asked the graph for."""

    @around(lesson.Recorder)
    def lift_state(original, self, model):
        lifted = original(self, model)
        prefixes = {name: prefix for prefix, name, _ in lesson.owned(model)}
        self.state = {f"{prefixes[each]}_{each}".replace(".", "_"): each for each in lifted}
        return lifted


# --- wrong: modules -------------------------------------------------------------------------------


@wrong("test_a_call_that_fails_leaves_the_stack", says="still in the stack")
def leaves_out_the_hook_after_an_error(lesson):
    """Registers the second hook without ``always_call``."""
    register = lesson.register_module_forward_hook
    lesson.register_module_forward_hook = lambda hook, **options: register(hook)


@wrong("test_a_call_of_the_model_itself_repeats_the_last_item", says="the model itself")
def numbers_the_calls_of_the_model_itself(lesson):
    """Takes the model for a module with the path ``""``, whose second call is ``@1``."""

    @around(lesson.Recorder)
    @contextmanager
    def module_stacks(original, self, model):
        calls = count()

        def enter(module, args):
            if module is model:
                self.running[-1] = lesson.given.stack_item("", next(calls), module)

        with original(self, model):
            handle = lesson.register_module_forward_pre_hook(enter)
            yield
            handle.remove()


@wrong("test_a_second_call_has_a_number", says="a later call of a module has no number")
def numbers_no_calls(lesson):
    """Gives each call of a module the same key."""
    given = lesson.given

    class Unnumbered:
        def __getattr__(self, name):
            if name == "stack_item":
                return lambda path, call, module: given.stack_item(path, 0, module)
            return getattr(given, name)

    lesson.given = Unnumbered()


@wrong("test_a_hook_leaves_the_result_alone", says="replaces the module's result")
def returns_the_item_from_the_hook(lesson):
    """Ends the second hook with the popped item: torch takes it for the module's result."""
    register = lesson.register_module_forward_hook

    def returning(hook, **options):
        def leave(module, args, result):
            hook(module, args, result)
            return [result]

        return register(leave, **options)

    lesson.register_module_forward_hook = returning


# --- wrong: writes by hand, in the stretch --------------------------------------------------------


@wrong("test_every_view_shows_a_write", says="numbers that the eager model returns")
def writes_the_tensor_alone(lesson):
    """Updates only the tensor that is written, and no other view of its memory."""

    @on(lesson.WriteRecorder)
    def store(self, target, value):
        self.bind(target, self.node_of(value))


# --- right: of another shape ----------------------------------------------------------------------


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
def collects_state_in_two_comprehensions(lesson):
    """Lifts parameters, then buffers, and notes the placeholders by their order."""

    @on(lesson.Recorder)
    def lift_state(self, model):
        before = len(self.graph.nodes)
        lifted = {name: self.lift(f"{mark}_{name}", each) for mark, name, each in owned(model)}
        nodes = [node.name for node in self.graph.nodes][before:]
        self.state.update(zip(nodes, lifted, strict=True))
        return lifted

    owned = lesson.owned


@right(core_only=True)
def lifts_arguments_in_one_map(lesson):
    """Counts the leaves while it maps them."""

    @on(lesson.Recorder)
    def lift_arguments(self, args, kwargs):
        numbers = count()
        return tree_map(lambda leaf: self.lift(f"input_{next(numbers)}", leaf), (args, kwargs))
