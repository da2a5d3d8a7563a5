"""An exception at any call into user code leaves everything as it was, and the next run is right.

A tracer calls back all the time: forwards, hooks, overridden methods, wrapped functions. The
functions of this file are that user code. Each test first lets the first of these calls fail, then
the second, and so on, until a run goes through without any failure left to come.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from math import floor
from threading import Event

import pytest
import torch
from torch import nn
from torch.fx import Graph, GraphModule
from torch.fx import _symbolic_trace as torch_fx

from solutions.stretch.exec_order import ExecOrderTracer
from solutions.stretch.inlining import inline_all, inline_module
from solutions.stretch.tracer import Tracer
from solutions.tracer import tracing_flag
from tests.suite import rows, same_graph
from tests.suite.faults import fail_at_each_call

ERRORS = [ValueError, KeyboardInterrupt]
# Every call takes a while: a quick run leaves most of them out.
AT_EACH_CALL = pytest.mark.parametrize(
    ("error", "step"),
    [
        pytest.param(KeyboardInterrupt, 13, id="some"),
        pytest.param(ValueError, 1, id="ValueError", marks=pytest.mark.slow),
        pytest.param(KeyboardInterrupt, 1, id="KeyboardInterrupt", marks=pytest.mark.slow),
    ],
)
META = ("nn_module_stack",)


def world() -> dict[str, object]:
    """Return what traces patch: methods of modules, torch's flags, functions, also of ``math``."""
    return {
        "call": nn.Module.__call__,
        "getattr": nn.Module.__getattr__,
        "flag": getattr(*tracing_flag(), False),
        "patcher": torch_fx.CURRENT_PATCHER,
        "globals": {name: value for name, value in globals().items() if callable(value)},
        "math": dict(vars(math)),
    }


# --- user code ------------------------------------------------------------------------------------


@torch.fx.wrap
def wrapped(x, scale):
    return x * scale


torch.fx.wrap("len")


def autowrapped(x):
    return x + 1


# While a trace is on, the name means something else, also in other threads.
AUTOWRAPPED = (autowrapped,)


class Text(torch.Tensor):
    """A tensor with a ``__torch_function__`` of its own."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


class Converted:
    """A value that says itself what it is in a graph."""

    def __fx_create_arg__(self, tracer):
        return tracer.create_arg((1, 2))


class Built(metaclass=torch.fx.ProxyableClassMeta):
    def __init__(self, low, high):
        self.low, self.high = low, high

    def width(self):
        return self.high - self.low


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("offset", torch.ones(2))

    @property
    def scale(self):
        return self.weight * 2

    def forward(self, x, *, flip=False):
        x = self.linear(x) * self.scale + self.offset
        return -x if flip else x


class Equal(Inner):
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return 1


def hook(module, args, output):
    return output + 1


def pre_hook(module, args):
    return args


class Model(nn.Module):
    """Calls everything that a tracer may call back."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Equal()
        self.layers = nn.Sequential(Inner(), nn.Sequential(nn.ReLU(), self.inner))
        self.layers[0].register_forward_hook(hook)
        self.inner.register_forward_pre_hook(pre_hook)
        self.constant = torch.ones(2)
        self.text = torch.ones(2).as_subclass(Text)

    def __getattr__(self, name):
        return super().__getattr__(name)

    def forward(self, x, scale=2.0):
        x = self.layers(self.inner(x, flip=True)) + self.constant
        x = wrapped(x, scale) + wrapped(torch.ones(2), 3) + len(x) + floor(x.sum())
        x = autowrapped(x) * self.text.exp() + Built(x, Built(1, 2).width()).width()
        return wrapped([x, x.exp()], Converted()), {"nested": [x]}


class Watching(Tracer):
    """Overrides each hook of the tracer."""

    def call_module(self, m, forward, args, kwargs):
        return super().call_module(m, forward, args, kwargs)

    def is_leaf_module(self, m, module_qualified_name):
        return super().is_leaf_module(m, module_qualified_name)

    def path_of_module(self, mod):
        return super().path_of_module(mod)

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        return super().create_args_for_root(root_fn, is_module, concrete_args)

    def create_arg(self, a):
        return super().create_arg(a)

    def create_proxy(self, *args, **kwargs):
        return super().create_proxy(*args, **kwargs)

    def create_node(self, *args, **kwargs):
        return super().create_node(*args, **kwargs)

    def proxy(self, node):
        return super().proxy(node)


