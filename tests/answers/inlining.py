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
    fails="test_nodes_that_are_not_replaced_keep_their_metadata",
    says="a node lost entries that it had before",
)
def loses_the_stacks_of_all_nodes(lesson):
    """Takes every node's stack away, as if all were out of date."""

    def forget(gm):
        for node in gm.graph.nodes:
            node.meta.pop("nn_module_stack", None)

    afterwards(lesson, forget)


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


@wrong(
    fails="test_a_call_whose_result_nobody_uses_keeps_its_effect",
    says="a call without users was dropped",
)
def drops_calls_without_users(lesson):
    """Erases what nobody uses, instead of inlining it."""
    everything = lesson.inline

    def inline(recorder):
        for call in [each for each in recorder.calls if not each.node.users]:
            recorder.gm.graph.erase_node(call.node)
            recorder.calls.remove(call)
        return everything(recorder)

    lesson.inline = inline


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


@wrong(
    fails="test_a_target_that_does_not_exist_is_refused_with_near_names",
    says="NameError that names chidl, child",
)
def says_nothing_about_an_unknown_target(lesson):
    """Finds no call, and is content."""
    original = lesson.inline_module

    def inline_module(gm, target):
        return original(gm, target) if target in dict(gm.named_modules()) else gm

    lesson.inline_module = inline_module


# --- how they are recorded ------------------------------------------------------------------------


@wrong(
    fails="test_parameters_are_read_where_they_are",
    says="record a `get_attr` node with the path below the root",
)
def copies_the_parameters(lesson):
    """Stores the callee's parameters on the root, under new names."""
    original = lesson.CallRecorder.getattr

    def getattr_(self, attr, attr_val, parameter_proxy_cache):
        if isinstance(attr_val, nn.Parameter):
            name = f"copied_{attr}"
            self.gm.register_parameter(name, nn.Parameter(attr_val.detach().clone()))
            return self.create_proxy("get_attr", name, (), {})
        return original(self, attr, attr_val, parameter_proxy_cache)

    lesson.CallRecorder.getattr = getattr_


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


@wrong(fails="test_arguments_inside_structures_become_proxies_too", says="map_arg")
def makes_proxies_of_outer_arguments_only(lesson):
    """Looks at the arguments themselves, and not into lists."""

    def run(self, call):
        args = [
            self.proxy(arg) if isinstance(arg, torch.fx.Node) else arg for arg in call.node.args
        ]
        try:
            return call.callee(*args, **call.node.kwargs)
        except TypeError as error:
            raise TypeError(f"map_arg would look inside: {error}") from None

    recording(lesson, run)


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


@wrong(fails="test_a_check_of_the_users_own_is_there_again_afterwards", says="it was deleted")
def deletes_the_users_check(lesson):
    """Takes the check that it has put on a layer away, and what was there before with it."""
    core = lesson.core.CallRecorder

    def call_module(self, m, forward, args, kwargs):
        m._check_input_dim = lambda _: None
        try:
            return super(core, self).call_module(m, forward, args, kwargs)
        finally:
            del m._check_input_dim

    core.call_module = call_module


@wrong(
    fails="test_afterwards_every_class_is_what_it_was",
    says="not put back when all went well",
)
def leaves_a_method_of_the_tracer_replaced(lesson):
    """Replaces the tracer's rule for leaves, and puts it back where it fails only."""
    tracer = lesson.Tracer

    def inline_module(gm, target):
        callee, original = gm.get_submodule(target), tracer.is_leaf_module
        tracer.is_leaf_module = lambda self, m, path: m is not callee and original(self, m, path)
        nodes = gm.graph.find_nodes(op="call_module", target=target)
        calls = [lesson.Call(node, callee) for node in nodes]
        try:
            return lesson.inline(lesson.CallRecorder(gm, calls, lambda module: True))
        except Exception:
            tracer.is_leaf_module = original
            raise

    lesson.inline_module = inline_module


