"""Answers to ``tracer``: each wrong one takes one step of the reference's core wrong."""

from __future__ import annotations

import copy
import inspect
from collections import Counter, OrderedDict
from contextlib import ExitStack, contextmanager
from functools import partial
from unittest import mock

import torch
from torch import nn
from torch.fx import _symbolic_trace as torch_fx

from solutions.tracer import Scope, tracing_flag
from tests.suite.answers import right, wrong

CALL, GETATTR = nn.Module.__call__, nn.Module.__getattr__


def change(lesson, own: type) -> None:
    """Add a class as the first base of the lesson's tracer."""
    lesson.Tracer = type("Tracer", (own, lesson.Tracer), {})


def patches(tracer, cache: dict) -> list[tuple[object, str, object]]:
    """What is set while a trace runs."""

    def call(module, *args, **kwargs):
        return tracer.call_module(module, partial(CALL, module), args, kwargs)

    def get(module, name):
        return tracer.getattr(name, GETATTR(module, name), cache)

    return [
        (nn.Module, "__call__", call),
        (nn.Module, "__getattr__", get),
        (*tracing_flag(), True),
    ]


# --- wrong: what remains after a trace ----------------------------------------------------------


@wrong(fails="test_after_an_error_all_is_as_before", says="`nn.Module` is still patched")
def an_error_skips_the_restoring(lesson):
    """Restores the methods only if no exception was raised."""

    class Own:
        @contextmanager
        def patched_modules(self):
            changes = patches(self, {})
            before = [(owner, name, getattr(owner, name, None)) for owner, name, _ in changes]
            for each in changes:
                setattr(*each)
            yield
            for each in before:
                setattr(*each)

    change(lesson, Own)


@wrong(
    fails="test_a_trace_inside_a_trace_leaves_the_outer_one_running",
    says="the inner trace put back the originals",
)
def the_originals_are_restored(lesson):
    """Restores torch's methods instead of those that were there before the block."""

    class Own:
        @contextmanager
        def patched_modules(self):
            try:
                for each in patches(self, {}):
                    setattr(*each)
                yield
            finally:
                nn.Module.__call__, nn.Module.__getattr__ = CALL, GETATTR
                setattr(*tracing_flag(), False)

    change(lesson, Own)


@wrong(fails="test_while_it_traces_torch_says_so", says="torch's flag wasn't set")
def torch_is_not_told(lesson):
    """Patches the two methods, and leaves the flag alone."""

    class Own:
        @contextmanager
        def patched_modules(self):
            with ExitStack() as stack:
                for each in patches(self, {})[:2]:
                    stack.enter_context(mock.patch.object(*each))
                yield

    change(lesson, Own)


# --- wrong: calls of modules --------------------------------------------------------------------


@wrong(fails="test_a_sequential_is_traced_through", says="`nn.Sequential` was recorded as one call")
def a_sequential_is_a_leaf(lesson):
    """Takes everything in ``torch.nn`` for a leaf."""

    class Own:
        def is_leaf_module(self, m, module_qualified_name):
            return m.__module__.startswith("torch.nn")

    change(lesson, Own)


@wrong(
    fails="test_a_class_is_at_home_where_it_was_written",
    says="torchvision begins with `torch` as well",
)
def all_that_begins_with_torch_is_a_leaf(lesson):
    """Compares the beginning of a name, and not the package."""

    class Own:
        def is_leaf_module(self, m, module_qualified_name):
            return m.__module__.startswith("torch") and not isinstance(m, nn.Sequential)

    change(lesson, Own)


@wrong(
    fails="test_a_class_of_yours_is_traced_through_even_if_it_derives_from_a_leaf",
    says="a class of yours was one call",
)
def a_leaf_is_told_by_isinstance(lesson):
    """Asks for the classes that a module derives from."""

    class Own:
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, nn.Linear | nn.ReLU) or super().is_leaf_module(m, "")

    change(lesson, Own)


@wrong(fails="test_a_small_model_gives_the_graph_of_torch", says="keyword arguments were dropped")
def keyword_arguments_are_dropped(lesson):
    """Records the positional arguments of a module's call alone."""

    class Own:
        def call_module(self, m, forward, args, kwargs):
            is_leaf = self.is_leaf_module(m, self.path_of_module(m))
            return super().call_module(m, forward, args, {} if is_leaf else kwargs)

    change(lesson, Own)


@wrong(fails="test_hooks_of_a_module_run_while_it_is_traced_through", says="past its hooks")
def forward_is_called_past_the_hooks(lesson):
    """Runs ``module.forward``, which is only one part of a module's call."""

    class Own:
        def call_module(self, m, forward, args, kwargs):
            return super().call_module(m, m.forward, args, kwargs)

    change(lesson, Own)


@wrong(fails="test_another_method_than_forward_may_be_traced", says="`forward` was traced instead")
def forward_is_always_traced(lesson):
    """Doesn't look at ``traced_func_name``."""

    class Own:
        def trace(self, root, concrete_args=None):
            self.traced_func_name = "forward"
            return super().trace(root, concrete_args)

    change(lesson, Own)


