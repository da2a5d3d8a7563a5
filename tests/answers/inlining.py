"""Answers to ``inlining``."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections import OrderedDict
from contextlib import contextmanager
from unittest import mock

import torch
from torch import nn
from torch.fx import Proxy
from torch.fx import _symbolic_trace as torch_fx
from torch.fx.node import map_arg
from torch.fx.proxy import GraphAppendingTracer

from tests.suite.answers import right, wrong

ORIGINAL_CALL, ORIGINAL_GETATTR = nn.Module.__call__, nn.Module.__getattr__


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


@wrong(fails="test_every_call_of_the_target_is_replaced", says="a call of the target is left")
def replaces_the_first_call_only(lesson):
    """Stops at the first call it finds."""
    everything = lesson._inline
    lesson._inline = lambda gm, calls, is_leaf: everything(gm, calls[:1], is_leaf)


@wrong(
    fails="test_parameters_are_read_where_they_are",
    says="record a `get_attr` node with the path below the root",
)
def copies_the_parameters(lesson):
    """Stores the callee's parameters on the root, under new names."""
    original = lesson._record._CallRecorder.getattr

    def getattr_(self, attr, attr_val, parameter_proxy_cache):
        if isinstance(attr_val, nn.Parameter):
            name = f"copied_{attr}"
            self.gm.register_parameter(name, nn.Parameter(attr_val.detach().clone()))
            return self.create_proxy("get_attr", name, (), {})
        return original(self, attr, attr_val, parameter_proxy_cache)

    lesson._record._CallRecorder.getattr = getattr_


@wrong(
    fails="test_a_call_by_keyword_is_replaced",
    says="required positional argument",
)
def drops_keyword_arguments(lesson):
    """Calls the callee with the positional arguments alone."""

    def run(self, call):
        try:
            return call.callee(*map_arg(call.node.args, self.proxy))
        except TypeError as error:
            raise TypeError(f"{call}: {error}") from error

    lesson._record._CallRecorder.run = run


@wrong(
    fails="test_leaves_inside_the_callee_stay_calls_under_their_full_path",
    says="deeper than one level",
)
def inlines_everything_inside(lesson):
    """Looks through the leaves inside the callee, too."""
    everything = lesson._inline
    lesson._inline = lambda gm, calls, is_leaf: everything(gm, calls, lambda _: False)


@wrong(fails="test_everything_is_inlined_all_the_way_down", says="only the outermost calls")
def inlines_one_level_only(lesson):
    """Lets the leaves inside stay calls where everything is to be inlined."""

    def inline_all(gm):
        for target in {str(node.target) for node in gm.graph.find_nodes(op="call_module")}:
            lesson.inline_module(gm, target)
        return gm

    lesson.inline_all = inline_all


@wrong(
    fails="test_batch_norm_in_training_goes_on_counting_batches",
    says="buffers have to be proxies too",
)
def reads_buffers_as_tensors(lesson):
    """Leaves buffers as they are: what changes them is done at once, and never again."""
    lesson._record._CallRecorder.proxy_buffer_attributes = False


@wrong(
    fails="test_batch_norm_still_checks_its_input_afterwards",
    says="the check is still switched off",
)
def leaves_the_check_off(lesson):
    """Switches the norm layers' check off for good."""

    @contextmanager
    def without_checks(gm):
        for module in gm.modules():
            if hasattr(module, "_check_input_dim"):
                vars(module)["_check_input_dim"] = lambda _: None
        yield

    lesson._record._without_input_checks = without_checks


@wrong(
    fails="test_after_a_refusal_the_graph_is_as_before",
    says="what was recorded before the failure is still in the graph",
)
def leaves_half_of_it_behind(lesson):
    """Doesn't clean up after a callee that can't be recorded."""
    lesson._record._undone_on_failure = lambda graph: contextlib.nullcontext()


@wrong(
    fails="test_resnet18_loses_the_submodules_that_nothing_uses",
    says="delete those without state",
)
def drops_nothing(lesson):
    """Keeps submodules that nothing calls any more."""
    lesson.drop_unused_modules = lambda gm: None


@wrong(
    fails="test_parameters_that_nothing_uses_stay_in_the_state_dict",
    says="drop what holds no state",
)
def drops_unused_state(lesson):
    """Deletes every submodule that no node refers to, parameters or not."""
    original = lesson.inline_all

    def inline_all(gm):
        original(gm).delete_all_unused_submodules()
        return gm

    lesson.inline_all = inline_all


