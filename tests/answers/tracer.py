"""Answers to ``tracer``.

``Engine`` is a right answer in small steps; each wrong one takes one step wrong.
"""

from __future__ import annotations

import builtins
import contextlib
import contextvars
import copy
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FunctionType
from unittest import mock

import torch
from torch import nn
from torch.fx import Graph, Proxy
from torch.fx import _symbolic_trace as torch_fx
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.proxy import ParameterProxy, Scope, TracerBase

from solutions.tracer import tracing_flag
from tests.suite.answers import right, wrong
from tests.suite.engine import graph_module

ORIGINAL_CALL, ORIGINAL_GETATTR = nn.Module.__call__, nn.Module.__getattr__


class TorchSays:
    """torch's flag that a trace is on, wherever the installed torch has it."""

    @property
    def tracing(self) -> bool:
        return getattr(*tracing_flag(), False)

    @tracing.setter
    def tracing(self, value: bool) -> None:
        setattr(*tracing_flag(), value)


torch_says = TorchSays()


class Engine:
    """A tracer that patches ``nn.Module`` for everybody and finds parameters by a scan."""

    def __init__(
        self, autowrap_modules=(math,), autowrap_functions=(), param_shapes_constant=False
    ):
        super().__init__()
        self.begin()

    def begin(self) -> None:
        """What belongs to a tracer."""
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope: dict[str, tuple] = {}

    def trace(self, root, concrete_args=None) -> Graph:
        is_module = isinstance(root, nn.Module)
        self.root = root if is_module else nn.Module()
        self.graph = self.new_graph()
        function = self.method_of(root) if is_module else root
        function, args = self.create_args_for_root(function, is_module, concrete_args)
        with self.patched_modules():
            self.finish(function, function(*args))
        return self.graph

    def new_graph(self) -> Graph:
        return Graph(tracer_cls=type(self))

    def method_of(self, root: nn.Module) -> Callable:
        return getattr(type(root), self.traced_func_name)

    def finish(self, function: Callable, result: object) -> None:
        annotation = getattr(function, "__annotations__", {}).get("return")
        args = (self.create_arg(result),)
        self.create_node("output", "output", args, {}, type_expr=annotation)

    @contextmanager
    def patched_modules(self) -> Iterator[None]:
        before = nn.Module.__call__, nn.Module.__getattr__, torch_says.tracing
        self.patch()
        try:
            yield
        finally:
            nn.Module.__call__, nn.Module.__getattr__, torch_says.tracing = before

    def patch(self) -> None:
        nn.Module.__call__, nn.Module.__getattr__ = self.recorders()
        torch_says.tracing = True

    def recorders(self) -> tuple[Callable, Callable]:
        """What takes the place of ``nn.Module.__call__`` and of ``__getattr__``."""
        proxies: dict[str, Proxy] = {}

        def call(module, *args, **kwargs):
            return self.call_module(module, self.forward_of(module), args, kwargs)

        def get(module, name):
            return self.getattr(name, ORIGINAL_GETATTR(module, name), proxies)

        return call, get

    def forward_of(self, module: nn.Module) -> Callable:
        return lambda *args, **kwargs: ORIGINAL_CALL(module, *args, **kwargs)

    def is_leaf_module(self, m, module_qualified_name) -> bool:
        return m.__module__.startswith("torch.nn") and not isinstance(m, nn.Sequential)

    def call_module(self, m, forward, args, kwargs):
        path = self.path_of_module(m)
        with self.entered(path, m):
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)

    @contextmanager
    def entered(self, path: str, module: nn.Module) -> Iterator[None]:
        """While a module is called, the scope and the stack say so."""
        key, outer = self.key_of_call(path), self.scope
        self.scope, self.module_stack[key] = Scope(path, type(module)), (path, type(module))
        try:
            yield
        finally:
            self.scope = outer
            del self.module_stack[key]

    def key_of_call(self, path: str) -> str:
        times = self.num_calls.get(path, 0)
        self.num_calls[path] = times + 1
        return f"{path}@{times}" if times else path

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        for path, tensor in self.proxied():
            if tensor is attr_val:
                if path not in parameter_proxy_cache:
                    parameter_proxy_cache[path] = self.create_proxy("get_attr", path, (), {})
                return parameter_proxy_cache[path]
        return attr_val

    def proxied(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors that become proxies on being read."""
        yield from self.root.named_parameters()
        if self.proxy_buffer_attributes:
            yield from self.root.named_buffers()


def engine(lesson, *changes: type) -> type:
    """``Engine`` on the pieces of the lessons before, with ``changes`` in front."""

    class Tracer(
        *changes, Engine, lesson.PathOfModule, lesson.CreateArg, lesson.Placeholders, TracerBase
    ):
        pass

    return Tracer


# --- wrong: what is left behind -----------------------------------------------------------------


@wrong(fails="test_after_an_error_all_is_as_before", says="`nn.Module` is still patched")
def an_error_skips_the_restoring(lesson):
    """There is no ``finally`` around the run."""

    class Change:
        @contextmanager
        def patched_modules(self):
            before = nn.Module.__call__, nn.Module.__getattr__, torch_says.tracing
            self.patch()
            yield
            nn.Module.__call__, nn.Module.__getattr__, torch_says.tracing = before

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_a_module_that_is_not_below_the_root_is_refused",
    says="a trace has ended, in success or by an error, and its patches are still there",
    never="refuses it",
)
def a_stack_of_traces_without_a_finally(lesson):
    """The patches ask the innermost trace; after an error they stay, and so does the trace."""
    traces = []

    class Change:
        @contextmanager
        def patched_modules(self):
            before = nn.Module.__call__, nn.Module.__getattr__, torch_says.tracing
            traces.append(self.recorders())
            nn.Module.__call__ = lambda *args, **kwargs: traces[-1][0](*args, **kwargs)
            nn.Module.__getattr__ = lambda *args: traces[-1][1](*args)
            torch_says.tracing = True
            yield
            traces.pop()
            nn.Module.__call__, nn.Module.__getattr__, torch_says.tracing = before

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_after_an_error_all_is_as_before",
    says="torch's flag stays on after an error",
)
def an_error_leaves_the_flag_on(lesson):
    """The methods are restored in a ``finally``, and the flag behind it."""

    class Change:
        @contextmanager
        def patched_modules(self):
            before, torch_says.tracing = torch_says.tracing, True
            nn.Module.__call__, nn.Module.__getattr__ = self.recorders()
            try:
                yield
            finally:
                nn.Module.__call__, nn.Module.__getattr__ = ORIGINAL_CALL, ORIGINAL_GETATTR
            torch_says.tracing = before

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_a_function_with_a_constant_traced_computes_the_same",
    says="has no attribute '_tensor_constant0'",
)
def the_constants_of_a_function_are_lost(lesson):
    """The result is made of a new empty module, and not of the tracer's root."""

    def symbolic_trace(root, concrete_args=None):
        tracer = lesson.Tracer()
        graph = tracer.trace(root, concrete_args)
        is_module = isinstance(root, nn.Module)
        name = type(root).__name__ if is_module else root.__name__
        return graph_module(root if is_module else nn.Module(), graph, name)

    lesson.symbolic_trace = symbolic_trace


@wrong(fails="test_call_module_needs_no_trace", says="has no attribute 'num_calls'")
def a_method_needs_what_a_trace_makes(lesson):
    """The counts are made in ``trace``; a client that never traces has none."""

    class Change:
        def begin(self):
            super().begin()
            del self.num_calls

        def new_graph(self):
            self.num_calls = {}
            return super().new_graph()

    lesson.Tracer = engine(lesson, Change)


@wrong(fails="test_after_a_trace_modules_are_called_as_before", says="`nn.Module` is still patched")
def one_of_two_patches_is_restored(lesson):
    """``__getattr__`` stays as the trace needed it."""

    class Change:
        @contextmanager
        def patched_modules(self):
            self.patch()
            try:
                yield
            finally:
                nn.Module.__call__, torch_says.tracing = ORIGINAL_CALL, False

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_a_trace_inside_a_trace_leaves_the_outer_one_running",
    says="the inner trace put back the originals",
)
def the_originals_are_restored(lesson):
    """What is put back is what Python began with, not what was there before this trace."""

    class Change:
        @contextmanager
        def patched_modules(self):
            self.patch()
            try:
                yield
            finally:
                nn.Module.__call__, nn.Module.__getattr__ = ORIGINAL_CALL, ORIGINAL_GETATTR
                torch_says.tracing = False

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_after_an_error_all_is_as_before",
    says="the error in forward was swallowed",
)
def errors_are_swallowed(lesson):
    """A trace that fails returns half a graph."""

    class Change:
        @contextmanager
        def patched_modules(self):
            with super().patched_modules(), contextlib.suppress(Exception):
                yield

    lesson.Tracer = engine(lesson, Change)