# --- wrong: where a node comes from, and what it reads --------------------------------------------


@wrong(fails="test_the_module_stack_is_written_on_each_node", says="a key of its own, `path@1`")
def a_second_call_has_the_key_of_the_first(lesson):
    """Never counts the calls of a module."""

    class Own:
        def call_module(self, m, forward, args, kwargs):
            self.num_calls.clear()
            return super().call_module(m, forward, args, kwargs)

    change(lesson, Own)


@wrong(
    fails="test_the_scope_of_each_node_is_kept_by_name",
    says="the scope wasn't put back after a call",
)
def the_scope_is_not_restored(lesson):
    """Lets the scope be that of the last call."""

    class Own:
        def call_module(self, m, forward, args, kwargs):
            result = super().call_module(m, forward, args, kwargs)
            self.scope = Scope(self.path_of_module(m), type(m))
            return result

    change(lesson, Own)


@wrong(
    fails="test_a_parameter_read_twice_is_one_node", says="a read of a parameter made a second node"
)
def every_read_of_a_parameter_is_a_node(lesson):
    """Forgets the proxies that it has made."""

    class Own:
        def getattr(self, attr, attr_val, parameter_proxy_cache):
            return super().getattr(attr, attr_val, {})

    change(lesson, Own)


@wrong(fails="test_a_buffer_is_read_at_its_use", says="buffers became proxies on being read")
def buffers_are_always_proxies(lesson):
    """Treats buffers like parameters, asked or not."""

    class Own:
        proxy_buffer_attributes = True

    change(lesson, Own)


# --- wrong: what only looks right ---------------------------------------------------------------


@wrong(fails="test_the_work_is_not_left_to_torchs_tracer", says="`torch.fx.Tracer` did the work")
def torchs_tracer_is_inherited(lesson):
    """Leaves nothing to write."""
    lesson.Tracer = type("Tracer", (torch.fx.Tracer,), {})


@wrong(fails="test_the_result_has_the_models_own_parameters", says="a copy of the model was traced")
def a_copy_is_traced(lesson):
    """Copies the model, so training one doesn't train the other."""
    original = lesson.symbolic_trace

    def symbolic_trace(root, concrete_args=None):
        return original(copy.deepcopy(root), concrete_args)

    lesson.symbolic_trace = symbolic_trace


# --- right --------------------------------------------------------------------------------------


@right(core_only=True)
def patches_on_an_exit_stack(lesson):
    """Undoes each patch by a callback of its own."""

    class Own:
        @contextmanager
        def patched_modules(self):
            with ExitStack() as stack:
                for owner, name, value in patches(self, {}):
                    stack.callback(setattr, owner, name, getattr(owner, name, False))
                    setattr(owner, name, value)
                yield

    change(lesson, Own)


@right(core_only=True)
def everything_with_torchs_patcher(lesson):
    """Leaves the patching to torch's ``_Patcher``."""

    class Own:
        @contextmanager
        def patched_modules(self):
            (_, _, call), (_, _, get), flag = patches(self, {})
            with torch_fx._Patcher() as patcher, mock.patch.object(*flag):
                patcher.patch_method(nn.Module, "__call__", call, deduplicate=False)
                patcher.patch_method(nn.Module, "__getattr__", get, deduplicate=False)
                yield

    change(lesson, Own)


@right(core_only=True)
def a_list_of_the_calls_in_progress(lesson):
    """Keeps the calls in a list, and derives the scope and the module stack from it."""

    class Own:
        def __init__(self, *args, **kwargs):
            self.calls = []
            super().__init__(*args, **kwargs)
            self.num_calls = Counter()

        scope = property(
            lambda self: Scope(*self.calls[-1][1]) if self.calls else Scope("", None),
            lambda self, value: None,
        )
        module_stack = property(
            lambda self: OrderedDict(self.calls), lambda self, value: self.calls.clear()
        )

        def call_module(self, m, forward, args, kwargs):
            path = self.path_of_module(m)
            key = f"{path}@{self.num_calls[path]}" if self.num_calls[path] else path
            self.num_calls[path] += 1
            self.calls.append((key, (path, type(m))))
            try:
                is_leaf = self.is_leaf_module(m, path)
                record = partial(self.create_proxy, "call_module", path, args, kwargs)
                return record() if is_leaf else forward(*args, **kwargs)
            finally:
                self.calls.pop()

    change(lesson, Own)


@right(core_only=True)
def annotations_of_the_root(lesson):
    """Reads the annotation of the result from the function that was given."""

    class Own:
        def create_args_for_root(self, root_fn, is_module, concrete_args=None):
            self.returns = inspect.get_annotations(inspect.unwrap(root_fn)).get("return")
            return super().create_args_for_root(root_fn, is_module, concrete_args)

        def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
            type_expr = self.returns if kind == "output" else type_expr
            return super().create_node(kind, target, args, kwargs, name, type_expr)

    change(lesson, Own)
