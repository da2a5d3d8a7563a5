"""Answers to ``exec_order``."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial, wraps

from torch.fx import Proxy

from tests.suite.answers import right, wrong


def replaced(tracer, lesson, name, around):
    """The replacement of one method, as the reference makes it."""
    method = getattr(tracer, name)
    return method, lesson.watch.update_wrapper(partial(around, method), method)


@wrong(
    fails="test_the_tracer_is_itself_again_after_a_failure",
    says="put them back in a `finally`",
)
def forgets_finally(lesson):
    """Puts the methods back only after a block that succeeded."""

    @contextmanager
    def watched(tracer, name, around):
        _, replacement = replaced(tracer, lesson, name, around)
        setattr(tracer, name, replacement)
        yield
        delattr(tracer, name)

    lesson.watch._watched = watched


@wrong(fails="test_only_this_tracer_is_watched", says="replace them on the object")
def patches_the_class(lesson):
    """Replaces the methods of the class: every tracer is watched."""

    @contextmanager
    def watched(tracer, name, around):
        original = getattr(type(tracer), name)

        def watched_method(owner, *args, **kwargs):
            return around(partial(original, owner), *args, **kwargs)

        setattr(type(tracer), name, watched_method)
        try:
            yield
        finally:
            setattr(type(tracer), name, original)

    lesson.watch._watched = watched


@wrong(
    fails="test_modules_come_in_the_order_of_their_calls",
    says="recorded after the calls inside it",
)
def records_a_module_after_its_call(lesson):
    """Appends the module when its call is over: children come first."""
    watcher = lesson.watch._Watcher
    original = watcher.call_module

    def call_module(self, method, module, *how):
        position = len(self.info.module_forward_order)
        result = original(self, method, module, *how)
        self.info.module_forward_order.append(self.info.module_forward_order.pop(position))
        return result

    watcher.call_module = call_module


@wrong(
    fails="test_each_call_is_noted_in_the_list_of_its_caller",
    says="noted after the current module was changed",
)
def notes_a_call_in_the_callees_list(lesson):
    """Makes the callee the current module before the usage is noted."""

    def call_module(self, method, module, *how):
        self.info.module_forward_order.append(module)
        caller, self.own = (self.info.curr_module, self.own), list(module.named_parameters())
        self.info.curr_module = module
        self.rules.begin_usages(self.info, module)
        self.note_usage(module, self.own)
        result = method(module, *how)
        self.info.curr_module, self.own = caller
        return result

    lesson.watch._Watcher.call_module = call_module


@wrong(
    fails="test_a_parameter_comes_at_its_first_use_and_only_there",
    says="noted at another use than its first",
)
def appends_a_parameter_at_every_use(lesson):
    """Doesn't ask whether the parameter was seen before."""

    def note_uses(self, named_params):
        self.info.visited_params.update(parameter for _, parameter in named_params)
        self.info.param_forward_order += [parameter for _, parameter in named_params]

    lesson.watch._Watcher.note_first_uses = note_uses


@wrong(
    fails="test_parameters_passed_by_keyword_are_not_seen",
    says="sensible, but torch doesn't",
)
def looks_at_keyword_arguments(lesson):
    """Mends what torch leaves out, where the letter of torch is asked for."""
    ExecOrderTracer, complete = lesson.ExecOrderTracer, lesson.CompleteExecOrderTracer
    ExecOrderTracer.parameters_used = complete.parameters_used


@wrong(
    fails="test_a_second_call_empties_the_list_of_the_module",
    says="set the list at each call",
)
def keeps_the_usages_of_the_first_call(lesson):
    """Gives a module its list only once."""
    lesson.ExecOrderTracer.begin_usages = lesson.CompleteExecOrderTracer.begin_usages