@wrong(fails="test_two_tracers_share_nothing", says="it hangs on the class")
def the_state_hangs_on_the_class(lesson):
    """A dict in the class body is one dict for all tracers."""

    class Change:
        scopes_of_all_traces: dict[str, tuple] = {}

        def begin(self):
            super().begin()
            self.node_name_to_scope = self.scopes_of_all_traces

    lesson.Tracer = engine(lesson, Change)


@wrong(fails="test_a_trace_after_a_failed_one_starts_clean", says="pop in a `finally`")
def the_state_of_a_failed_trace_stays(lesson):
    """A module is taken off the stack behind its call, where an error never comes."""

    class Tracer(lesson.Tracer):
        def call_module(self, m, forward, args, kwargs):
            try:
                return super().call_module(m, forward, args, kwargs)
            except BaseException:
                path = self.path_of_module(m)
                self.module_stack[path] = (path, type(m))
                raise

    lesson.Tracer = Tracer


@wrong(fails="test_while_it_traces_torch_says_so", says="torch's flag wasn't set")
def torch_is_not_told(lesson):
    """Code that asks whether it is traced is told that it isn't."""

    class Change:
        def patch(self):
            nn.Module.__call__, nn.Module.__getattr__ = self.recorders()

    lesson.Tracer = engine(lesson, Change)