@wrong(
    fails="test_the_model_that_was_traced_is_not_changed",
    says="delete from `gm` and its containers alone",
)
def deletes_from_the_models_own_modules(lesson):
    """Deletes unused submodules wherever they are: the traced model loses them too."""
    original = lesson.inline_all

    def inline_all(gm):
        original(gm).delete_all_unused_submodules()
        return gm

    lesson.inline_all = inline_all


@wrong(
    fails="test_arguments_inside_structures_become_proxies_too",
    says="map_arg",
)
def makes_proxies_of_outer_arguments_only(lesson):
    """Looks at the arguments themselves, and not into lists."""

    def inline_function(gm, node, fn):
        args = [Proxy(arg) if isinstance(arg, torch.fx.Node) else arg for arg in node.args]
        with gm.graph.inserting_before(node):
            try:
                result = fn(*args, **node.kwargs)
            except TypeError as error:
                raise TypeError(f"map_arg would look inside: {error}") from None
        node.replace_all_uses_with(result.node)
        gm.graph.erase_node(node)
        gm.recompile()
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


@wrong(
    fails="test_calls_of_other_modules_are_left_alone", says="whose name begins alike, was inlined"
)
def inlines_what_begins_alike(lesson):
    """Takes ``act2`` and ``activation`` for ``act``."""

    def inline_module(gm, target):
        callee = gm.get_submodule(target)
        nodes = [node for node in lesson._calls(gm) if node.target.startswith(target)]
        calls = [lesson.Call(node, callee) for node in nodes]
        return lesson._inline(gm, calls, lambda module: module is not callee)

    lesson.inline_module = inline_module


@wrong(
    fails="test_a_call_whose_result_nobody_uses_keeps_its_effect",
    says="a call without users was dropped",
)
def drops_calls_without_users(lesson):
    """Erases what nobody uses, instead of inlining it."""
    everything = lesson._inline

    def inline(gm, calls, is_leaf):
        for call in [each for each in calls if not each.node.users]:
            gm.graph.erase_node(call.node)
            calls.remove(call)
        gm.recompile()
        return everything(gm, calls, is_leaf)

    lesson._inline = inline


@wrong(
    fails="test_other_nodes_are_the_nodes_that_they_were",
    says="the model was traced anew",
)
def traces_anew(lesson):
    """Runs the whole module under a tracer without leaves, and takes its graph."""

    class Whole(lesson._record.Tracer):
        proxy_buffer_attributes = True

        def is_leaf_module(self, m, module_qualified_name):
            return False

    def inline_all(gm):
        with lesson._record._without_input_checks(gm):
            gm.graph = Whole().trace(gm)
        lesson.drop_unused_modules(gm)
        return gm

    lesson.inline_all = inline_all


@wrong(
    fails="test_a_result_of_several_values_goes_into_keyword_arguments_too",
    says="the call is still an argument",
)
def forgets_keyword_arguments_of_users(lesson):
    """Puts the result into the positional arguments of the nodes that use it, and no further."""

    def replace(call, result):
        for user in list(call.users):
            if lesson._replace._is_element(user, call, result):
                replace(user, result[user.args[1]])
            else:
                user.args = map_arg(user.args, lambda node: result if node is call else node)
        if not call.users:
            call.graph.erase_node(call)

    lesson.replace = replace


@wrong(
    fails="test_picking_from_a_result_that_is_known_leaves_no_node",
    says="the users still pick from the tuple",
)
def knows_elements_from_the_front_only(lesson):
    """Doesn't know the last element by -1, nor what a dict has."""
    known = lesson._replace._is_element

    def is_element(user, call, result):
        return known(user, call, result) and isinstance(result, tuple) and user.args[1] >= 0

    lesson._replace._is_element = is_element


@wrong(
    fails="test_picking_what_the_result_does_not_have_is_left_to_the_run",
    says="IndexError: tuple index out of range",
)
def looks_every_index_up(lesson):
    """Takes whatever is picked for something that is there."""
    lesson._replace._is_element = lambda user, call, result: (
        user.target is operator.getitem and user.args[0] is call and isinstance(result, tuple)
    )


