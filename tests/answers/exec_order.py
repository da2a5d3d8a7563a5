"""Answers to ``exec_order``."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial, update_wrapper
from itertools import pairwise
from unittest.mock import patch

from torch.fx import Proxy
from torch.utils._pytree import tree_leaves

from tests.suite.answers import around, on, right, wrong


def replacements(watcher, lesson, tracer, root_module) -> dict:
    """Make a new record, and return what replaces the tracer's two methods."""
    watcher.exec_info = lesson.ExecutionInfo(root_module)
    watcher.parameters = dict(root_module.named_parameters())
    create_proxy = partial(watcher.record_node, tracer.create_proxy)
    return {
        "call_module": partial(watcher.record_call, tracer.call_module),
        "create_proxy": update_wrapper(create_proxy, tracer.create_proxy),
    }


def restoring(lesson, restore):
    """Replace the methods by hand; ``restore`` changes the tracer's attributes back."""

    @on(lesson.ExecOrderTracer)
    @contextmanager
    def patch_tracer(self, tracer, root_module):
        before = dict(vars(tracer))
        methods = {name: getattr(tracer, name) for name in ("call_module", "create_proxy")}
        vars(tracer).update(replacements(self, lesson, tracer, root_module))
        try:
            yield
        finally:
            restore(vars(tracer), methods, before)


@wrong(
    "test_the_tracer_is_itself_again_after_a_failure",
    says="put both methods back, also after an error",
)
def forgets_finally(lesson):
    """Puts the methods back only after a block that succeeded."""

    @on(lesson.ExecOrderTracer)
    @contextmanager
    def patch_tracer(self, tracer, root_module):
        made = replacements(self, lesson, tracer, root_module)
        vars(tracer).update(made)
        yield
        for name in made:
            delattr(tracer, name)


@wrong(
    "test_the_tracer_has_no_attribute_that_it_did_not_have_before",
    says="the bound method was assigned",
)
def assigns_the_bound_methods(lesson):
    """Restores by assignment, as torch does."""
    restoring(lesson, lambda attributes, methods, before: attributes.update(methods))


@wrong("test_the_block_replaces_the_methods_of_one_object", says="replaced on the class")
def patches_the_class(lesson):
    """Replaces the methods on the tracer's class."""

    @on(lesson.ExecOrderTracer)
    @contextmanager
    def patch_tracer(self, tracer, root_module):
        made = replacements(self, lesson, tracer, root_module)
        with patch.multiple(type(tracer), **{k: staticmethod(v) for k, v in made.items()}):
            yield


@right
def restores_by_the_dictionary(lesson):
    """Saves and restores the object's own attributes by hand."""

    def restore(attributes, methods, before):
        for name in methods:
            del attributes[name]
            attributes.update({name: before[name]} if name in before else {})

    restoring(lesson, restore)


@wrong("test_a_node_that_is_made_while_watched_has_its_proxy", says="returns nothing")
def keeps_the_proxy_for_itself(lesson):
    """Records the node, and returns nothing."""

    @around(lesson.ExecOrderTracer)
    def record_node(original, self, *arguments, **options):
        original(self, *arguments, **options)


@wrong("test_modules_come_in_the_order_of_their_calls", says="a module was noted after its call")
def records_a_module_after_its_call(lesson):
    """Appends the module when its call is over: children come first."""

    @around(lesson.ExecOrderTracer)
    def record_call(original, self, call_module, module, *how):
        order = self.exec_info.module_forward_order
        position = len(order)
        result = original(self, call_module, module, *how)
        order.append(order.pop(position))
        return result


@right(core_only=True)
def misses_no_use_of_a_parameter(lesson):
    """Finds parameters wherever they are, and keeps the usages of earlier calls."""

    @around(lesson.ExecOrderTracer)
    def record_call(original, self, call_module, module, *how):
        usages = self.exec_info.module_to_param_usage_infos
        earlier = usages.get(module, [])
        output = original(self, call_module, module, *how)
        usages[module][:0] = earlier
        return output

    @on(lesson.ExecOrderTracer)
    def parameters_used(self, node, args):
        current = self.exec_info.curr_module
        called = list(current.named_parameters()) if node.op == "call_module" else []
        proxies = (each for each in tree_leaves(args) if isinstance(each, Proxy | lesson.Proxy))
        read = [each.node for each in proxies]
        read += [each for each in node.all_input_nodes if each not in read]
        return called + lesson.named(
            self.parameters, [each for each in read if each.op == "get_attr"]
        )