# --- wrong: threads and wrapped functions -------------------------------------------------------


@wrong(
    fails="test_another_thread_runs_its_modules_as_always",
    says="modules of other threads are caught by this trace",
)
def other_threads_are_caught(lesson):
    """There is one ``nn.Module``, and its patch asks nobody who is tracing."""
    lesson.Tracer = engine(lesson)


class AsksItsThread:
    """Sends what other threads do to what was there before."""

    def recorders(self):
        call, get = super().recorders()
        call_before, get_before = nn.Module.__call__, nn.Module.__getattr__
        own = threading.get_ident()

        def call_here(module, *args, **kwargs):
            return (call if threading.get_ident() == own else call_before)(module, *args, **kwargs)

        def get_here(module, name):
            return (get if threading.get_ident() == own else get_before)(module, name)

        return call_here, get_here


@wrong(
    fails="test_traces_that_overlap_leave_nothing_behind",
    says="was restored while another trace was still on",
)
def users_of_the_patch_are_not_counted(lesson):
    """Each trace restores what it found, in whatever order the traces end."""
    lesson.Tracer = engine(lesson, AsksItsThread)


@wrong(fails="test_a_wrapped_function_is_one_node", says="wrapped with `torch.fx.wrap`")
def wrapped_functions_are_traced_through(lesson):
    """What the user wrapped is called with proxies, and stops at its first ``if``."""

    class Tracer(lesson.Tracer):
        def trace(self, root, concrete_args=None):
            with mock.patch.dict(torch_fx._wrapped_fns_to_patch, clear=True):
                return super().trace(root, concrete_args)

    lesson.Tracer = Tracer


@wrong(
    fails="test_a_second_trace_in_another_thread_records_wrapped_functions_too",
    says="a function that must be recorded as it is called ran",
    never="other threads",
)
def nothing_is_wrapped(lesson):
    """``torch.fx.wrap`` isn't provided for at all, in one thread or two."""
    wrapped_functions_are_traced_through.change(lesson)


@wrong(fails="test_functions_of_math_are_recorded", says="a function of `math` was called with a")
def functions_of_math_are_called(lesson):
    """``math.floor`` wants a number and gets a proxy."""

    class Tracer(lesson.Tracer):
        def __init__(self, autowrap_modules=(), autowrap_functions=(), param_shapes_constant=False):
            super().__init__(autowrap_modules, autowrap_functions, param_shapes_constant)

    lesson.Tracer = Tracer


# --- wrong: calls of modules --------------------------------------------------------------------


@wrong(fails="test_a_sequential_is_traced_through", says="`nn.Sequential` was recorded as one call")
def a_sequential_is_a_leaf(lesson):
    """All of ``torch.nn`` is recorded as it is called."""

    class Change:
        def is_leaf_module(self, m, module_qualified_name):
            return m.__module__.startswith("torch.nn")

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_a_class_is_at_home_where_it_was_written",
    says="torchvision begins with `torch` as well",
)
def all_that_begins_with_torch_is_a_leaf(lesson):
    """A whole block of a torchvision model becomes one call."""

    class Tracer(lesson.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return m.__module__.startswith("torch") and not isinstance(m, nn.Sequential)

    lesson.Tracer = Tracer


@wrong(
    fails="test_a_class_of_yours_is_traced_through_even_if_it_derives_from_a_leaf",
    says="recorded as one call, for what it derives from",
)
def a_leaf_is_told_by_isinstance(lesson):
    """A class that derives from a leaf is taken for one."""

    class Change:
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, nn.Linear) or super().is_leaf_module(m, module_qualified_name)

    lesson.Tracer = engine(lesson, Change)


@wrong(fails="test_a_subclass_decides_what_is_a_leaf", says="isn't asked with the path")
def leaves_are_asked_for_by_class_name(lesson):
    """``is_leaf_module`` gets the name of the class instead of the path."""

    class Change:
        def call_module(self, m, forward, args, kwargs):
            path = self.path_of_module(m)
            if self.is_leaf_module(m, m._get_name()):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)

    lesson.Tracer = engine(lesson, Change)


@wrong(fails="test_a_small_model_gives_the_graph_of_torch", says="keyword arguments were dropped")
def keyword_arguments_are_dropped(lesson):
    """A ``call_module`` node with positional arguments only."""

    class Change:
        def call_module(self, m, forward, args, kwargs):
            if self.is_leaf_module(m, self.path_of_module(m)):
                return super().call_module(m, forward, args, {})
            return super().call_module(m, forward, args, kwargs)

    lesson.Tracer = engine(lesson, Change)


@wrong(fails="test_hooks_of_a_module_run_while_it_is_traced_through", says="past its hooks")
def forward_is_called_past_the_hooks(lesson):
    """``module.forward`` is only one part of what a call of a module does."""

    class Change:
        def forward_of(self, module):
            return module.forward

    lesson.Tracer = engine(lesson, Change)


