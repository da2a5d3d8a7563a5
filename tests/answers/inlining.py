"""Answers to ``inlining``."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext

import torch

from tests.suite.answers import around, on, right, wrong
from tests.suite.engine import map_arg

# --- wrong ----------------------------------------------------------------------------------------


@wrong("test_every_call_of_the_target_is_replaced", says="calls of the target are left")
def replaces_the_first_call_only(lesson):
    """Stops at the first call it finds."""

    @around(lesson)
    def inline(original, recorder):
        recorder.calls = recorder.calls[:1]
        return original(recorder)


@wrong("test_everything_is_inlined_at_every_level", says="inside other modules are left")
def inlines_one_level_only(lesson):
    """Lets the leaves inside stay calls where everything is to be inlined."""

    @on(lesson)
    def inline_all(gm):
        for target in {str(node.target) for node in gm.graph.find_nodes(op="call_module")}:
            lesson.inline_module(gm, target)
        return gm


@wrong(
    "test_leaves_inside_the_callee_stay_calls_under_their_full_path", says="deeper than one level"
)
def inlines_everything_inside(lesson):
    """Looks through the leaves inside the callee, too."""
    lesson.CallRecorder.is_leaf_module = lambda *_: False


@wrong("test_a_node_that_is_not_a_call_of_this_graph_is_refused", says="a placeholder was replaced")
def replaces_whatever_it_gets(lesson):
    """Doesn't ask whether the node is a call."""

    @on(lesson)
    def inline_function(gm, node, fn):
        recorder = lesson.CallRecorder(gm, [lesson.Call(node, fn)], lambda module: True)
        recorder.record()
        return gm


@wrong(
    "test_the_function_may_read_parameters_and_call_submodules",
    says="a leaf module was traced through",
)
def records_without_the_patches(lesson):
    """Uses proxies alone, as torch's documentation does: modules and parameters aren't recorded."""
    lesson.CallRecorder.patched_modules = lambda self: nullcontext()


@wrong(
    "test_the_function_receives_proxies_for_nodes_and_other_values_unchanged",
    says="required positional argument",
)
def drops_keyword_arguments(lesson):
    """Calls the callee with the positional arguments alone."""

    @on(lesson.CallRecorder)
    def record_call(self, call):
        with self.graph.inserting_before(call.node):
            return self.create_arg(call.callee(*map_arg(call.node.args, self.proxy)))


@wrong("test_batch_norm_in_training_still_counts_batches", says="buffers have to be proxies too")
def reads_buffers_as_tensors(lesson):
    """Leaves buffers as they are: what changes them is done at once, and never again."""
    lesson.CallRecorder.proxy_buffer_attributes = False


@wrong(
    "test_afterwards_a_layer_has_its_own_check_again",
    says="is left with an attribute that only its class had",
)
def leaves_the_check_off(lesson):
    """Disables the norm layers' check forever."""

    @on(lesson.CallRecorder)
    def call_module(self, m, forward, args, kwargs):
        m._check_input_dim = lambda _: None
        return super(lesson.CallRecorder, self).call_module(m, forward, args, kwargs)


@wrong(
    "test_after_an_interruption_the_graph_is_as_before",
    says="nodes that were recorded before the error are still in the graph",
)
def keeps_what_was_recorded_before_an_error(lesson):
    """Doesn't clean up after a callee that can't be recorded."""

    @on(lesson.CallRecorder)
    def record(self):
        with self.patched_modules():
            return [self.record_call(call) for call in self.calls]


@wrong("test_relu_is_replaced_by_the_function_it_calls", says="`gm.recompile()`")
def forgets_to_recompile(lesson):
    """Edits the graph and leaves the generated code as it was."""

    @around(lesson)
    def inline_module(original, gm, target):
        recompile, type(gm).recompile = type(gm).recompile, lambda self: None
        try:
            return original(gm, target)
        finally:
            type(gm).recompile = recompile


@wrong("test_a_result_that_is_an_earlier_call_is_replaced", says="replace the last call first")
def replaces_the_first_call_first(lesson):
    """Erases a call that is the result of a later one."""

    @on(lesson)
    def inline(recorder):
        for call, result in zip(recorder.calls, recorder.record(), strict=True):
            lesson.replace(call.node, result)
        recorder.gm.recompile()
        return recorder.gm


@wrong(
    "test_users_that_index_a_known_result_are_replaced_with_the_element",
    says="a `getitem` is left, although its value is known",
)
def keeps_the_indexing_of_a_known_result(lesson):
    """Puts a tuple in place of the call, and lets ``getitem`` take it apart in each run."""

    @on(lesson)
    def replace(call, result):
        for user in list(call.users):
            put = lambda node: result if node is call else node
            user.args, user.kwargs = map_arg((user.args, user.kwargs), put)
        call.graph.erase_node(call)


# --- right ----------------------------------------------------------------------------------------


@right
def names_by_a_plain_search(lesson):
    """Looks submodules up in a dictionary, and lists all names if the target isn't in it."""

    @around(lesson)
    def inline_module(original, gm, target):
        modules = dict(gm.named_modules(remove_duplicate=False))
        if target not in modules:
            raise NameError(f"no submodule {target}; there are: {', '.join(modules)}")
        return original(gm, target)


@right
def replaces_input_by_input(lesson):
    """Where the result is a node, goes from user to user."""

    @around(lesson.core)
    def replace(original, call, result):
        if isinstance(result, torch.fx.Node):
            for user in list(call.users):
                user.replace_input_with(call, result)
            call.graph.erase_node(call)
        else:
            original(call, result)


@right(core_only=True)
def undoes_by_names(lesson):
    """Remembers the names of the nodes that were there, and erases the others from the end."""

    @contextmanager
    def undone(graph):
        names = {node.name for node in graph.nodes}
        try:
            yield
        except BaseException:
            for node in [node for node in graph.nodes if node.name not in names][::-1]:
                graph.erase_node(node)
            raise

    @on(lesson.CallRecorder)
    def record(self):
        with undone(self.gm.graph), self.patched_modules():
            return [self.record_call(call) for call in self.calls]