@right
def reads_parameters_in_a_loop(lesson):
    """Collects the parameters argument by argument."""

    @on(lesson.ExecOrderTracer)
    def parameters_used(self, node, args):
        if node.op == "call_module":
            return [(name, each) for name, each in self.exec_info.curr_module.named_parameters()]
        used = []
        for argument in args if node.op in ("call_function", "call_method") else ():
            name = argument.node.target if isinstance(argument, Proxy) else None
            if name in self.parameters:
                used.append((name, self.parameters[name]))
        return used


@wrong(
    "test_a_parameter_is_listed_at_its_first_use_only",
    says="torch's proxies weren't found",
    never="something is missing",
)
def knows_only_its_own_proxies(lesson):
    """Forgets that the tracer may be torch's."""

    @on(lesson.ExecOrderTracer)
    def parameters_used(self, node, args):
        if node.op == "call_module":
            return list(self.exec_info.curr_module.named_parameters())
        nodes = [each.node for each in args if isinstance(each, lesson.Proxy)]
        return lesson.named(self.parameters, nodes)


@wrong("test_the_record_equals_torchs", says="the node's own `args` hold nodes")
def takes_nodes_for_proxies(lesson):
    """Looks for proxies in the node, where there are none."""

    @on(lesson.ExecOrderTracer)
    def parameters_used(self, node, args):
        if node.op == "call_module":
            return list(self.exec_info.curr_module.named_parameters())
        return lesson.named(self.parameters, [each.node for each in node.args])


@wrong(
    "test_the_record_equals_torchs",
    says="even if they were used before",
    never="an operation in the running module's list",
)
def notes_the_first_use_only(lesson):
    """Skips the parameters that were used before."""

    @around(lesson.ExecOrderTracer)
    def parameters_used(original, self, *arguments):
        used = original(self, *arguments)
        return [each for each in used if each[1] not in self.exec_info.visited_params]


def recording_calls(lesson, *, caller_of=None, notes_first=True):
    """``record_call`` of the reference, except for one of its steps."""

    @on(lesson.ExecOrderTracer)
    def record_call(self, call_module, module, *how):
        info = self.exec_info
        caller = caller_of(info) if caller_of else info.curr_module
        usage = lesson.ParamUsageInfo(module, list(module.named_parameters()))
        info.module_forward_order.append(module)
        noting = info.curr_module if notes_first else module
        info.curr_module = module
        info.module_to_param_usage_infos[module] = []
        if usage.named_params:
            info.module_to_param_usage_infos[noting].append(usage)
        output = call_module(module, *how)
        info.curr_module = caller
        return output


@wrong(
    "test_each_call_is_noted_in_the_list_of_its_caller",
    says="note a call before the called module becomes the current one",
)
def notes_a_call_in_the_list_of_the_callee(lesson):
    """Makes the called module the current one before it notes the call."""
    recording_calls(lesson, notes_first=False)


@wrong(
    "test_each_call_is_noted_in_the_list_of_its_caller",
    says="after a call, the root was the current module, and not the caller",
    never="note a call before",
)
def goes_back_to_the_root(lesson):
    """Takes the root for the caller."""
    recording_calls(lesson, caller_of=lambda info: info.module_forward_order[0])


@wrong(
    "test_a_module_is_gathered_as_early_as_the_budget_allows",
    says="a module is gathered later than it could be",
)
def gathers_the_next_only(lesson):
    """Gathers one module ahead, whatever the budget."""

    @on(lesson)
    def prefetch_plan(order, sizes, budget):
        pairs = pairwise(order)
        return [lesson.Fetch(*pair) for pair in pairs if sum(map(sizes.get, pair)) <= budget]


@wrong("test_fsdp_is_told_once_for_each_module", says="a second call for the same module")
def tells_fsdp_fetch_by_fetch(lesson):
    """Calls FSDP once for each fetch."""

    @on(lesson)
    def apply_prefetch(fetches):
        for fetch in fetches:
            fetch.during.set_modules_to_forward_prefetch([fetch.module])