@wrong(fails="test_the_forward_that_call_module_gets_runs_the_module", says="endless recursion")
def forward_asks_the_tracer_again(lesson):
    """Calling the module comes back to the patched ``__call__``."""

    class Change:
        def forward_of(self, module):
            return lambda *args, **kwargs: module(*args, **kwargs)

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_a_small_model_gives_the_graph_of_torch", says="the root's own call is on the stack"
)
def the_root_is_called_as_a_module(lesson):
    """The root is called like its children, and so its call is traced too."""

    class Change:
        def create_args_for_root(self, root_fn, is_module, concrete_args=None):
            function, args = super().create_args_for_root(root_fn, is_module, concrete_args)
            return (lambda root, *inputs: root(*inputs)) if is_module else function, args

    lesson.Tracer = engine(lesson, Change)


@wrong(fails="test_a_module_that_is_not_below_the_root_is_refused", says="called for real")
def a_foreign_module_is_called_for_real(lesson):
    """The refusal of ``path_of_module`` is caught."""

    class Change:
        def call_module(self, m, forward, args, kwargs):
            try:
                return super().call_module(m, forward, args, kwargs)
            except NameError:
                return forward(*args, **kwargs)

    lesson.Tracer = engine(lesson, Change)


@wrong(fails="test_another_method_than_forward_may_be_traced", says="`forward` was traced instead")
def forward_is_always_traced(lesson):
    """``traced_func_name`` is not looked at."""

    class Change:
        def method_of(self, root):
            return type(root).forward

    lesson.Tracer = engine(lesson, Change)


# --- wrong: where a node comes from -------------------------------------------------------------


@wrong(fails="test_the_module_stack_is_written_on_each_node", says="a key of its own, `path@1`")
def a_second_call_has_the_key_of_the_first(lesson):
    """Two calls of one module cannot be told apart."""

    class Change:
        def key_of_call(self, path):
            return path

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_a_small_model_gives_the_graph_of_torch",
    says="calls of one module are told apart by a number, `path@1` for the second",
    never="metadata was not set",
)
def calls_have_no_number(lesson):
    """The same mistake, seen in a whole model."""
    a_second_call_has_the_key_of_the_first.change(lesson)


@wrong(
    fails="test_the_scope_of_each_node_is_kept_by_name",
    says="the scope wasn't put back after a call",
)
def the_scope_is_not_restored(lesson):
    """After a call, nodes are still said to come from the module that was called."""

    class Change:
        @contextmanager
        def entered(self, path, module):
            with super().entered(path, module):
                yield
            self.scope = Scope(path, type(module))

    lesson.Tracer = engine(lesson, Change)


@wrong(fails="test_after_a_trace_the_module_stack_is_empty", says="wasn't taken off after it")
def the_module_stack_only_grows(lesson):
    """Modules are pushed and never popped."""

    class Change:
        @contextmanager
        def entered(self, path, module):
            self.module_stack[self.key_of_call(path)] = (path, type(module))
            yield

    lesson.Tracer = engine(lesson, Change)


# --- wrong: attributes, proxies, output ---------------------------------------------------------


@wrong(
    fails="test_a_parameter_read_twice_is_one_node", says="a read of a parameter made a second node"
)
def every_read_of_a_parameter_is_a_node(lesson):
    """Nothing remembers the proxy of a parameter."""

    class Change:
        def getattr(self, attr, attr_val, parameter_proxy_cache):
            return super().getattr(attr, attr_val, {})

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_a_small_model_gives_the_graph_of_torch",
    says="the graphs differ",
    never="leaf module",
)
def parameters_have_no_cache(lesson):
    """The same mistake, seen in a whole model."""
    every_read_of_a_parameter_is_a_node.change(lesson)


@wrong(fails="test_one_tracer_traces_many_models", says="something of an earlier trace is left")
def proxies_of_parameters_outlive_the_trace(lesson):
    """The tracer hands out the proxy of an earlier trace, whose node is in another graph."""

    class Change:
        def __init__(self):
            super().__init__()
            self.proxies = {}

        def getattr(self, attr, attr_val, parameter_proxy_cache):
            return super().getattr(attr, attr_val, self.proxies)

    lesson.Tracer = engine(lesson, Change)


@wrong(fails="test_a_buffer_is_read_at_its_use", says="buffers became proxies on being read")
def buffers_are_always_proxies(lesson):
    """Buffers are treated like parameters, asked or not."""

    class Change:
        proxy_buffer_attributes = True

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_a_subclass_may_keep_parameters_as_they_are",
    says="attributes don't go through `getattr`",
)
def attributes_bypass_getattr(lesson):
    """The patched ``__getattr__`` decides by itself, so that a subclass cannot."""

    class Change:
        def recorders(self):
            call, _ = super().recorders()
            proxies: dict[str, Proxy] = {}

            def get(module, name):
                return Engine.getattr(self, name, ORIGINAL_GETATTR(module, name), proxies)

            return call, get

    lesson.Tracer = engine(lesson, Change)