@wrong(
    fails="test_a_module_stays_whose_tensor_is_read_though_it_holds_no_state",
    says="the state dict doesn't mention it",
)
def drops_what_holds_no_state(lesson):
    """Asks the state dict alone what is needed: a plain tensor isn't in it."""

    def drop_unused_modules(gm):
        called = {str(node.target) for node in gm.graph.nodes if node.op == "call_module"}
        needed = {path.split(".")[0] for path in (*called, *gm.state_dict())}
        for name in [name for name, _ in gm.named_children() if name not in needed]:
            delattr(gm, name)

    lesson.drop_unused_modules = drop_unused_modules


@wrong(
    fails="test_a_check_of_the_users_own_is_there_again_afterwards",
    says="deleted afterwards",
)
def deletes_the_users_check(lesson):
    """Takes the check that it has put on a layer away, and what was there before with it."""

    @contextmanager
    def without_checks(gm):
        layers = [module for module in gm.modules() if hasattr(module, "_check_input_dim")]
        for layer in layers:
            vars(layer)["_check_input_dim"] = lambda _: None
        try:
            yield
        finally:
            for layer in layers:
                del vars(layer)["_check_input_dim"]

    lesson._record._without_input_checks = without_checks


@wrong(fails="test_a_leaf_that_the_function_calls_is_one_call", says="looked through")
def looks_through_what_a_function_calls(lesson):
    """Treats the modules that a function calls as if they were to be inlined."""
    everything = lesson._inline
    lesson._inline = lambda gm, calls, is_leaf: everything(gm, calls, lambda module: False)


@wrong(
    fails="test_after_an_interrupt_the_graph_is_as_before",
    says="an interrupt is no `Exception`",
)
def cleans_up_after_exceptions_alone(lesson):
    """Leaves half of it behind when somebody presses Ctrl-C."""

    @contextmanager
    def undone(graph):
        present = set(graph.nodes)
        try:
            yield
        except Exception:
            for node in [node for node in graph.nodes if node not in present][::-1]:
                graph.erase_node(node)
            raise

    lesson._record._undone_on_failure = undone


@wrong(
    fails="test_a_node_that_is_no_call_is_refused",
    says="a placeholder has no arguments",
)
def replaces_whatever_it_gets(lesson):
    """Doesn't ask whether the node is a call."""

    def inline_function(gm, node, fn):
        return lesson._inline(gm, [lesson.Call(node, fn)], lambda module: True)

    lesson.inline_function = inline_function


@right
def names_by_a_plain_search(lesson):
    """Looks submodules up in a dictionary, and lists all names when there is none."""

    def submodule(gm, target):
        modules = dict(gm.named_modules(remove_duplicate=False))
        if target not in modules:
            raise NameError(f"no submodule {target}; there are: {', '.join(modules)}")
        return modules[target]

    lesson._submodule = submodule


@right
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

    lesson._record._undone_on_failure = undone


@right
def replaces_input_by_input(lesson):
    """Where the result is a node, goes from user to user."""
    resolve = lesson._replace.replace

    def replace(call, result):
        if isinstance(result, torch.fx.Node):
            for user in list(call.users):
                user.replace_input_with(call, result)
            call.graph.erase_node(call)
        else:
            resolve(call, result)

    lesson.replace = replace


@right(core_only=True)
def functions_by_proxies_alone(lesson):
    """Inlines a function as torch's documentation does: proxies on the graph, no tracer."""

    def inline_function(gm, node, fn):
        if node.graph is not gm.graph or not node.op.startswith("call_"):
            raise ValueError(f"{node.name!r} is no call in this graph")
        tracer = GraphAppendingTracer(gm.graph)
        before = set(gm.graph.nodes)

        def proxy(argument):
            return Proxy(argument, tracer)

        paths = {id(value): name for name, value in gm.named_parameters()}

        def create_arg(value):
            if isinstance(value, nn.Parameter):
                return tracer.create_node("get_attr", paths[id(value)], (), {})
            return GraphAppendingTracer.create_arg(tracer, value)

        tracer.create_arg = create_arg
        tracer.module_stack = OrderedDict()
        with gm.graph.inserting_before(node):
            try:
                args, kwargs = map_arg((node.args, node.kwargs), proxy)
                result = tracer.create_arg(fn(*args, **kwargs))
            except Exception as error:
                for new in [each for each in gm.graph.nodes if each not in before][::-1]:
                    gm.graph.erase_node(new)
                raise torch.fx.proxy.TraceError(f"node {node.name!r}: {error}") from error
        node.replace_all_uses_with(result)
        gm.graph.erase_node(node)
        gm.recompile()
        return gm

    lesson.inline_function = inline_function