@wrong(
    fails="test_there_is_no_record_before_a_trace_and_a_new_one_for_each",
    says="make a new `ExecutionInfo`",
)
def writes_into_the_first_record(lesson):
    """Makes the record once, and goes on writing into it."""
    Watcher = lesson.ExecOrderTracer

    class ExecOrderTracer(Watcher):
        @contextmanager
        def patch_tracer(self, tracer, root_module):
            first = self.exec_info
            with super().patch_tracer(tracer, root_module):
                yield
            self.exec_info = first or self.exec_info

    lesson.ExecOrderTracer = ExecOrderTracer


@wrong(
    fails="test_options_of_the_tracer_still_work",
    says="keep the original's signature",
)
def hides_the_signature(lesson):
    """Replaces methods by partial functions that take anything."""
    lesson.watch.update_wrapper = lambda replacement, method: (
        lambda *args, **kwargs: replacement(*args, **kwargs)
    )


@wrong(
    fails="test_the_tracer_has_no_attribute_that_it_did_not_have_before",
    says="delete the attribute",
)
def assigns_the_bound_methods(lesson):
    """Restores by assignment, as torch does."""

    @contextmanager
    def watched(tracer, name, around):
        method, replacement = replaced(tracer, lesson, name, around)
        setattr(tracer, name, replacement)
        try:
            yield
        finally:
            setattr(tracer, name, method)

    lesson.watch._watched = watched


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
                own = list(info.curr_module.named_parameters())
                used = self.parameters_used(own, parameters, proxy.node, args)
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
    """Saves and restores the whole instance dictionary."""

    @contextmanager
    def watched(tracer, name, around):
        before = dict(vars(tracer))
        setattr(tracer, name, replaced(tracer, lesson, name, around)[1])
        try:
            yield
        finally:
            vars(tracer).pop(name)
            if name in before:
                vars(tracer)[name] = before[name]

    lesson.watch._watched = watched


@right
def reads_parameters_in_a_loop(lesson):
    """Collects the parameters argument by argument."""
    base = lesson.ExecOrderTracer

    class ExecOrderTracer(base):
        def parameters_used(self, own, parameters, node, args):
            if node.op == "call_module":
                return [(name, each) for name, each in own]
            used = []
            for argument in args if node.op in ("call_function", "call_method") else ():
                name = argument.node.target if isinstance(argument, Proxy) else None
                if name in parameters:
                    used.append((name, parameters[name]))
            return used

    lesson.ExecOrderTracer = ExecOrderTracer


def calling(lesson, *, own=lambda module: list(module.named_parameters()), restore=lambda w, c: c):
    """Replace what happens around a call, except for what the answer does differently."""

    def call_module(self, method, module, *how):
        self.info.module_forward_order.append(module)
        self.note_usage(module, own(module))
        caller = self.info.curr_module, self.own
        self.info.curr_module, self.own = module, own(module)
        self.rules.begin_usages(self.info, module)
        result = method(module, *how)
        self.info.curr_module, self.own = restore(self, caller)
        return result

    lesson.watch._Watcher.call_module = call_module


@wrong(fails="test_the_record_is_the_one_of_fsdp", says="likely cause")
def forgets_the_parameters_of_children(lesson):
    """Notes only the parameters that a module holds itself."""
    calling(lesson, own=lambda module: list(module.named_parameters(recurse=False)))


@wrong(fails="test_the_record_is_the_one_of_fsdp", says="likely cause")
def goes_back_to_the_root(lesson):
    """Makes the root the current module after every call, instead of the caller."""

    def to_root(watcher, caller):
        root = watcher.info.module_forward_order[0]
        return root, list(root.named_parameters())

    calling(lesson, restore=to_root)


@wrong(
    fails="test_the_record_is_the_one_of_fsdp",
    says="a call is missing, doubled, or recorded after the calls inside it",
)
def leaves_the_root_out(lesson):
    """Begins the order with the first call, where torch begins it with the root."""
    init = lesson.ExecutionInfo.__init__

    def without_root(self, root_module):
        init(self, root_module)
        self.module_forward_order = Forgetful([root_module])

    class Forgetful(list):
        def append(self, module):
            if len(self) == 1 and not hasattr(self, "begun"):
                self.clear()
                self.begun = True
            super().append(module)

    lesson.ExecutionInfo.__init__ = without_root