HOOKS = {name for name, value in vars(Watching).items() if callable(value)}


def state_of(tracer: Tracer) -> tuple:
    """Return what a tracer knows between two traces."""
    return (
        list(tracer.module_stack),
        tracer.scope.module_path,
        dict(tracer.num_calls),
        dict(tracer.node_name_to_scope),
    )


def traced_by(tracer_class: type) -> Graph:
    return tracer_class(autowrap_functions=AUTOWRAPPED).trace(Model())


# --- the tracer -----------------------------------------------------------------------------------


@AT_EACH_CALL
def test_a_failure_leaves_the_world_and_the_tracer_as_they_were(error, step):
    before, expected = world(), traced_by(Tracer)
    tracer, model = Watching(autowrap_functions=AUTOWRAPPED), Model()
    expected_state = state_of(tracer)

    def check():
        assert world() == before
        assert state_of(tracer) == expected_state
        same_graph(tracer.trace(model), expected, meta=META)
        tracer.num_calls, tracer.node_name_to_scope = {}, {}

    called = fail_at_each_call(lambda: tracer.trace(model), error, check, step)
    reached = {name.rpartition(".")[2] for name in called}
    assert {"forward", "hook", "pre_hook", "wrapped", "scale", "__getattr__"} <= reached
    assert HOOKS | {"__torch_function__", "__fx_create_arg__", "__init__"} <= reached


@AT_EACH_CALL
def test_failures_in_one_thread_leave_the_traces_of_another_alone(error, step):
    before, expected, done = world(), traced_by(Tracer), Event()

    def trace_until_done() -> list[Graph]:
        graphs = [traced_by(Tracer)]
        while not done.is_set() and len(graphs) < 200:
            graphs.append(traced_by(Tracer))
        return graphs

    with ThreadPoolExecutor(max_workers=1) as executor:
        other = executor.submit(trace_until_done)
        try:
            fail_at_each_call(lambda: traced_by(Watching), error, lambda: None, step)
        finally:
            done.set()
        graphs = other.result()
    assert world() == before
    for graph in graphs:
        same_graph(graph, expected, meta=META)


@AT_EACH_CALL
def test_failures_of_an_inner_trace_leave_the_outer_one_on(error, step):
    class Nesting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.relu = nn.ReLU()

        def forward(self, x):
            fail_at_each_call(lambda: traced_by(Watching), error, lambda: None, step)
            return self.relu(x)

    before = world()
    graph = Tracer().trace(Nesting())
    assert world() == before
    assert [node.target for node in graph.nodes] == ["x", "relu", "output"]


# --- the other lessons ----------------------------------------------------------------------------


@AT_EACH_CALL
def test_a_failure_gives_the_watched_tracer_its_methods_back(error, step):
    before, model = world(), Model()
    tracer = Watching(autowrap_functions=AUTOWRAPPED)

    def watched() -> None:
        with ExecOrderTracer().patch_tracer(tracer, model):
            tracer.trace(model)

    def check():
        assert not {"call_module", "create_proxy"} & vars(tracer).keys()
        assert world() == before

    fail_at_each_call(watched, error, check, step)


class InnerAsLeaf(Tracer):
    def is_leaf_module(self, m, module_qualified_name):
        return isinstance(m, Inner) or super().is_leaf_module(m, module_qualified_name)


@pytest.mark.parametrize("error", ERRORS, ids=lambda each: each.__name__)
@pytest.mark.parametrize(
    "inline", [inline_all, lambda gm: inline_module(gm, "0")], ids=["all", "one"]
)
def test_a_failure_while_inlining_leaves_the_graph_as_it_was(inline, error):
    before, model = world(), nn.Sequential(Inner(), nn.BatchNorm1d(2), nn.ReLU())
    gm = GraphModule(model, InnerAsLeaf().trace(model))
    graph, code = rows(gm.graph), gm.code

    def check():
        assert rows(gm.graph) == graph
        assert gm.code == code
        assert world() == before
        assert "_check_input_dim" not in vars(model[1])

    fail_at_each_call(lambda: inline(gm), error, check)
    assert rows(gm.graph) != graph