@wrong(
    fails="test_other_nodes_are_the_nodes_that_they_were",
    says="record in the graph that exists",
)
def traces_anew(lesson):
    """Runs the whole module under a tracer without leaves, and takes its graph."""

    class Whole(lesson.Tracer):
        proxy_buffer_attributes = True

        def is_leaf_module(self, m, module_qualified_name):
            return False

    def inline_all(gm):
        gm.graph = Whole().trace(gm)
        return gm

    lesson.inline_all = inline_all


# --- refusals -------------------------------------------------------------------------------------


def erasing(lesson, *errors):
    """Erase what was recorded after these errors."""

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
    """Leaves half of it behind when somebody presses Ctrl-C."""
    lesson.CallRecorder.record = erasing(lesson, Exception)


@wrong(
    fails="test_after_a_refusal_names_are_free_again",
    says="`exp` is taken by a node that was erased",
)
def erases_nodes_and_keeps_their_names(lesson):
    """Forgets that a graph remembers the names of the nodes that it had."""
    lesson.CallRecorder.record = erasing(lesson, BaseException)


@wrong(
    fails="test_after_a_refusal_the_module_has_no_new_attribute",
    says="constants of the callee were stored on the module",
)
def leaves_constants_behind(lesson):
    """Forgets that recording writes on the module, too."""
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
    fails="test_a_result_of_several_values_goes_into_keyword_arguments_too",
    says="the call is still there",
)
def forgets_keyword_arguments_of_users(lesson):
    """Puts the result into the positional arguments of the nodes that use it, and no further."""

    def replace(call, result):
        for user in list(call.users):
            user.args = map_arg(user.args, lambda node: result if node is call else node)
        if not call.users:
            call.graph.erase_node(call)

    lesson.replace = replace


@wrong(
    fails="test_picking_from_a_result_that_is_known_leaves_no_node",
    says="the users still pick from the structure",
)
def knows_elements_from_the_front_only(lesson):
    """Doesn't know the last element by -1, nor what a dict has."""
    lesson._has = lambda result, index: (
        isinstance(result, tuple) and isinstance(index, int) and 0 <= index < len(result)
    )


@wrong(
    fails="test_picking_what_the_result_does_not_have_is_left_to_the_run",
    says="IndexError: tuple index out of range",
)
def looks_every_index_up(lesson):
    """Takes whatever is picked for something that is there."""
    lesson.core._has = lambda result, index: isinstance(result, tuple)


# --- what is unused -------------------------------------------------------------------------------


@wrong(
    fails="test_resnet18_loses_the_submodules_that_nothing_uses",
    says="delete those without state",
)
def drops_nothing(lesson):
    """Keeps submodules that nothing calls any more."""
    lesson.drop_unused_modules = lambda gm: None


@wrong(
    fails="test_parameters_that_nothing_uses_stay_in_the_state_dict",
    says="modules were dropped that hold parameters",
)
def drops_unused_state(lesson):
    """Deletes every submodule that no node refers to, parameters or not."""
    original = lesson.inline_all

    def inline_all(gm):
        original(gm)
        for name, _ in [*gm.named_children()]:
            delattr(gm, name)
        return gm

    lesson.inline_all = inline_all


@wrong(
    fails="test_the_model_that_was_traced_is_not_changed",
    says="delete from `gm` and its containers alone",
)
def deletes_from_the_models_own_modules(lesson):
    """Deletes unused submodules wherever they are: the traced model loses them too."""
    lesson.drop_unused_modules = lambda gm: gm.delete_all_unused_submodules()


@wrong(
    fails="test_a_module_stays_whose_tensor_is_read_though_it_holds_no_state",
    says="though a node reads from it",
)
def drops_what_holds_no_state(lesson):
    """Asks the state dict alone what is needed: a plain tensor isn't in it."""

    def drop_unused_modules(gm):
        called = {str(node.target) for node in gm.graph.nodes if node.op == "call_module"}
        needed = {path.split(".")[0] for path in (*called, *gm.state_dict())}
        for name in [name for name, _ in gm.named_children() if name not in needed]:
            delattr(gm, name)

    lesson.drop_unused_modules = drop_unused_modules


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
            raise ValueError(f"{node.name!r} is no call in this graph")
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
