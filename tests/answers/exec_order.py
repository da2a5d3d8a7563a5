"""Answers to ``exec_order``."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial, update_wrapper, wraps
from itertools import pairwise
from unittest.mock import patch

from torch.fx import Proxy
from torch.utils._pytree import tree_leaves

from tests.suite.answers import right, wrong


def replacements(watcher, lesson, tracer, root_module) -> dict:
    """A new record, and what is called instead of the tracer's two methods."""
    info = watcher.exec_info = lesson.ExecutionInfo(root_module)
    parameters = dict(root_module.named_parameters())
    create_proxy = partial(watcher.record_node, info, parameters, tracer.create_proxy)
    return {
        "call_module": partial(watcher.record_call, info, tracer.call_module),
        "create_proxy": update_wrapper(create_proxy, tracer.create_proxy),
    }


def patching(lesson):
    """Let a generator be the block."""

    def replace(patch_tracer):
        lesson.ExecOrderTracer.patch_tracer = contextmanager(patch_tracer)

    return replace


@wrong(
    fails="test_the_tracer_is_itself_again_after_a_failure",
    says="put the methods back in a `finally`",
)
def forgets_finally(lesson):
    """Puts the methods back only after a block that succeeded."""

    @patching(lesson)
    def patch_tracer(self, tracer, root_module):
        vars(tracer).update(replacements(self, lesson, tracer, root_module))
        yield
        del tracer.call_module, tracer.create_proxy


@wrong(
    fails="test_a_node_that_is_made_while_watched_has_its_proxy",
    says="returns nothing",
)
def keeps_the_proxy_for_itself(lesson):
    """Records the node, and returns nothing."""
    record_node = lesson.ExecOrderTracer.record_node

    def recording(self, *arguments, **options):
        record_node(self, *arguments, **options)

    lesson.ExecOrderTracer.record_node = recording


@wrong(
    fails="test_the_methods_are_put_back_when_the_block_ends",
    says="`create_proxy` is still replaced",
    never="an error skips",
)
def puts_one_method_back(lesson):
    """Forgets ``create_proxy``, whether the block fails or not."""

    @patching(lesson)
    def patch_tracer(self, tracer, root_module):
        vars(tracer).update(replacements(self, lesson, tracer, root_module))
        try:
            yield
        finally:
            del tracer.call_module


@wrong(
    fails="test_there_is_no_record_before_a_trace_and_a_new_one_for_each",
    says="the second block has the record of the first",
)
def writes_into_the_first_record(lesson):
    """Makes the record once, and goes on writing into it."""
    patch_tracer = lesson.ExecOrderTracer.patch_tracer

    @patching(lesson)
    def patch_tracer_once(self, tracer, root_module):
        first = self.exec_info
        with patch_tracer(self, tracer, root_module):
            self.exec_info = first or self.exec_info
            yield


def recording_calls(lesson, *, own=lambda module: list(module.named_parameters()), back=None):
    """Replace what happens around a call, except for what the answer does differently."""

    def record_call(self, info, call_module, module, *how):
        info.module_forward_order.append(module)
        lesson._note_usage(info, module, own(module))
        caller, info.curr_module = info.curr_module, module
        info.module_to_param_usage_infos[module] = []
        result = call_module(module, *how)
        info.curr_module = back(info) if back else caller
        return result

    lesson.ExecOrderTracer.record_call = record_call


@wrong(
    fails="test_modules_come_in_the_order_of_their_calls",
    says="the order in `modules` is another one",
)
def records_a_module_after_its_call(lesson):
    """Appends the module when its call is over: children come first."""
    original = lesson.ExecOrderTracer.record_call

    def record_call(self, info, call_module, module, *how):
        position = len(info.module_forward_order)
        result = original(self, info, call_module, module, *how)
        info.module_forward_order.append(info.module_forward_order.pop(position))
        return result

    lesson.ExecOrderTracer.record_call = record_call


@wrong(
    fails="test_the_record_is_the_one_of_torch",
    says="usages are missing in the list of (root)",
    never="another",
)
def notes_no_calls(lesson):
    """Notes what operations use, and not what the modules that are called bring along."""
    recording_calls(lesson, own=lambda module: [])


@wrong(fails="test_options_of_the_tracer_still_work", says="to have a parameter `proxy_factory_fn`")
def hides_the_signature(lesson):
    """Replaces methods by functions that take anything."""

    @patching(lesson)
    def patch_tracer(self, tracer, root_module):
        replaced = replacements(self, lesson, tracer, root_module)
        create_proxy = replaced["create_proxy"]
        replaced["create_proxy"] = lambda *args, **kwargs: create_proxy(*args, **kwargs)
        with patch.multiple(tracer, **replaced):
            yield


@wrong(
    fails="test_the_tracer_has_no_attribute_that_it_did_not_have_before",
    says="the bound method was assigned",
)
def assigns_the_bound_methods(lesson):
    """Restores by assignment, as torch does."""

    @patching(lesson)
    def patch_tracer(self, tracer, root_module):
        methods = tracer.call_module, tracer.create_proxy
        vars(tracer).update(replacements(self, lesson, tracer, root_module))
        try:
            yield
        finally:
            tracer.call_module, tracer.create_proxy = methods