def traced_alone(lesson):
    """A tracer that gives a callee a graph of its own, with placeholders for the nodes it gets."""

    class Alone(lesson._record.Tracer):
        proxy_buffer_attributes = True

        def __init__(self, call, is_leaf):
            super().__init__()
            self.call, self.is_leaf, self.inputs = call, is_leaf, {}

        def is_leaf_module(self, m, module_qualified_name):
            return self.is_leaf(m) and super().is_leaf_module(m, module_qualified_name)

        def create_args_for_root(self, *_):
            args, kwargs = map_arg((self.call.node.args, self.call.node.kwargs), self.input)
            self.module_stack = lesson._record._stack_around(self.call)
            return (lambda: self.call.callee(*args, **kwargs)), []

        def input(self, node):
            if node not in self.inputs:
                self.inputs[node] = self.create_proxy("placeholder", f"of_{node.name}", (), {})
            return self.inputs[node]

    return Alone


def copy_nodes(theirs, graph, ours):
    """Copy all that lies between the inputs and the output of one graph into another."""
    for node in theirs.nodes:
        if node.op not in ("placeholder", "output"):
            ours[node] = graph.node_copy(node, ours.get)
    return map_arg(theirs.output_node().args[0], ours.get)


@right
def copies_a_trace_of_its_own(lesson):
    """Traces each callee into a graph of its own, and copies the nodes over."""
    alone = traced_alone(lesson)

    def trace(gm, call, is_leaf):
        tracer = alone(call, is_leaf)
        try:
            tracer.trace(gm)
        except Exception as error:
            raise torch.fx.proxy.TraceError(f"{call}: {error!r}") from error
        return tracer

    def copied(graph, tracer):
        with graph.inserting_before(tracer.call.node):
            ours = {proxy.node: node for node, proxy in tracer.inputs.items()}
            return copy_nodes(tracer.graph, graph, ours)

    def record(gm, calls, is_leaf):
        with lesson._record._without_input_checks(gm):
            tracers = [trace(gm, call, is_leaf) for call in calls]
        return [copied(gm.graph, tracer) for tracer in tracers]

    lesson.record = record


@right
def patches_without_a_trace(lesson):
    """Patches ``nn.Module`` itself, and lets a tracer that never traces record what is called."""

    def record(gm, calls, is_leaf):
        with lesson._record._undone_on_failure(gm.graph), watching(gm, is_leaf) as tracer:
            return [result_of(call, tracer) for call in calls]

    def result_of(call, tracer):
        args, kwargs = map_arg((call.node.args, call.node.kwargs), tracer.proxy)
        tracer.module_stack = lesson._record._stack_around(call)
        with tracer.graph.inserting_before(call.node):
            try:
                return tracer.create_arg(call.callee(*args, **kwargs))
            except Exception as error:
                raise torch.fx.proxy.TraceError(f"{call}: {error!r}") from error

    @contextmanager
    def watching(gm, is_leaf):
        base = lesson._record.Tracer
        tracer = base()
        tracer.root, tracer.graph, tracer._callees = gm, gm.graph, {}
        tracer.proxy_buffer_attributes, proxies = True, {}
        tracer.is_leaf_module = lambda m, path: is_leaf(m) and base.is_leaf_module(tracer, m, path)

        def call(module, *args, **kwargs):
            forward = functools.partial(ORIGINAL_CALL, module)
            return tracer.call_module(module, forward, args, kwargs)

        def get(module, name):
            return tracer.getattr(name, ORIGINAL_GETATTR(module, name), proxies)

        with contextlib.ExitStack() as stack:
            stack.enter_context(lesson._record._without_input_checks(gm))
            stack.enter_context(mock.patch.object(nn.Module, "__call__", call))
            stack.enter_context(mock.patch.object(nn.Module, "__getattr__", get))
            torch_fx._patch_wrapped_functions(stack.enter_context(torch_fx._new_patcher()))
            yield tracer

    lesson.record = record