@wrong(fails="test_a_subclass_may_iterate_and_decide", says="the proxies belong to another tracer")
def proxies_belong_to_no_tracer(lesson):
    """``Proxy(node)`` without its tracer gets one of torch's own."""

    class Change:
        def proxy(self, node):
            return Proxy(node)

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_a_small_model_gives_the_graph_of_torch", says="a proxy went into the graph as it is"
)
def the_output_is_not_converted(lesson):
    """What the function returns, proxies and tensors, goes into the graph."""

    class Change:
        def finish(self, function, result):
            self.create_node("output", "output", (result,), {})

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_the_annotation_of_the_result_is_on_the_output",
    says="the return annotation wasn't handed to the output node",
)
def the_output_has_no_annotation(lesson):
    """The output node is made without the type of the result."""

    class Change:
        def finish(self, function, result):
            self.create_node("output", "output", (self.create_arg(result),), {})

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_the_graph_knows_its_tracer_class",
    says="made without the class of its tracer",
)
def the_graph_has_no_tracer_class(lesson):
    """``Graph()`` doesn't know who traced it."""

    class Change:
        def new_graph(self):
            return Graph()

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_symbolic_trace_returns_a_graph_module_named_after_the_root",
    says="the result has no name of its own",
)
def the_result_has_no_name_of_its_own(lesson):
    """Every result is a ``GraphModule`` and is printed as one."""

    def symbolic_trace(root, concrete_args=None):
        tracer = lesson.Tracer()
        graph = tracer.trace(root, concrete_args)
        return graph_module(tracer.root, graph)

    lesson.symbolic_trace = symbolic_trace


# --- wrong: what only looks right ---------------------------------------------------------------


@wrong(fails="test_the_work_is_not_left_to_torchs_tracer", says="`torch.fx.Tracer` did the work")
def torchs_tracer_is_inherited(lesson):
    """There is nothing left to write."""

    class Tracer(torch.fx.Tracer):
        pass

    lesson.Tracer = Tracer


@wrong(fails="test_the_work_is_not_left_to_torchs_tracer", says="inherited, borrowed or called")
def torchs_tracer_is_asked(lesson):
    """The class is one's own, and its graph is not."""

    class Change:
        def trace(self, root, concrete_args=None):
            theirs = torch.fx.Tracer()
            self.graph, self.root = theirs.trace(root, concrete_args), theirs.root
            return self.graph

    lesson.Tracer = engine(lesson, Change)


@wrong(fails="test_the_result_has_the_models_own_parameters", says="a copy of the model was traced")
def a_copy_is_traced(lesson):
    """The model is copied first, to be on the safe side: training one doesn't train the other."""

    def symbolic_trace(root, concrete_args=None):
        tracer = lesson.Tracer()
        graph = tracer.trace(copy.deepcopy(root), concrete_args)
        return graph_module(tracer.root, graph, type(root).__name__)

    lesson.symbolic_trace = symbolic_trace


@wrong(fails="test_a_model_is_traced_in_the_mode_that_it_is_in", says="put into another mode")
def the_model_is_put_into_eval_mode(lesson):
    """Dropout is switched off in the model that was given, and in the graph."""

    class Change:
        def method_of(self, root):
            return super().method_of(root.eval())

    lesson.Tracer = engine(lesson, Change)


@wrong(fails="test_a_leaf_may_have_children", says="for it has modules inside")
def a_leaf_has_no_children(lesson):
    """Of torch's modules only those without children are leaves: attention is taken apart."""

    class Change:
        def is_leaf_module(self, m, module_qualified_name):
            return super().is_leaf_module(m, module_qualified_name) and not [*m.children()]

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_a_fused_sequential_of_torch_is_traced_through",
    says="derives from `nn.Sequential`",
)
def a_sequential_is_told_by_its_exact_class(lesson):
    """A class of torch that derives from ``nn.Sequential`` is a leaf."""

    class Change:
        def is_leaf_module(self, m, module_qualified_name):
            homes = ("torch.nn", "torch.ao.nn")
            return m.__module__.startswith(homes) and type(m) is not nn.Sequential

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_a_trace_inside_a_trace_leaves_the_outer_one_running",
    says="put torch's flag down",
)
def the_flag_is_put_down(lesson):
    """After an inner trace, torch is told that nobody traces."""

    class Change:
        @contextmanager
        def patched_modules(self):
            with super().patched_modules():
                yield
            torch_says.tracing = False

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_calls_are_counted_for_the_tracer_and_not_for_the_trace",
    says="each trace began to count anew",
)
def each_trace_counts_anew(lesson):
    """The counts are made at the start of a trace."""

    class Change:
        def new_graph(self):
            self.num_calls = {}
            return super().new_graph()

    lesson.Tracer = engine(lesson, Change)


