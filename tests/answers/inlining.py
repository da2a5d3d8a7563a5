"""Answers to ``inlining``."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from contextlib import contextmanager

import torch
from torch import nn
from torch.fx import Proxy
from torch.fx.node import map_arg
from torch.fx.proxy import GraphAppendingTracer

from tests.suite.answers import right, wrong


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
        except Exception:
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
