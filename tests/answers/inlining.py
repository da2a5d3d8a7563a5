"""Answers to ``inlining``."""

from __future__ import annotations

from contextlib import contextmanager

import torch
from torch import nn

from tests.suite.answers import right, wrong
from tests.suite.engine import map_arg

# --- what else is changed -------------------------------------------------------------------------


def afterwards(lesson, change):
    """Let ``inline_module`` change something when it is done."""
    original = lesson.inline_module

    def inline_module(gm, *how):
        result = original(gm, *how)
        change(result)
        return result

    lesson.inline_module = inline_module


@wrong(
    fails="test_inlining_leaves_every_module_in_its_mode",
    says="`train()` or `eval()` was not undone",
)
def leaves_everything_in_eval_mode(lesson):
    """Switches to eval mode, and doesn't switch back."""
    afterwards(lesson, nn.Module.eval)


# --- which calls ----------------------------------------------------------------------------------


@wrong(fails="test_every_call_of_the_target_is_replaced", says="calls of the target are left")
def replaces_the_first_call_only(lesson):
    """Stops at the first call it finds."""
    everything = lesson.inline

    def inline(recorder):
        recorder.calls = recorder.calls[:1]
        return everything(recorder)

    lesson.inline = inline


def choosing(lesson, is_call):
    """Inline the callee of a target at every node that ``is_call`` takes for a call of it."""

    def inline_module(gm, target):
        callee = gm.get_submodule(target)
        nodes = gm.graph.find_nodes(op="call_module")
        calls = [lesson.Call(node, callee) for node in nodes if is_call(node.target, target)]
        recorder = lesson.CallRecorder(gm, calls, lambda module: module is not callee)
        return lesson.inline(recorder)

    lesson.inline_module = inline_module


@wrong(
    fails="test_calls_of_other_modules_are_left_alone",
    says="whose name begins alike, was inlined",
)
def inlines_what_begins_alike(lesson):
    """Takes ``act2`` and ``activation`` for ``act``."""
    choosing(lesson, lambda found, target: found.startswith(target))


@wrong(
    fails="test_a_module_of_the_same_last_name_is_left_alone",
    says="with the same last name, in another place",
)
def compares_last_names(lesson):
    """Takes ``b.act`` for ``a.act``."""
    choosing(lesson, lambda found, target: found.split(".")[-1] == target.split(".")[-1])


@wrong(fails="test_everything_is_inlined_all_the_way_down", says="that were inside others")
def inlines_one_level_only(lesson):
    """Lets the leaves inside stay calls where everything is to be inlined."""

    def inline_all(gm):
        for target in {str(node.target) for node in gm.graph.find_nodes(op="call_module")}:
            lesson.inline_module(gm, target)
        return gm

    lesson.inline_all = inline_all


@wrong(
    fails="test_leaves_inside_the_callee_stay_calls_under_their_full_path",
    says="deeper than one level",
)
def inlines_everything_inside(lesson):
    """Looks through the leaves inside the callee, too."""
    lesson.CallRecorder.is_leaf_module = lambda *_: False


@wrong(fails="test_a_node_that_is_no_call_is_refused", says="a placeholder was replaced")
def replaces_whatever_it_gets(lesson):
    """Doesn't ask whether the node is a call."""

    def inline_function(gm, node, fn):
        recorder = lesson.CallRecorder(gm, [lesson.Call(node, fn)], lambda module: True)
        recorder.record()
        return gm

    lesson.inline_function = inline_function


# --- how they are recorded ------------------------------------------------------------------------


def recording(lesson, run):
    """Let ``run`` call a callee, with proxies for what its node gets."""

    def record_call(self, call):
        with self.graph.inserting_before(call.node):
            return self.create_arg(run(self, call))

    lesson.CallRecorder.record_call = record_call


@wrong(fails="test_a_call_by_keyword_is_replaced", says="required positional argument")
def drops_keyword_arguments(lesson):
    """Calls the callee with the positional arguments alone."""
    recording(lesson, lambda self, call: call.callee(*map_arg(call.node.args, self.proxy)))


@wrong(
    fails="test_batch_norm_in_training_goes_on_counting_batches",
    says="buffers have to be proxies too",
)
def reads_buffers_as_tensors(lesson):
    """Leaves buffers as they are: what changes them is done at once, and never again."""
    lesson.CallRecorder.proxy_buffer_attributes = False


@wrong(
    fails="test_batch_norm_still_checks_its_input_afterwards",
    says="switch it off in a context manager",
)
def leaves_the_check_off(lesson):
    """Switches the norm layers' check off for good."""

    def call_module(self, m, forward, args, kwargs):
        m._check_input_dim = lambda _: None
        return super(lesson.CallRecorder, self).call_module(m, forward, args, kwargs)

    lesson.CallRecorder.call_module = call_module


# --- refusals -------------------------------------------------------------------------------------


def erasing(lesson, *errors):
    """Erase the recorded nodes after these errors."""

    def record(self):
        before = set(self.gm.graph.nodes)
        try:
            with self.patched_modules():
                return [self.record_call(call) for call in self.calls]
        except errors:
            for node in [node for node in self.gm.graph.nodes if node not in before][::-1]:
                self.gm.graph.erase_node(node)
            raise

    return record


@wrong(
    fails="test_after_a_refusal_the_graph_is_as_before",
    says="what was recorded before the failure is still in the graph",
)
def leaves_half_of_it_behind(lesson):
    """Doesn't clean up after a callee that can't be recorded."""
    lesson.CallRecorder.record = erasing(lesson)