@wrong(fails="test_parameters_with_equal_numbers_are_told_apart", says="`is`, and not `==`")
def parameters_are_found_by_their_numbers(lesson):
    """Two layers that begin with the same numbers are taken for one."""

    class Change:
        def getattr(self, attr, attr_val, parameter_proxy_cache):
            for _, tensor in self.proxied():
                if isinstance(attr_val, torch.Tensor) and torch.equal(tensor, attr_val):
                    return super().getattr(attr, tensor, parameter_proxy_cache)
            return attr_val

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_a_parameter_of_a_foreign_module_is_read_as_it_is",
    says="NameError: weight isn't below the root",
    never="became a node",
)
def a_foreign_parameter_is_refused(lesson):
    """Whatever isn't found below the root is an error, though only its shape be asked for."""

    class Change:
        def getattr(self, attr, attr_val, parameter_proxy_cache):
            value = super().getattr(attr, attr_val, parameter_proxy_cache)
            if isinstance(value, nn.Parameter):
                raise NameError(f"{attr} isn't below the root")
            return value

    lesson.Tracer = engine(lesson, Change)


@wrong(fails="test_the_shape_of_a_parameter_is_recorded", says="is a number in the graph")
def shapes_of_parameters_are_always_numbers(lesson):
    """Every parameter is a ``ParameterProxy``."""

    class Change:
        def getattr(self, attr, attr_val, parameter_proxy_cache):
            proxy = super().getattr(attr, attr_val, parameter_proxy_cache)
            if isinstance(attr_val, nn.Parameter) and isinstance(proxy, Proxy):
                return ParameterProxy(self, proxy.node, attr, attr_val)
            return proxy

    lesson.Tracer = engine(lesson, Change)


@wrong(
    fails="test_a_function_that_returns_nothing_has_an_output_too",
    says="the output node was left out",
)
def nothing_is_no_output(lesson):
    """Where nothing is returned, there is no output node."""

    class Change:
        def finish(self, function, result):
            if result is not None:
                super().finish(function, result)

    lesson.Tracer = engine(lesson, Change)


# --- right --------------------------------------------------------------------------------------


@wrong(
    fails="test_calls_are_counted_for_the_tracer_and_not_for_the_trace",
    says="each trace began to count anew",
)
def counts_calls_for_each_trace(lesson):
    """Empties ``num_calls`` where a trace begins."""
    trace = lesson.Tracer.trace

    def counting_anew(self, *arguments):
        self.num_calls = {}
        return trace(self, *arguments)

    lesson.Tracer.trace = counting_anew


@wrong(fails="test_each_node_has_a_module_stack_of_its_own", says="all nodes hold one dict")
def hands_out_the_stack_itself(lesson):
    """Makes nodes that see each call that comes after them."""
    create_node = lesson.Tracer.create_node

    def sharing(self, *arguments, **options):
        node = create_node(self, *arguments, **options)
        node.meta["nn_module_stack"] = self.module_stack
        return node

    lesson.Tracer.create_node = sharing


@right(core_only=True)
def small_steps(lesson):
    """A method for each step, a context manager for each state, scans in place of an index."""
    lesson.Tracer = engine(lesson)


class Sequence:
    """Replaces the stack at each call instead of changing it, and keeps no counts but a list."""

    def __init__(self):
        super().__init__()
        self.calls, self.scope, self.module_stack = [], Scope("", None), OrderedDict()
        self.node_name_to_scope = {}

    def trace(self, root, concrete_args=None):
        function, self.root = root, nn.Module()
        if isinstance(root, nn.Module):
            function, self.root = getattr(type(root), self.traced_func_name), root
        self.graph = Graph(tracer_cls=type(self))
        function, args = self.create_args_for_root(function, self.root is root, concrete_args)
        with self.patched_modules():
            result = self.create_arg(function(*args))
        returns = getattr(function, "__annotations__", {}).get("return")
        self.create_node("output", "output", (result,), {}, type_expr=returns)
        return self.graph

    @contextmanager
    def patched_modules(self):
        tracer, proxies = self, {}

        def call(module, *args, **kwargs):
            def forward(*args, **kwargs):
                return ORIGINAL_CALL(module, *args, **kwargs)

            return tracer.call_module(module, forward, args, kwargs)

        def get(module, name):
            return tracer.getattr(name, ORIGINAL_GETATTR(module, name), proxies)

        call_before, get_before = nn.Module.__call__, nn.Module.__getattr__
        flag_before, torch_says.tracing = torch_says.tracing, True
        nn.Module.__call__, nn.Module.__getattr__ = call, get
        try:
            yield
        finally:
            nn.Module.__call__, nn.Module.__getattr__ = call_before, get_before
            torch_says.tracing = flag_before

    def call_module(self, m, forward, args, kwargs):
        path, scope, stack = self.path_of_module(m), self.scope, self.module_stack
        times = self.calls.count(path)
        self.calls.append(path)
        key = f"{path}@{times}" if times else path
        self.scope = Scope(path, type(m))
        self.module_stack = OrderedDict([*stack.items(), (key, (path, type(m)))])
        try:
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)
        finally:
            self.scope, self.module_stack = scope, stack

    def is_leaf_module(self, m, module_qualified_name):
        return not isinstance(m, nn.Sequential) and m.__module__.split(".")[:2] == ["torch", "nn"]

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        named = [*self.root.named_parameters()]
        if self.proxy_buffer_attributes:
            named += self.root.named_buffers()
        path = next((path for path, value in named if value is attr_val), None)
        if path is None:
            return attr_val
        if path not in parameter_proxy_cache:
            parameter_proxy_cache[path] = self.create_proxy("get_attr", path, (), {})
        return parameter_proxy_cache[path]


