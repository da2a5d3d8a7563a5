"""Answers to ``tracer``: each wrong one takes one step of the reference's core wrong."""

from __future__ import annotations

import copy
import inspect
from collections import OrderedDict
from contextlib import ExitStack, contextmanager
from functools import partial
from unittest import mock

from torch import fx, nn

from given.tracer import tracing_flag
from solutions.tracer import Scope
from tests.suite.answers import around, on, right, wrong

CALL, GETATTR = nn.Module.__call__, nn.Module.__getattr__


def patched(tracer) -> ExitStack:
    """Patch what a trace patches; closing the stack restores it."""
    cache: dict = {}

    def call(module, /, *args, **kwargs):
        return tracer.call_module(module, partial(CALL, module), args, kwargs)

    def get(module, name):
        return tracer.getattr(name, GETATTR(module, name), cache)

    changes = (nn.Module, "__call__", call), (nn.Module, "__getattr__", get)
    stack = ExitStack()
    for each in (*changes, (*tracing_flag(), True)):
        stack.enter_context(mock.patch.object(*each))
    return stack


@wrong("test_after_the_block_everything_is_restored", says="`nn.Module` is still patched")
def an_error_skips_the_restoring(lesson):
    """Restores the methods only if no exception was raised."""

    @on(lesson.Tracer)
    @contextmanager
    def patched_modules(self):
        stack = patched(self)
        yield
        stack.close()


@wrong(
    "test_after_an_inner_block_the_outer_one_goes_on",
    says="the inner trace restored the originals",
)
def the_originals_are_restored(lesson):
    """Restores torch's methods instead of those that were there before the block."""

    @on(lesson.Tracer)
    @contextmanager
    def patched_modules(self):
        try:
            with patched(self):
                yield
        finally:
            nn.Module.__call__, nn.Module.__getattr__ = CALL, GETATTR


@wrong(
    "test_leaves_are_recorded_and_all_other_modules_are_traced_through",
    says="`nn.Sequential` was recorded as one call",
)
def a_sequential_is_a_leaf(lesson):
    """Takes everything in ``torch.nn`` for a leaf."""
    lesson.Tracer.is_leaf_module = lambda self, m, path: m.__module__.startswith("torch.nn")


@wrong(
    "test_after_an_inner_block_the_outer_one_goes_on",
    says="the outer tracer saw a call of the inner",
)
def the_patch_around_is_taken_for_the_original(lesson):
    """Runs the ``__call__`` that it found, which may be another trace's."""

    @on(lesson.Tracer)
    @contextmanager
    def patched_modules(self):
        found = nn.Module.__call__

        def call(module, *args, **kwargs):
            return self.call_module(module, partial(found, module), args, kwargs)

        with patched(self), mock.patch.object(nn.Module, "__call__", call):
            yield


@wrong("test_a_node_keeps_the_module_stack_of_its_moment", says="the tracer's own stack")
def the_stack_is_shared(lesson):
    """Stores the stack itself, and no copy."""

    @around(lesson.Tracer)
    def create_node(original, self, *args, **kwargs):
        node = original(self, *args, **kwargs)
        if "nn_module_stack" in node.meta:
            node.meta["nn_module_stack"] = self.module_stack
        return node


@wrong(
    "test_a_parameter_becomes_one_proxy_even_if_it_is_read_twice",
    says="another module's `bias` was returned",
)
def proxies_are_kept_by_name(lesson):
    """Looks in the cache for the attribute's name, which many modules share."""

    @around(lesson.Tracer)
    def getattr(original, self, attr, attr_val, parameter_proxy_cache):
        if attr not in parameter_proxy_cache:
            parameter_proxy_cache[attr] = original(self, attr, attr_val, {})
        return parameter_proxy_cache[attr]