@right(core_only=True)
def misses_no_use_of_a_parameter(lesson):
    """Finds parameters wherever they are, and keeps the usages of earlier calls."""

    record_call = lesson.ExecOrderTracer.record_call

    def keep_usages(self, info, call_module, module, *how):
        earlier = info.module_to_param_usage_infos.get(module, [])
        output = record_call(self, info, call_module, module, *how)
        info.module_to_param_usage_infos[module][:0] = earlier
        return output

    def parameters_used(self, info, parameters, node, args):
        called = list(info.curr_module.named_parameters()) if node.op == "call_module" else []
        proxies = (each for each in tree_leaves(args) if isinstance(each, Proxy | lesson.Proxy))
        read = [each.node for each in proxies]
        read += [each for each in node.all_input_nodes if each not in read]
        return called + lesson.named(parameters, [each for each in read if each.op == "get_attr"])

    lesson.ExecOrderTracer.record_call = keep_usages
    lesson.ExecOrderTracer.parameters_used = parameters_used


@right(core_only=True)
def written_in_one_piece(lesson):
    """Two closures in one method, which fills the record by itself."""

    class ExecOrderTracer(lesson.ExecOrderTracer):
        @contextmanager
        def patch_tracer(self, tracer, root_module):
            info = self.exec_info = lesson.ExecutionInfo(root_module)
            parameters = dict(root_module.named_parameters())
            usages = info.module_to_param_usage_infos
            methods = tracer.call_module, tracer.create_proxy

            def note(module, named):
                if named:
                    usages[info.curr_module].append(lesson.ParamUsageInfo(module, named))

            @wraps(methods[0])
            def call_module(module, forward, args, kwargs):
                info.module_forward_order.append(module)
                note(module, list(module.named_parameters()))
                caller, info.curr_module = info.curr_module, module
                usages[module] = []
                result = methods[0](module, forward, args, kwargs)
                info.curr_module = caller
                return result

            @wraps(methods[1])
            def create_proxy(kind, target, args, *more, **options):
                proxy = methods[1](kind, target, args, *more, **options)
                used = self.parameters_used(info, parameters, proxy.node, args)
                note(info.curr_module, used)
                new = [each for _, each in used if each not in info.visited_params]
                info.param_forward_order.extend(dict.fromkeys(new))
                info.visited_params.update(new)
                return proxy

            tracer.call_module, tracer.create_proxy = call_module, create_proxy
            try:
                yield
            finally:
                tracer.call_module, tracer.create_proxy = methods

    lesson.ExecOrderTracer = ExecOrderTracer


@right
def restores_by_the_dictionary(lesson):
    """Saves and restores the object's own attributes by hand."""

    @patching(lesson)
    def patch_tracer(self, tracer, root_module):
        before = dict(vars(tracer))
        replaced = replacements(self, lesson, tracer, root_module)
        vars(tracer).update(replaced)
        try:
            yield
        finally:
            for name in replaced:
                del vars(tracer)[name]
                if name in before:
                    vars(tracer)[name] = before[name]


@wrong(
    fails="test_a_parameter_that_an_operation_is_given_twice_is_named_twice",
    says="a parameter that is given twice is named once",
)
def names_each_parameter_once(lesson):
    """Collects the parameters of a node in a dict."""
    original = lesson.ExecOrderTracer.parameters_used

    def parameters_used(self, *arguments):
        return list(dict(original(self, *arguments)).items())

    lesson.ExecOrderTracer.parameters_used = parameters_used


@wrong(
    fails="test_a_call_that_returns_none_returns_none_while_it_is_watched",
    says="`record_call` returned something else than `None`",
)
def nothing_becomes_the_input(lesson):
    """Takes a call without a result for one that changes its input."""
    original = lesson.ExecOrderTracer.record_call

    def record_call(self, info, call_module, module, forward, args, kwargs):
        result = original(self, info, call_module, module, forward, args, kwargs)
        return args[0] if result is None else result

    lesson.ExecOrderTracer.record_call = record_call


@right
def reads_parameters_in_a_loop(lesson):
    """Collects the parameters argument by argument."""

    def parameters_used(self, info, parameters, node, args):
        if node.op == "call_module":
            return [(name, each) for name, each in info.curr_module.named_parameters()]
        used = []
        for argument in args if node.op in ("call_function", "call_method") else ():
            name = argument.node.target if isinstance(argument, Proxy) else None
            if name in parameters:
                used.append((name, parameters[name]))
        return used

    lesson.ExecOrderTracer.parameters_used = parameters_used


# --- fetch ahead


@wrong(
    fails="test_units_are_in_the_order_of_their_first_use",
    says="the units' own order was taken, or the last use",
)
def lists_units_by_their_last_use(lesson):
    """Keeps the last use of each unit."""
    units_in_order = lesson.units_in_order
    lesson.units_in_order = lambda order, units: units_in_order(order[::-1], units)[::-1]


@wrong(
    fails="test_a_module_is_gathered_as_early_as_the_budget_allows",
    says="a module is gathered later than it could be",
)
def gathers_the_next_only(lesson):
    """Gathers one module ahead, whatever the budget."""

    def prefetch_plan(order, sizes, budget):
        pairs = pairwise(order)
        return [lesson.Fetch(*pair) for pair in pairs if sum(map(sizes.get, pair)) <= budget]

    lesson.prefetch_plan = prefetch_plan


@wrong(fails="test_fsdp_is_told_once_for_each_module", says="a second call for the same module")
def tells_fsdp_fetch_by_fetch(lesson):
    """Calls FSDP once for each fetch."""

    def apply_prefetch(fetches):
        for fetch in fetches:
            fetch.during.set_modules_to_forward_prefetch([fetch.module])

    lesson.apply_prefetch = apply_prefetch