@right(core_only=True)
def a_stack_that_is_replaced(lesson):
    """Closures; each call has a stack of its own; the calls so far are a list."""

    class Tracer(Sequence, lesson.PathOfModule, lesson.CreateArg, lesson.Placeholders, TracerBase):
        pass

    lesson.Tracer = Tracer


class AnnotationsOfTheRoot:
    """Reads the annotation of the result from what was given, not from what is called."""

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        self.declared = root_fn
        return super().create_args_for_root(root_fn, is_module, concrete_args)

    def finish(self, function, result):
        super().finish(self.declared, result)


@right(core_only=True)
def annotations_of_the_root(lesson):
    """The output is annotated also where torch, which asks a copy, has no annotation."""
    lesson.Tracer = engine(lesson, AnnotationsOfTheRoot)


@dataclass(frozen=True)
class Frame:
    """A module that is being called."""

    key: str
    path: str
    type: type | None


class StackOfFrames:
    """Keeps a list of frames; the scope and the module stack are derived from it."""

    def begin(self):
        self.frames = [Frame("", "", None)]
        self.entries: dict[str, int] = {}
        self.node_name_to_scope = {}

    @property
    def scope(self):
        return Scope(self.frames[-1].path, self.frames[-1].type)

    @property
    def module_stack(self):
        return OrderedDict((frame.key, (frame.path, frame.type)) for frame in self.frames[1:])

    @contextmanager
    def entered(self, path, module):
        times = self.entries.setdefault(path, 0)
        self.entries[path] += 1
        self.frames.append(Frame(f"{path}@{times}" if times else path, path, type(module)))
        try:
            yield
        finally:
            self.frames.pop()


@right(core_only=True)
def a_stack_of_frames(lesson):
    """One list of frames is all the state; ``scope`` and ``module_stack`` are properties."""
    lesson.Tracer = engine(lesson, StackOfFrames)


class OnExitStacks:
    """Says at each change how it is undone, and leaves the undoing to an ``ExitStack``."""

    @contextmanager
    def patched_modules(self):
        call, get = self.recorders()
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(nn.Module, "__call__", call))
            stack.enter_context(mock.patch.object(nn.Module, "__getattr__", get))
            stack.callback(setattr, torch_says, "tracing", torch_says.tracing)
            torch_says.tracing = True
            yield

    def call_module(self, m, forward, args, kwargs):
        path = self.path_of_module(m)
        key = self.key_of_call(path)
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(self, "scope", Scope(path, type(m))))
            self.module_stack[key] = (path, type(m))
            stack.callback(self.module_stack.pop, key)
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)


@right(core_only=True)
def exit_stacks(lesson):
    """``contextlib.ExitStack`` and ``mock.patch.object`` in place of ``try`` and ``finally``."""
    lesson.Tracer = engine(lesson, OnExitStacks)


# The traces that are on in this thread, with the proxies of each; a new thread has none.
TRACES: contextvars.ContextVar[tuple] = contextvars.ContextVar("traces", default=())


class Undoing(torch_fx._Patcher):
    """torch's patcher, which also comes to an end where a name is gone."""

    def __enter__(self):
        self.outer, torch_fx.CURRENT_PATCHER = torch_fx.CURRENT_PATCHER, self
        return self

    def __exit__(self, *_):
        torch_fx.CURRENT_PATCHER = self.outer
        while self.patches_made:
            with contextlib.suppress(KeyError):
                self.patches_made.pop().revert()


class SharedPatch:
    """One patch for all traces, by torch's own patcher: made by the first, undone by the last."""

    lock, users, patcher, flag = threading.RLock(), 0, None, False

    @classmethod
    def enter(cls, tracer, namespace):
        with cls.lock:
            if not cls.users:
                cls.patcher = Undoing().__enter__()
                cls.patcher.patch_method(nn.Module, "__call__", cls.call)
                cls.patcher.patch_method(nn.Module, "__getattr__", cls.get)
                cls.patch_wrapped()
                cls.flag, torch_says.tracing = torch_says.tracing, True
            cls.users += 1
            for each in (namespace, *map(vars, tracer.modules_to_wrap)):
                torch_fx._autowrap_check(cls.patcher, each, tracer.ids_to_wrap)

    @classmethod
    def patch_wrapped(cls):
        wrapped = torch_fx._wrapped_fns_to_patch
        known = {
            (key, name): namespace
            for (key, name), namespace in wrapped.items()
            if name in namespace or hasattr(builtins, name)
        }
        with mock.patch.object(torch_fx, "_wrapped_fns_to_patch", known):
            torch_fx._patch_wrapped_functions(cls.patcher)

    @classmethod
    def leave(cls):
        with cls.lock:
            cls.users -= 1
            if not cls.users:
                torch_says.tracing = cls.flag
                cls.patcher.__exit__(None, None, None)

    @staticmethod
    def call(module, *args, **kwargs):
        if not TRACES.get():
            return ORIGINAL_CALL(module, *args, **kwargs)
        tracer, _ = TRACES.get()[-1]
        namespace = getattr(type(module).forward, "__globals__", {})
        torch_fx._autowrap_check(SharedPatch.patcher, namespace, tracer.ids_to_wrap)
        return tracer.call_module(module, tracer.forward_of(module), args, kwargs)

    @staticmethod
    def get(module, name):
        value = ORIGINAL_GETATTR(module, name)
        if not TRACES.get():
            return value
        tracer, proxies = TRACES.get()[-1]
        return tracer.getattr(name, value, proxies)