@wrong("test_a_second_trace_takes_nothing_from_the_first", says="a proxy of the first trace")
def proxies_are_kept_from_trace_to_trace(lesson):
    """Keeps its own dict of proxies on the tracer."""

    @around(lesson.Tracer)
    def getattr(original, self, attr, attr_val, parameter_proxy_cache):
        return original(self, attr, attr_val, vars(self).setdefault("kept", {}))


@wrong("test_a_node_carries_the_module_call_that_recorded_it", says="`m.forward` ran")
def forward_is_called_past_the_hooks(lesson):
    """Runs ``module.forward``, which is only one part of a module's call."""

    @around(lesson.Tracer)
    def call_module(original, self, m, forward, args, kwargs):
        return original(self, m, m.forward, args, kwargs)


@wrong(
    "test_each_call_of_a_module_has_a_key_of_its_own",
    says="the second call has the key of the first",
)
def a_second_call_has_the_key_of_the_first(lesson):
    """Never counts the calls of a module."""

    @around(lesson.Tracer)
    def call_module(original, self, m, forward, args, kwargs):
        self.num_calls.clear()
        return original(self, m, forward, args, kwargs)


@wrong(
    "test_a_call_inside_a_call_of_the_same_module_has_an_entry_of_its_own",
    says="count a call when it begins, not when it ends",
)
def a_call_is_counted_when_it_ends(lesson):
    """Counts the calls that have ended: a call inside has the key of the one around it."""

    @around(lesson.Tracer)
    def call_module(original, self, m, forward, args, kwargs):
        path = self.path_of_module(m)

        def uncounted(*args, **kwargs):
            self.num_calls[path] -= 1
            try:
                return forward(*args, **kwargs)
            finally:
                self.num_calls[path] += 1

        return original(self, m, uncounted, args, kwargs)


@wrong("test_the_work_is_not_left_to_torchs_tracer", says="`torch.fx.Tracer` did the work")
def torchs_tracer_is_inherited(lesson):
    """Leaves nothing to write."""
    lesson.Tracer = type("Tracer", (fx.Tracer,), {})


@wrong("test_the_result_has_the_models_own_parameters", says="the module has copies")
def a_copy_is_traced(lesson):
    """Copies the model, so training one doesn't train the other."""

    @around(lesson)
    def symbolic_trace(original, root):
        return original(copy.deepcopy(root))


# --- right ----------------------------------------------------------------------------------------


@right(core_only=True)
def patches_on_an_exit_stack(lesson):
    """Undoes each patch by a callback of its own, and makes no generator."""
    lesson.Tracer.patched_modules = patched


@right(core_only=True)
def a_list_of_the_calls_in_progress(lesson):
    """Keeps the calls in a list, and makes the module stack from it when a node needs it."""

    lesson.Tracer.calls = ()
    lesson.Tracer.module_stack = property(
        lambda self: OrderedDict(self.calls),
        lambda self, stack: setattr(self, "calls", [*stack.items()]),
    )

    @on(lesson.Tracer)
    def call_module(self, m, forward, args, kwargs):
        path = self.path_of_module(m)
        count = self.num_calls.get(path, 0)
        self.num_calls[path] = count + 1
        key = f"{path}@{count}" if count else path
        outer = self.calls, self.scope
        self.calls, self.scope = [*self.calls, (key, (path, type(m)))], Scope(path, type(m))
        try:
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)
        finally:
            self.calls, self.scope = outer


@right(core_only=True)
def annotations_of_the_root(lesson):
    """Reads the annotation of the result from the function that was given."""

    @around(lesson.Tracer)
    def create_args_for_root(original, self, root_fn, is_module, concrete_args=None):
        self.returns = inspect.get_annotations(inspect.unwrap(root_fn)).get("return")
        return original(self, root_fn, is_module, concrete_args)

    @around(lesson.Tracer)
    def create_node(original, self, kind, target, args, kwargs, name=None, type_expr=None):
        type_expr = self.returns if kind == "output" else type_expr
        return original(self, kind, target, args, kwargs, name, type_expr)