@wrong(
    fails="test_after_an_interrupt_the_graph_is_as_before",
    says="an interrupt is no `Exception`",
)
def cleans_up_after_exceptions_alone(lesson):
    """Is left half done after Ctrl-C."""
    lesson.CallRecorder.record = erasing(lesson, Exception)


@wrong(
    fails="test_after_a_refusal_names_are_free_again",
    says="`exp` is taken by a node that was erased",
)
def erases_nodes_and_keeps_their_names(lesson):
    """Forgets that a graph remembers the names of the nodes that it had."""
    lesson.CallRecorder.record = erasing(lesson, BaseException)


# --- the result takes the call's place ------------------------------------------------------------


@wrong(fails="test_the_code_is_generated_anew", says="`gm.recompile()`")
def forgets_to_recompile(lesson):
    """Edits the graph and leaves the generated code as it was."""
    original = lesson.inline_module

    def inline_module(gm, target):
        recompile, type(gm).recompile = type(gm).recompile, lambda self: None
        try:
            return original(gm, target)
        finally:
            type(gm).recompile = recompile

    lesson.inline_module = inline_module


@wrong(
    fails="test_picking_from_a_result_that_is_known_leaves_no_node",
    says="the users still pick from the structure",
)
def knows_elements_from_the_front_only(lesson):
    """Doesn't know the last element by -1, nor what a dict has."""
    lesson._has = lambda result, index: (
        isinstance(result, tuple) and isinstance(index, int) and 0 <= index < len(result)
    )


# --- what is unused -------------------------------------------------------------------------------


# --- right ----------------------------------------------------------------------------------------


@right
def names_by_a_plain_search(lesson):
    """Looks submodules up in a dictionary, and lists all names when there is none."""
    original = lesson.inline_module

    def inline_module(gm, target):
        modules = dict(gm.named_modules(remove_duplicate=False))
        if target not in modules:
            raise NameError(f"no submodule {target}; there are: {', '.join(modules)}")
        return original(gm, target)

    lesson.inline_module = inline_module


@right
def replaces_input_by_input(lesson):
    """Where the result is a node, goes from user to user."""
    resolve = lesson.core.replace

    def replace(call, result):
        if isinstance(result, torch.fx.Node):
            for user in list(call.users):
                user.replace_input_with(call, result)
            call.graph.erase_node(call)
        else:
            resolve(call, result)

    lesson.core.replace = replace


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

    def record(self):
        with undone(self.gm.graph), self.patched_modules():
            return [self.record_call(call) for call in self.calls]

    lesson.CallRecorder.record = record


@right(core_only=True)
def functions_by_proxies_alone(lesson):
    """Inlines a function as torch's documentation does: proxies on the graph, no module."""

    def inline_function(gm, node, fn):
        if node.graph is not gm.graph or not node.op.startswith("call_"):
            raise ValueError(f"{node.name!r} isn't a call in this graph")
        tracer = lesson.Tracer()
        tracer.root, tracer.graph = gm, gm.graph
        before = set(gm.graph.nodes)
        with gm.graph.inserting_before(node):
            try:
                args, kwargs = map_arg((node.args, node.kwargs), tracer.proxy)
                result = tracer.create_arg(fn(*args, **kwargs))
            except Exception as error:
                for new in [each for each in gm.graph.nodes if each not in before][::-1]:
                    gm.graph.erase_node(new)
                raise lesson.TraceError(f"node {node.name!r}: {error}") from error
        node.replace_all_uses_with(result)
        gm.graph.erase_node(node)
        gm.recompile()
        return gm

    lesson.inline_function = inline_function


def alone(lesson):
    """A recorder that gives its one callee a graph of its own."""

    class Alone(lesson.CallRecorder):
        """Gives a callee a graph of its own, with placeholders for the nodes that it gets."""

        def traced(self):
            (call,), self.inputs, self.graph = self.calls, {}, type(self.gm.graph)()
            args, kwargs = map_arg((call.node.args, call.node.kwargs), self.input)
            try:
                with self.patched_modules():
                    self.graph.output(self.create_arg(call.callee(*args, **kwargs)))
            except Exception as error:
                callee = type(call.callee).__name__
                raise lesson.TraceError(f"{callee} at {call.node.name}: {error!r}") from error
            return self

        def input(self, node):
            if node not in self.inputs:
                self.inputs[node] = self.create_proxy("placeholder", f"of_{node.name}", (), {})
            return self.inputs[node]

    return Alone


@right(core_only=True)
def copies_a_trace_of_its_own(lesson):
    """Traces each callee into a graph of its own, and copies the nodes over."""

    trace_alone = alone(lesson)

    class CallRecorder(lesson.CallRecorder):
        def record(self):
            traces = [trace_alone(self.gm, [call], self.is_leaf).traced() for call in self.calls]
            return [self.copied(*each) for each in zip(self.calls, traces, strict=True)]

        def copied(self, call, tracer):
            ours = {proxy.node: node for node, proxy in tracer.inputs.items()}
            with self.gm.graph.inserting_before(call.node):
                for node in tracer.graph.nodes:
                    if node.op not in ("placeholder", "output"):
                        ours[node] = self.gm.graph.node_copy(node, ours.get)
            return map_arg(tracer.graph.output_node().args[0], ours.get)

    lesson.CallRecorder = CallRecorder