FUNCTIONS_OF_MATH = frozenset(
    id(value) for name, value in vars(math).items() if callable(value) and name[0] != "_"
)


class Complete:
    """Does all of the stretch: a context variable, torch's patcher, a table made in each trace."""

    def __init__(
        self, autowrap_modules=(math,), autowrap_functions=(), param_shapes_constant=False
    ):
        super().__init__()
        self.modules_to_wrap, self.constant_shapes = autowrap_modules, param_shapes_constant
        public = (
            value
            for module in autowrap_modules
            if module is not math
            for name, value in vars(module).items()
            if callable(value) and name[0] != "_"
        )
        self.ids_to_wrap = {*FUNCTIONS_OF_MATH, *map(id, (*public, *autowrap_functions))}
        self.root_module_name, self.submodule_paths = "", None

    def begin(self):
        super().begin()
        self.leaves, self.paths = {}, {}

    def new_graph(self):
        self.leaves, self.paths = {}, {}
        return super().new_graph()

    def method_of(self, root):
        self.root_module_name = type(root).__name__
        _LazyGraphModule.force_recompile(root)
        return super().method_of(root)

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        if not isinstance(root_fn, FunctionType):
            raise TypeError(f"a {type(root_fn).__name__} can't be traced")
        self.namespace_to_wrap, code = root_fn.__globals__, root_fn.__code__
        fields = ("co_name", "co_filename", "co_firstlineno")
        self.graph._co_fields = {field: getattr(code, field) for field in fields}
        return super().create_args_for_root(root_fn, is_module, concrete_args)

    @contextmanager
    def patched_modules(self):
        before = self.num_calls.copy(), self.node_name_to_scope.copy()
        SharedPatch.enter(self, getattr(self, "namespace_to_wrap", {}))
        token = TRACES.set((*TRACES.get(), (self, {})))
        try:
            yield
        except BaseException as error:
            self.num_calls, self.node_name_to_scope = before
            if type(error) is RuntimeError and "data-dependent" in str(error):
                error.partial_fx_graph = self.graph.python_code("self", verbose=True).src
            raise
        finally:
            TRACES.reset(token)
            SharedPatch.leave()

    def is_leaf_module(self, m, module_qualified_name):
        homes = ("torch.nn", "torch.ao.nn")
        return m.__module__.startswith(homes) and not isinstance(m, nn.Sequential)

    def call_module(self, m, forward, args, kwargs):
        path = self.path_of_module(m)
        if self.leaves.setdefault(path, m) is not m:
            raise NameError(f"{path} was another module before")
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        if not isinstance(attr_val, torch.Tensor):
            return attr_val
        if id(attr_val) not in self.paths:
            self.paths = {id(tensor): path for path, tensor in reversed([*self.proxied()])}
        path = self.paths.get(id(attr_val))
        if path is None:
            return attr_val
        if path not in parameter_proxy_cache:
            proxy = self.create_proxy("get_attr", path, (), {})
            if self.constant_shapes and isinstance(attr_val, nn.Parameter):
                proxy = ParameterProxy(self, proxy.node, path, attr_val)
            parameter_proxy_cache[path] = proxy
        return parameter_proxy_cache[path]

    def proxied(self):
        tables = ("_parameters", "_buffers")[: 1 + self.proxy_buffer_attributes]
        for table in tables:
            for path, module in self.modules_below("", self.root):
                for name, tensor in vars(module)[table].items():
                    yield f"{path}{name}", tensor

    def modules_below(self, path, module):
        yield path, module
        for name, child in module._modules.items():
            if child is not None:
                yield from self.modules_below(f"{path}{name}.", child)

    def __deepcopy__(self, memo):
        twin = memo[id(self)] = type(self)()
        for name, value in vars(self).items():
            setattr(twin, name, value if "wrap" in name else copy.deepcopy(value, memo))
        return twin


@right
def everything_with_torchs_patcher(lesson):
    """All of the stretch, in another shape: no counted table, no objects for what is patched."""
    lesson.Tracer = engine(lesson, Complete)
