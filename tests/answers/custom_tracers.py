"""Answers to ``custom_tracers``."""

from __future__ import annotations

from contextlib import ExitStack

import torch

from tests.suite.answers import around, on, right, wrong


@wrong("test_two_tracers_share_nothing", says="the dictionary belongs to the class")
def the_dictionary_belongs_to_the_class(lesson):
    """Writes the mapping into a dictionary in the class body, as the well-known example does."""

    @on(lesson)
    class ModulePathTracer(lesson.ModulePathTracer):
        shared: dict = {}

        def __init__(self, **options):
            super().__init__(**options)
            self.node_to_originating_module = self.shared


@wrong("test_a_model_that_catches_an_error_keeps_its_paths", says="restore it in a `finally`")
def forgets_finally(lesson):
    """Puts the caller's path back only if the call succeeds."""

    @around(lesson.ModulePathTracer)
    def call_module(original, self, m, forward, args, kwargs):
        try:
            return original(self, m, forward, args, kwargs)
        except Exception:
            self.current_module_qualified_name = self.path_of_module(m)
            raise


@wrong(
    "test_an_operation_after_a_call_belongs_to_the_caller_again", says="the root's path is restored"
)
def puts_the_roots_path_back(lesson):
    """After a call it sets the empty path, not the caller's."""

    @around(lesson.ModulePathTracer)
    def call_module(original, self, m, forward, args, kwargs):
        result = original(self, m, forward, args, kwargs)
        self.current_module_qualified_name = ""
        return result


@wrong(
    "test_inputs_and_parameters_have_a_path_and_the_output_has_no_entry",
    says="record it where proxies are created",
)
def notes_every_node(lesson):
    """Notes the path in ``create_node``, so that the output has one."""

    @around(lesson.ModulePathTracer)
    def create_node(original, self, *args, **kwargs):
        node = original(self, *args, **kwargs)
        self.node_to_originating_module[node] = self.current_module_qualified_name
        return node


@wrong("test_options_of_a_plain_tracer_work", says="doesn't pass on the options it gets")
def drops_options(lesson):
    """Takes options, and passes none to its base class."""

    @around(lesson.ModulePathTracer)
    def __init__(original, self, **options):
        original(self)


@wrong(
    "test_subclasses_of_relu_are_traced_through_too",
    says="`isinstance` is also true for subclasses",
)
def compares_types(lesson):
    """Compares the type itself."""

    @on(lesson)
    class LowerReluTracer(lesson.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            if type(m) is torch.nn.ReLU:
                return False
            return super().is_leaf_module(m, module_qualified_name)


@wrong("test_other_modules_are_recorded_as_usual", says="ask `super().is_leaf_module`")
def answers_for_all_modules(lesson):
    """Says that every module but a ReLU is a leaf."""

    @on(lesson.LowerReluTracer)
    def is_leaf_module(self, m, module_qualified_name):
        return not isinstance(m, torch.nn.ReLU)


@wrong(
    "test_every_node_has_the_tag_and_nothing_else_is_changed",
    says="annotation was not carried over",
)
def drops_the_annotation(lesson):
    """Forgets the last argument, as the well-known example does."""

    @around(lesson.TaggingTracer)
    def create_node(original, self, kind, target, args, kwargs, name=None, type_expr=None):
        return original(self, kind, target, args, kwargs, name)


@wrong(
    "test_every_node_has_the_tag_and_nothing_else_is_changed",
    says="every node passes through `create_node`",
)
def tags_proxies_only(lesson):
    """Puts the tag on in ``create_proxy``: the output and constants go without."""

    @on(lesson)
    class TaggingTracer(lesson.Tracer):
        def __init__(self, tag="foo", **options):
            super().__init__(**options)
            self.tag = tag

        def create_proxy(self, *args, **kwargs):
            proxy = super().create_proxy(*args, **kwargs)
            proxy.node.tag = self.tag
            return proxy


@wrong(
    "test_an_operation_after_a_call_belongs_to_the_caller_again",
    says="the keys of the table are the nodes' names",
)
def keys_by_name(lesson):
    """Notes the path under the node's name, where the node itself is asked for."""

    @around(lesson.ModulePathTracer)
    def create_proxy(original, self, *args, **kwargs):
        proxy = original(self, *args, **kwargs)
        path = self.node_to_originating_module.pop(proxy.node)
        self.node_to_originating_module[proxy.node.name] = path
        return proxy


@wrong(
    "test_a_shared_module_has_its_first_name_at_each_call",
    says="`0@1` is a key of the module stack",
)
def the_path_is_the_key_of_the_stack(lesson):
    """Takes the innermost key of the module stack, where a second call has a number."""

    @on(lesson)
    class ModulePathTracer(lesson.ModulePathTracer):
        current_module_qualified_name = property(
            lambda self: next(reversed(self.module_stack), ""), lambda self, path: None
        )


@wrong(
    "test_an_operation_after_a_call_belongs_to_the_caller_again",
    says="the node of a leaf has the path of its caller",
    never="the callee's path is still there",
)
def a_leaf_belongs_to_its_caller(lesson):
    """Changes the path where a module's operations are recorded, and a leaf has none."""

    @around(lesson.ModulePathTracer)
    def call_module(original, self, m, forward, args, kwargs):
        if not self.is_leaf_module(m, self.path_of_module(m)):
            return original(self, m, forward, args, kwargs)
        return lesson.Tracer.call_module(self, m, forward, args, kwargs)


@right(core_only=True)
def restores_in_a_context_manager(lesson):
    """Keeps a stack of paths, popped by an ``ExitStack``."""

    @on(lesson)
    class ModulePathTracer(lesson.Tracer):
        def __init__(self):
            super().__init__()
            self.stack = [""]
            self.node_to_originating_module = {}

        current_module_qualified_name = property(lambda self: self.stack[-1])

        def call_module(self, m, forward, args, kwargs):
            with ExitStack() as undo:
                self.stack.append(self.path_of_module(m))
                undo.callback(self.stack.pop)
                return super().call_module(m, forward, args, kwargs)

        def create_proxy(self, *args, **kwargs):
            proxy = super().create_proxy(*args, **kwargs)
            self.node_to_originating_module[proxy.node] = self.stack[-1]
            return proxy


@right
def lowers_by_a_table(lesson):
    """Decides by the classes in the module's method resolution order."""

    class LowerReluTracer(lesson.Tracer):
        lowered = frozenset({torch.nn.ReLU})

        def is_leaf_module(self, m, module_qualified_name):
            is_leaf = super().is_leaf_module(m, module_qualified_name)
            return is_leaf and self.lowered.isdisjoint(type(m).__mro__)

    lesson.LowerReluTracer = LowerReluTracer


@right
def tags_after_the_trace(lesson):
    """Walks the finished graph: every node of it is there."""

    @on(lesson)
    class TaggingTracer(lesson.Tracer):
        def __init__(self, tag="foo", **options):
            super().__init__(**options)
            self.tag = tag

        def trace(self, *args, **kwargs):
            graph = super().trace(*args, **kwargs)
            for node in graph.nodes:
                node.tag = node.meta["tag"] = self.tag
            return graph
