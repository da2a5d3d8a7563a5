"""``tracer``: your pieces as an engine, beside ``torch.fx.Tracer`` on the same models."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import math
import operator
import pickle
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from inspect import getattr_static
from math import sqrt
from pathlib import Path
from threading import Event
from types import ModuleType

import pytest
import torch
from torch import nn
from torch.fx import Graph, GraphModule, Proxy
from torch.fx.proxy import TraceError
from torch.nn import functional as F

from tests import random_models, zoo
from tests.suite import (
    equal,
    growth,
    holds,
    noting,
    refuses,
    rows,
    same_graph,
    same_numbers,
)
from tests.suite.versions import that_run

META = ("nn_module_stack",)
LINEAR = 2.5
ORIGINAL_CALL, ORIGINAL_GETATTR = nn.Module.__call__, nn.Module.__getattr__


def same_trace(lesson, build: Callable[[], object], cause: str = "", hint: str = "", **options):
    """Fail unless the lesson's graph of a fresh model is torch's, metadata included."""
    with noting(cause=cause, hint=hint) if cause else contextlib.nullcontext():
        actual = lesson.Tracer(**options).trace(build())
    expected = torch.fx.Tracer(**options).trace(build())
    same_graph(actual, expected, meta=META, cause=cause, hint=hint)


def traced(lesson, root: nn.Module | Callable) -> GraphModule:
    return lesson.symbolic_trace(root)


def graph_or_refusal(tracer: torch.fx.Tracer, function: Callable) -> Graph | TraceError:
    """The graph, or the refusal that came instead: a comparison tells the cause of that too."""
    try:
        return tracer.trace(function)
    except TraceError as error:
        return error


def call_targets(graph: Graph) -> list[object]:
    return [node.target for node in graph.nodes if node.op.startswith("call")]


def restored() -> bool:
    return nn.Module.__call__ is ORIGINAL_CALL and nn.Module.__getattr__ is ORIGINAL_GETATTR


RESTORE = "`nn.Module` is still patched: the restoring was forgotten, or an error skipped it"
RESTORE_HINT = "patch in a context manager and restore in its `finally`"


# --- the same graph as torch --------------------------------------------------------------------


@pytest.mark.parametrize("name", zoo.SMALL)
def test_a_small_model_gives_the_graph_of_torch(lesson, name):
    same_trace(lesson, lambda: zoo.SMALL[name]().model)


@pytest.mark.parametrize("name", that_run(zoo.SMALL))
def test_a_small_model_traced_computes_the_same(lesson, name):
    specimen = zoo.SMALL[name]()
    same_numbers(
        traced(lesson, specimen.model)(*specimen.inputs, **specimen.kwargs),
        zoo.SMALL[name]().eager(),
        cause="the graph leaves out, doubles or reorders what the model does",
        hint="print the generated code: `print(symbolic_trace(model).code)`",
    )


@pytest.mark.stretch
@pytest.mark.parametrize("seed", range(40))
def test_a_random_module_tree_gives_the_graph_of_torch(lesson, seed):
    same_trace(lesson, lambda: zoo.grown(seed).model)


@pytest.mark.stretch
@pytest.mark.parametrize("seed", random_models.SEEDS)
def test_a_random_tree_with_ties_and_containers_gives_the_graph_of_torch(lesson, seed):
    same_trace(lesson, lambda: random_models.tree(seed).model)


def test_a_function_is_traced(lesson):
    def function(x, y=2):
        return torch.relu(x) * y + 1

    same_trace(
        lesson,
        lambda: function,
        cause="only modules were provided for",
        hint="for a function the root is an empty `nn.Module()`, and there is no self",
    )


def test_a_function_keeps_its_constants_on_an_empty_root(lesson):
    tracer, constant = lesson.Tracer(), torch.rand(2)
    tracer.trace(lambda x: x + constant)
    holds(
        isinstance(tracer.root, nn.Module) and tracer.root._tensor_constant0 is constant,
        "the constant on `tracer.root`, an empty module",
        cause="the root wasn't set, or the constant went elsewhere",
        hint="`self.root = nn.Module()` where the root is a function",
    )


def test_retracing_a_graph_module_gives_the_same_graph(lesson):
    first = traced(lesson, zoo.SMALL["EveryOpcode"]().model)
    same_graph(
        lesson.Tracer().trace(first),
        torch.fx.Tracer().trace(first),
        meta=META,
        cause="generated code is traced like any other `forward`: something was special-cased",
        hint="take `forward` from `type(root)`",
    )


@pytest.mark.stretch
def test_a_graph_module_that_is_compiled_late_is_traced(lesson):
    with torch.fx._lazy_graph_module._use_lazy_graph_module(True):
        late = torch.fx.symbolic_trace(zoo.SMALL["EveryOpcode"]().model)
    same_trace(
        lesson,
        lambda: late,
        cause="its `forward` is only a promise, until the code is generated",
        hint="`torch.fx._lazy_graph_module._LazyGraphModule.force_recompile(root)`",
    )


@pytest.mark.stretch
def test_generated_code_says_where_its_function_was_written(lesson):
    filename = traced(lesson, named_relu).forward.__code__.co_filename
    line = named_relu.__code__.co_firstlineno
    holds(
        filename.endswith(f"from {__file__}:{line} in named_relu"),
        "a file name that ends in the function's own file, line and name",
        got=filename,
        cause="the graph doesn't know what it was traced from",
        hint="torch notes it in `graph._co_fields`",
    )


def test_the_graph_knows_its_tracer_class(lesson):
    equal(
        lesson.Tracer().trace(nn.ReLU())._tracer_cls,
        lesson.Tracer,
        cause="the graph was made without the class of its tracer",
        hint="`Graph(tracer_cls=type(self))`: a copied graph is retraced by the same class",
    )


def test_symbolic_trace_returns_a_graph_module_named_after_the_root(lesson):
    class Encoder(nn.Module):
        def forward(self, x):
            return x

    equal(
        [type(traced(lesson, Encoder())).__name__, type(traced(lesson, named)).__name__],
        ["Encoder", "named"],
        cause="the class of the result wasn't named after the model or function",
        hint="`GraphModule(root, graph, class_name)`",
    )


def named(x):
    return x


ENGINE = ("trace", "is_leaf_module", "call_module", "getattr")


def test_the_work_is_not_left_to_torchs_tracer(lesson, monkeypatch, request):
    if request.config.getoption("--impl") == "torch":
        pytest.skip("torch's own tracer is what the others are told from")
    theirs = vars(torch.fx.Tracer).copy()
    used = [name for name in ENGINE if getattr_static(lesson.Tracer, name) is theirs[name]]
    monkeypatch.setattr(
        torch.fx.Tracer, "trace", lambda *args: used.append("trace") or theirs["trace"](*args)
    )
    lesson.symbolic_trace(zoo.SMALL["LeafCalls"]().model)
    equal(
        used,
        [],
        cause="these methods of `torch.fx.Tracer` did the work: inherited, borrowed or called",
        hint="derive from `TracerBase`, and write the methods of the stub yourself",
    )


def test_the_result_has_the_models_own_parameters(lesson):
    model = zoo.SMALL["LeafCalls"]().model
    holds(
        traced(lesson, model).linear.weight is model.linear.weight,
        "the very parameters of the model, so that training one trains the other",
        cause="a copy of the model was traced",
        hint="`GraphModule(tracer.root, graph, name)` takes over what the graph refers to",
    )


# --- what is recorded ---------------------------------------------------------------------------


def test_a_module_of_torch_is_a_leaf(lesson):
    equal(
        call_targets(lesson.Tracer().trace(zoo.SMALL["LeafCalls"]().model)),
        ["linear", "relu"],
        cause="modules of torch.nn were traced through, or their paths differ",
        hint="`is_leaf_module` says yes to what lives in torch.nn, except containers that run code",
    )


def test_a_sequential_is_no_leaf(lesson):
    equal(
        call_targets(lesson.Tracer().trace(nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh())))),
        ["0", "1.0"],
        cause="`nn.Sequential` was recorded as one call",
        hint="it lives in torch.nn too, but it only calls others: trace through it",
    )


def test_a_class_of_yours_is_traced_through_even_if_it_derives_from_a_leaf(lesson):
    class OwnLinear(nn.Linear):
        def forward(self, x):
            return super().forward(x).relu()

    same_trace(
        lesson,
        lambda: nn.Sequential(OwnLinear(2, 2)),
        cause="leaves were told by `isinstance`, or by having no children, instead of by where "
        "the class was written",
        hint="look at `type(m).__module__`",
    )


def is_leaf(lesson, home: str) -> bool:
    """Whether a module is a leaf whose class was written in the Python module ``home``."""
    module = type("Module", (nn.Module,), {"__module__": home})()
    return bool(lesson.Tracer().is_leaf_module(module, "module"))


def test_a_class_is_at_home_where_it_was_written(lesson):
    homes = ["torch.nn.modules.linear", "torchvision.models.resnet", "my.torch.nn"]
    equal(
        [is_leaf(lesson, home) for home in homes],
        [True, False, False],
        cause="too much counts as torch.nn: torchvision begins with `torch` as well",
        hint="the name of the class's module begins with `torch.nn`",
    )


def test_a_leaf_may_have_children(lesson):
    same_trace(
        lesson,
        lambda: nn.Sequential(nn.TransformerEncoderLayer(4, 2)),
        cause="a module of torch.nn was traced through, for it has modules inside",
        hint="where the class was written decides, and not what is in the module",
    )


@pytest.mark.stretch
def test_a_fused_sequential_of_torch_is_traced_through(lesson):
    fused = torch.ao.nn.intrinsic.ConvReLU2d(nn.Conv2d(1, 1, 1), nn.ReLU())
    equal(
        lesson.Tracer().is_leaf_module(fused, "fused"),
        False,
        cause="a class of torch.ao.nn that derives from `nn.Sequential` was taken for a leaf",
        hint="`isinstance(m, nn.Sequential)`",
    )


@pytest.mark.stretch
def test_a_quantized_module_of_torch_is_a_leaf(lesson):
    equal(
        is_leaf(lesson, "torch.ao.nn.quantized.modules.linear"),
        True,
        cause="torch.ao.nn is a second home of torch's modules",
        hint="`str.startswith` takes a tuple",
    )


class DependsOnItsMode(nn.Module):
    def forward(self, x):
        x = F.dropout(x, training=self.training)
        return x * 2 if torch.is_grad_enabled() else x


@pytest.mark.parametrize("training", [True, False])
def test_a_model_is_traced_in_the_mode_that_it_is_in(lesson, training):
    same_trace(
        lesson,
        lambda: DependsOnItsMode().train(training),
        cause="the model was put into another mode, or gradients were switched off",
        hint="change nothing on the model: `training` is as the caller has set it",
    )


def test_a_parameter_read_twice_is_one_node(lesson):
    model = zoo.SMALL["ParametersWithoutForward"]().model
    reads = [n.target for n in lesson.Tracer().trace(model).nodes if n.op == "get_attr"]
    equal(
        len(reads),
        len(set(reads)),
        cause="every read of a parameter made a node of its own",
        hint="keep the proxy of each parameter for the length of one trace",
    )


class Twins(nn.Module):
    """Two parameters with the same numbers."""

    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.ones(2))
        self.second = nn.Parameter(torch.ones(2))

    def forward(self, x):
        return x * self.first + self.second


def test_parameters_with_equal_numbers_are_told_apart(lesson):
    same_trace(
        lesson,
        Twins,
        cause="a parameter was looked up by its numbers, and another one was found",
        hint="`is`, and not `==`",
    )


class ReadsAShape(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3, 2))

    def forward(self, x):
        return x.reshape(self.weight.shape[0], -1)


def test_the_shape_of_a_parameter_is_recorded(lesson):
    same_trace(
        lesson,
        ReadsAShape,
        cause="the shape was read off the parameter, and is a number in the graph",
        hint="a parameter is an ordinary proxy, unless `param_shapes_constant` asks for more",
    )


class HidesALayer(nn.Module):
    """Has a layer of which ``nn.Module`` doesn't know."""

    def __init__(self):
        super().__init__()
        self.hidden = [nn.Linear(3, 2)]

    def forward(self, x):
        return x * self.hidden[0].weight.shape[0]


def test_a_parameter_of_a_foreign_module_is_read_as_it_is(lesson):
    same_trace(
        lesson,
        HidesALayer,
        cause="a parameter that has no path below the root became a node, or was refused",
        hint="where no path is found, `getattr` returns the value as it is",
    )


class ComputesWithABuffer(nn.Module):
    """Does something to a buffer before a proxy meets it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.rand(2))

    def forward(self, x):
        return (self.mean.sum() + x, self.mean)


def test_a_buffer_is_read_at_its_use(lesson):
    same_trace(
        lesson,
        ComputesWithABuffer,
        cause="buffers became proxies on being read, as parameters do",
        hint="torch does that for buffers only where `proxy_buffer_attributes` is set",
    )


def test_buffers_become_proxies_where_asked(lesson):
    class Asking(lesson.Tracer):
        proxy_buffer_attributes = True

    class TorchAsking(torch.fx.Tracer):
        proxy_buffer_attributes = True

    same_graph(
        Asking().trace(ComputesWithABuffer()),
        TorchAsking().trace(ComputesWithABuffer()),
        cause="what is done to a buffer ran for real",
        hint="`getattr` returns a proxy for a buffer where `proxy_buffer_attributes` is set",
    )


class MayHaveABuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", None)

    def forward(self, x):
        return x if self.mean is None else x - self.mean


def test_a_buffer_that_is_none_stays_none(lesson):
    class Asking(lesson.Tracer):
        proxy_buffer_attributes = True

    equal(
        [node.op for node in Asking().trace(MayHaveABuffer()).nodes],
        ["placeholder", "output"],
        cause="`None` was looked up among the buffers, and found",
        hint="only a tensor becomes a proxy",
    )


def test_the_module_stack_is_written_on_each_node(lesson):
    graph = lesson.Tracer().trace(zoo.SMALL["SharedModules"]().model)
    expected = torch.fx.Tracer().trace(zoo.SMALL["SharedModules"]().model)
    equal(
        [list(node.meta.get("nn_module_stack", {})) for node in graph.nodes],
        [list(node.meta.get("nn_module_stack", {})) for node in expected.nodes],
        cause="a second call of one module must get a key of its own, `path@1`",
        hint="`num_calls` counts how often each path was called so far",
    )


@pytest.mark.stretch
def test_calls_are_counted_for_the_tracer_and_not_for_the_trace(lesson):
    tracer = lesson.Tracer()
    tracer.trace(nn.Sequential(nn.ReLU()))
    _, relu, _ = tracer.trace(nn.Sequential(nn.ReLU())).nodes
    equal(
        list(relu.meta["nn_module_stack"]),
        ["0@1"],
        cause="each trace began to count anew; torch's tracer goes on counting",
        hint="make `num_calls` in `__init__`",
    )


def test_the_scope_of_each_node_is_kept_by_name(lesson):
    tracer, expected = lesson.Tracer(), torch.fx.Tracer()
    tracer.trace(zoo.SMALL["DeepNesting"]().model)
    expected.trace(zoo.SMALL["DeepNesting"]().model)
    equal(
        dict(tracer.node_name_to_scope),
        dict(expected.node_name_to_scope),
        cause="the scope wasn't set on entering a module, or not restored on leaving it",
        hint="`ScopeContextManager(self.scope, Scope(path, type(m)))` around the call",
    )


def test_after_a_trace_the_module_stack_is_empty(lesson):
    tracer = lesson.Tracer()
    tracer.trace(zoo.SMALL["DeepNesting"]().model)
    equal(
        [len(tracer.module_stack), tracer.scope.module_path],
        [0, ""],
        cause="what was pushed on entering a module wasn't taken off on leaving it",
        hint="push and pop in one place",
    )


def test_the_annotation_of_the_result_is_on_the_output(lesson):
    def function(x: int) -> torch.Tensor:
        return x

    function.__annotations__["return"] = torch.Tensor
    *_, output = lesson.Tracer().trace(function).nodes
    equal(
        output.type,
        torch.Tensor,
        cause="the return annotation wasn't handed to the output node",
        hint="`type_expr=` of the output node",
    )


def test_a_function_that_returns_nothing_has_an_output_too(lesson):
    def function(x):
        torch.relu(x)

    same_trace(
        lesson,
        lambda: function,
        cause="the output node was left out, or what nobody uses was dropped",
        hint="every graph ends with an output node, though its value be None",
    )


def test_the_output_holds_nodes(lesson):
    constant = torch.ones(2)
    *_, output = lesson.Tracer().trace(lambda x: [x, {"constant": constant}]).nodes
    equal(
        repr(output.args),
        "([x, {'constant': _tensor_constant0}],)",
        cause="the result went into the output node as it was: a proxy or tensor is no node",
        hint="`self.create_arg(result)` is what the output node holds",
    )


# --- real models --------------------------------------------------------------------------------


def test_resnet18_gives_the_graph_of_torch(lesson):
    specimen = zoo.resnet18()
    graph = lesson.Tracer().trace(specimen.model)
    same_graph(graph, torch.fx.Tracer().trace(specimen.model), meta=META)


def test_resnet18_traced_computes_the_same(lesson):
    specimen = zoo.resnet18()
    same_numbers(
        traced(lesson, specimen.model)(*specimen.inputs),
        specimen.eager(),
        cause="the graph leaves out, doubles or reorders what the model does",
        hint="compare the graphs first: `pytest tests/test_tracer.py -k graph`",
    )


@pytest.mark.gpu
@pytest.mark.stretch
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_resnet18_traced_on_a_gpu_computes_the_same(lesson, dtype):
    specimen = zoo.resnet18()
    model, inputs = specimen.model.to("cuda", dtype), specimen.inputs[0].to("cuda", dtype)
    same_numbers(
        traced(lesson, model)(inputs),
        model(inputs),
        cause="constants were made on another device, or the graph differs",
        hint="compare the graphs first: `pytest tests/test_tracer.py -k graph`",
    )


@pytest.mark.slow
@pytest.mark.stretch
@pytest.mark.parametrize("name", zoo.torchvision_models("classification", "segmentation", "video"))
def test_every_model_of_torchvision_gives_the_graph_of_torch(lesson, name):
    model = zoo.skeleton(name)
    with noting(cause=LIBRARY, hint=LIBRARY_HINT):
        graph = lesson.Tracer().trace(model)
    expected = torch.fx.Tracer().trace(model)
    same_graph(graph, expected, cause=LIBRARY, hint=LIBRARY_HINT)
    same_graph(graph, expected, meta=META)


LIBRARY = (
    "a function that torchvision wrapped with `torch.fx.wrap`, such as `stochastic_depth` or the "
    "attention of Swin, was traced through"
)
LIBRARY_HINT = "first make `test_a_wrapped_function_is_one_node` green"


# --- hooks for subclasses -----------------------------------------------------------------------


def test_a_subclass_decides_what_is_a_leaf(lesson):
    class Whole(lesson.Tracer):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return module_qualified_name in ("block.inner", "0")

    equal(
        call_targets(Whole().trace(zoo.SMALL["DeepNesting"]().model))[:1],
        ["block.inner"],
        cause="`is_leaf_module` isn't asked for every call, or not with the path",
        hint="`self.is_leaf_module(m, self.path_of_module(m))` in `call_module`",
    )


def test_a_subclass_sees_every_call_of_a_module(lesson):
    calls = []

    class Watching(lesson.Tracer):
        def call_module(self, m, forward, args, kwargs):
            calls.append((self.path_of_module(m), len(args), sorted(kwargs)))
            return super().call_module(m, forward, args, kwargs)

    Watching().trace(zoo.SMALL["KeywordArguments"]().model)
    equal(
        calls,
        [("bilinear", 0, ["input1", "input2"])],
        cause="calls bypass `call_module`, the root's own call is among them, or kwargs are lost",
        hint="the patched `nn.Module.__call__` asks `self.call_module(mod, forward, args, kwargs)`",
    )


def test_the_forward_that_call_module_gets_runs_the_module(lesson):
    class Doubling(lesson.Tracer):
        def call_module(self, m, forward, args, kwargs):
            return forward(*args, **kwargs) * 2

    tracer = Doubling()
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    same_numbers(
        GraphModule(model, tracer.trace(model))(torch.ones(1, 2)),
        (model[0](torch.ones(1, 2)) * 2).relu() * 2,
        cause="`forward` asks the tracer again (endless), or calls another module",
        hint="`forward` calls the unpatched `nn.Module.__call__` with this module",
    )


def test_hooks_of_a_module_run_while_it_is_traced_through(lesson):
    def build() -> nn.Module:
        model = nn.Sequential(nn.Sequential(nn.ReLU()))
        model[0].register_forward_hook(lambda module, args, output: output + 1)
        return model

    same_trace(
        lesson,
        build,
        cause="`forward` of the module was called directly, past its hooks",
        hint="call the unpatched `nn.Module.__call__`, which runs the hooks",
    )


def test_a_subclass_may_keep_parameters_as_they_are(lesson):
    class Raw(lesson.Tracer):
        def getattr(self, attr, attr_val, parameter_proxy_cache):
            return attr_val

    class TorchRaw(torch.fx.Tracer):
        def getattr(self, attr, attr_val, parameter_proxy_cache):
            return attr_val

    same_graph(
        Raw().trace(zoo.SMALL["ParametersWithoutForward"]().model),
        TorchRaw().trace(zoo.SMALL["ParametersWithoutForward"]().model),
        cause="attributes don't go through `getattr`, so a subclass cannot change it",
        hint="the patched `nn.Module.__getattr__` asks `self.getattr(attr, value, cache)`",
    )


def test_a_subclass_gets_the_name_of_each_attribute(lesson):
    def names(base: type) -> list[str]:
        seen = []

        class Watching(base):
            def getattr(self, attr, attr_val, parameter_proxy_cache):
                seen.append(attr)
                return super().getattr(attr, attr_val, parameter_proxy_cache)

        Watching().trace(zoo.SMALL["EveryOpcode"]().model)
        return seen

    equal(
        names(lesson.Tracer),
        names(torch.fx.Tracer),
        cause="`getattr` isn't told what was looked at, or isn't asked each time",
        hint="`self.getattr(name, value, cache)`",
    )


def test_a_subclass_changes_nodes_proxies_and_arguments(lesson):
    def changed(base: type) -> Graph:
        class Changed(base):
            def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
                if target is operator.add:
                    target = torch.add
                return super().create_node(kind, target, args, kwargs, name, type_expr)

            def create_arg(self, a):
                return 5 if type(a) is int else super().create_arg(a)

            def proxy(self, node):
                node.meta["seen"] = True
                return super().proxy(node)

        return Changed().trace(zoo.SMALL["EveryOpcode"]().model)

    same_graph(
        changed(lesson.Tracer),
        changed(torch.fx.Tracer),
        meta=("seen",),
        cause="nodes, arguments or proxies are made past the methods a subclass overrides",
        hint="always go through `self.create_proxy`, `self.create_node`, `self.create_arg`",
    )


def test_a_subclass_may_iterate_and_decide(lesson):
    class Lenient(lesson.Tracer):
        def iter(self, obj: Proxy) -> Iterator:
            return iter([obj[0], obj[1]])

        def to_bool(self, obj: Proxy) -> bool:
            return True

    def function(x):
        pair = [*iter(x)]
        return pair[0] if x.sum() > 0 else pair[1]

    graph = graph_or_refusal(Lenient(), function)
    holds(
        isinstance(graph, Graph),
        "a graph of the first branch",
        got=graph,
        cause="proxies are made by another tracer, so that its methods aren't asked",
        hint="a proxy belongs to `self`: `self.proxy(node)`",
    )
    same_numbers(GraphModule(nn.Module(), graph)(torch.tensor([1.0, 2.0])), torch.tensor(1.0))


def test_another_method_than_forward_may_be_traced(lesson):
    class Encode(lesson.Tracer):
        traced_func_name = "encode"

    class Model(nn.Module):
        def encode(self, x):
            return x * 2

        def forward(self, x):
            return x * 3

    equal(
        [node.args[1] for node in Encode().trace(Model()).nodes if node.op == "call_function"],
        [2],
        cause="`forward` was traced instead of the method that the tracer names",
        hint="`getattr(type(root), self.traced_func_name)`",
    )


# --- control flow and errors --------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [lambda x: x if x.sum() > 0 else -x, lambda x: [y for y in x], lambda x: torch.add(*x)],
    ids=["if", "for", "star"],
)
def test_control_flow_on_a_proxy_is_refused(lesson, function):
    with refuses(
        TraceError,
        cause="a proxy has no value yet: neither a branch nor a loop can depend on it",
        hint="`TracerBase` refuses this by itself; don't catch it",
    ):
        lesson.Tracer().trace(function)


@pytest.mark.stretch
def test_an_assertion_meets_the_same_fate_as_in_torch(lesson):
    """Whether torch's proxies recognise an ``assert`` depends on the version of Python."""

    def outcome(base: type) -> object:
        class Asserting(base):
            trace_asserts = True

        try:
            return [row.target for row in rows(Asserting().trace(zoo.asserts_positive))]
        except TraceError as error:
            return str(error)

    equal(
        outcome(lesson.Tracer),
        outcome(torch.fx.Tracer),
        cause="proxies don't find `trace_asserts` on their tracer",
        hint="a proxy belongs to `self`; `TracerBase` has the flag",
    )


def test_an_in_place_operation_on_a_parameter_is_checked_where_asked(lesson):
    class Strict(lesson.Tracer):
        check_mutable_operations = True

    with refuses(
        RuntimeError,
        "mutable",
        cause="nodes are made past `TracerBase`'s check",
        hint="honour `check_mutable_operations`: `super().create_node` does",
    ):
        Strict().trace(lambda x: torch.relu_(x))


def test_a_module_that_is_not_below_the_root_is_refused(lesson):
    outside = nn.ReLU()
    with refuses(
        NameError,
        cause="a module that the graph could not refer to was called for real or recorded",
        hint="`path_of_module` refuses it; don't catch that",
    ):
        lesson.Tracer().trace(lambda x: outside(x))


@pytest.mark.beyond("torch raises AssertionError")
def test_what_is_no_python_function_is_refused(lesson):
    with refuses(
        TypeError,
        "builtin",
        cause="something without a signature was to be traced, and the error doesn't say what",
        hint="ask whether it is a `types.FunctionType`, and name the type that it has instead",
    ):
        lesson.Tracer().trace(torch.relu)


@pytest.mark.beyond("torch raises AssertionError")
def test_a_method_that_the_class_lacks_is_refused(lesson):
    class Encode(lesson.Tracer):
        traced_func_name = "encode"

    with refuses(AttributeError, "ReLU", "encode", cause="the error doesn't name class and method"):
        Encode().trace(nn.ReLU())


@pytest.mark.stretch
def test_a_module_that_takes_the_place_of_another_is_refused(lesson):
    class Replaces(nn.Module):
        def __init__(self):
            super().__init__()
            self.step = nn.ReLU()

        def forward(self, x):
            x = self.step(x)
            self.step = nn.Tanh()
            return self.step(x)

    with refuses(
        NameError,
        cause="two modules were recorded under one path: the graph calls one of them twice",
        hint="remember which module each path led to when it was recorded",
    ):
        lesson.Tracer().trace(Replaces())


# --- nothing stays behind -----------------------------------------------------------------------


class Failing(nn.Module):
    """Raises in the middle of its forward, two modules deep."""

    def __init__(self, error: BaseException):
        super().__init__()
        self.error = error
        self.inner = nn.Sequential(nn.ReLU(), Raising(error))

    def forward(self, x):
        return self.inner(x * 2)


class Raising(nn.Module):
    def __init__(self, error: BaseException):
        super().__init__()
        self.error = error

    def forward(self, x):
        raise self.error


def test_after_a_trace_modules_are_called_as_before(lesson):
    lesson.Tracer().trace(nn.ReLU())
    holds(
        restored(),
        "`nn.Module.__call__` and `__getattr__` as before",
        cause=RESTORE,
        hint=RESTORE_HINT,
    )


@pytest.mark.parametrize(
    "error", [ValueError("inside"), TypeError("inside"), KeyboardInterrupt()], ids=repr
)
def test_after_an_error_modules_are_called_as_before(lesson, error):
    with refuses(type(error), cause="the error in forward was swallowed"):
        lesson.Tracer().trace(Failing(error))
    holds(
        restored(),
        "`nn.Module.__call__` and `__getattr__` as before",
        cause=RESTORE,
        hint=RESTORE_HINT,
    )


def test_while_it_traces_torch_says_so(lesson):
    seen = []

    def function(x):
        seen.append(torch.fx._symbolic_trace.is_fx_symbolic_tracing())
        return x

    lesson.Tracer().trace(function)
    equal(
        [*seen, torch.fx._symbolic_trace.is_fx_symbolic_tracing()],
        [True, False],
        cause="torch's flag wasn't set during the trace, or not restored after it",
        hint="set what `is_fx_symbolic_tracing` of `torch.fx._symbolic_trace` asks",
    )


def test_a_trace_inside_a_trace_leaves_the_outer_one_running(lesson):
    inner = []

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu = nn.ReLU()

        def forward(self, x):
            inner.append(lesson.Tracer().trace(nn.Sequential(nn.Tanh())))
            return self.relu(x)

    graph = lesson.Tracer().trace(Model())
    equal(
        [call_targets(inner[0]), call_targets(graph), restored()],
        [["0"], ["relu"], True],
        cause="the inner trace restored the originals, or recorded into the outer graph",
        hint="restore what was there before, which may be another trace's patch",
    )


def test_a_trace_inside_a_trace_leaves_torch_saying_so(lesson):
    seen = []

    def function(x):
        lesson.Tracer().trace(nn.ReLU())
        seen.append(torch.fx._symbolic_trace.is_fx_symbolic_tracing())
        return x

    lesson.Tracer().trace(function)
    equal(
        seen,
        [True],
        cause="the inner trace put torch's flag down, though the outer trace goes on",
        hint="restore the flag to what it was before",
    )


@pytest.mark.parametrize("name", ["Buffers", "Constants", "ParametersWithoutForward"])
def test_one_tracer_traces_many_models(lesson, name):
    tracer = lesson.Tracer()
    tracer.trace(zoo.SMALL["Constants"]().model)
    tracer.trace(zoo.SMALL["ParametersWithoutForward"]().model)
    same_graph(
        tracer.trace(zoo.SMALL[name]().model),
        torch.fx.Tracer().trace(zoo.SMALL[name]().model),
        cause="something of an earlier trace is still there: a proxy, a constant or a path",
        hint="what belongs to one trace is set at its start",
    )


def test_two_tracers_share_nothing(lesson):
    first, second, expected = lesson.Tracer(), lesson.Tracer(), torch.fx.Tracer()
    first.trace(zoo.SMALL["SharedModules"]().model)
    same_graph(
        second.trace(zoo.SMALL["DeepNesting"]().model),
        expected.trace(zoo.SMALL["DeepNesting"]().model),
        meta=META,
        cause=SHARED,
        hint=SHARED_HINT,
    )
    states = [dict(tracer.node_name_to_scope) for tracer in (second, expected)]
    equal(*states, cause=SHARED, hint=SHARED_HINT)


SHARED = "all tracers have one stack, count or table: it hangs on the class"
SHARED_HINT = "make what belongs to one tracer in `__init__`, or at the start of a trace"


@pytest.mark.beyond("torch leaves module_stack, num_calls and submodule_paths as they were")
def test_a_trace_after_a_failed_one_starts_clean(lesson):
    tracer = lesson.Tracer()
    with refuses(ValueError, cause="the error in forward was swallowed"):
        tracer.trace(Failing(ValueError("inside")))
    graph = tracer.trace(zoo.SMALL["DeepNesting"]().model)
    same_graph(
        graph,
        torch.fx.Tracer().trace(zoo.SMALL["DeepNesting"]().model),
        meta=META,
        cause="the module stack or the call counts of the failed trace are still there",
        hint="pop in a `finally`; set what belongs to one trace at its start",
    )


@pytest.mark.beyond("torch goes on counting where the failed trace stopped")
def test_a_failed_trace_leaves_no_counts_and_no_scopes(lesson):
    tracer, fresh = lesson.Tracer(), lesson.Tracer()
    with refuses(ValueError, cause="the error in forward was swallowed"):
        tracer.trace(Failing(ValueError("inside")))
    for each in (tracer, fresh):
        each.trace(zoo.SMALL["DeepNesting"]().model)
    equal(
        [dict(tracer.num_calls), dict(tracer.node_name_to_scope)],
        [dict(fresh.num_calls), dict(fresh.node_name_to_scope)],
        cause="the next trace counts on from there, and knows nodes that its graph doesn't have",
        hint="keep what was there before, and put it back on an error",
    )


@pytest.mark.stretch
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (RuntimeError, ["a data-dependent guard"]),
        (RuntimeError, ["another"]),
        (RuntimeError, []),
        (ValueError, ["a data-dependent value"]),
    ],
)
def test_a_data_dependent_error_carries_the_code_so_far(lesson, kind, message):
    carried = []
    for tracer in (lesson.Tracer(), torch.fx.Tracer()):
        error = kind(*message)
        try:
            tracer.trace(Failing(error))
        except kind as raised:
            if raised is not error:
                raise
        carried.append(getattr(error, "partial_fx_graph", None))
    equal(
        carried[0],
        carried[1],
        cause="the code was left out, or written on errors of another kind",
        hint="a RuntimeError whose message says `data-dependent`; `Graph.python_code` has the code",
    )


class HoldsAnUnhashable(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Unhashable(), Unhashable()

    def forward(self, x):
        return self.second(self.first(x))


class Unhashable(nn.Module):
    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhashable)

    def forward(self, x):
        return self.relu(x)


@pytest.mark.beyond("torch keys its table of modules by the modules, which have no hash here")
def test_modules_with_an_equality_of_their_own_are_traced(lesson):
    equal(
        call_targets(lesson.Tracer().trace(HoldsAnUnhashable())),
        ["first.relu", "second.relu"],
        cause="modules were compared with `==` or used as keys of a dict",
        hint="tell modules apart by identity",
    )


# --- threads ------------------------------------------------------------------------------------


class Waiting(nn.Module):
    """A model that lets another thread run in the middle of its trace."""

    def __init__(self, meanwhile: Callable[[], object]):
        super().__init__()
        self.meanwhile = meanwhile
        self.relu = nn.ReLU()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x):
        x = self.relu(x)
        self.meanwhile()
        return self.relu(x * self.weight)


def in_another_thread(action: Callable[[], object]) -> object:
    """What ``action`` returns in a thread of its own; its error, if any, is raised here."""
    with ThreadPoolExecutor(max_workers=1) as executor:
        return executor.submit(action).result()


def came_from_the_thread(error: Exception) -> bool:
    """Whether it was raised by what the other thread runs."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(Path(frame.filename).parent.name == "futures" for frame in frames)


THREADS = "modules of other threads are caught by this trace: the patch is everybody's"
THREADS_HINT = "the patched methods ask who is tracing in this thread, and else do as always"
WANTED = ["relu", operator.mul, "relu"]


@pytest.mark.beyond("torch patches `nn.Module` for all threads")
def test_another_thread_runs_its_modules_as_always(lesson):
    model, outcomes = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), []
    expected = model(torch.ones(2))
    waiting = Waiting(
        lambda: outcomes.append(in_another_thread(lambda: model(input=torch.ones(2))))
    )
    with noting(cause=(came_from_the_thread, THREADS), hint=THREADS_HINT):
        graph = lesson.Tracer().trace(waiting)
    same_numbers(outcomes[0], expected, cause=THREADS, hint=THREADS_HINT)
    equal(call_targets(graph), WANTED, cause=THREADS, hint=THREADS_HINT)


@pytest.mark.stretch
def test_two_traces_in_two_threads_both_come_out_right(lesson):
    outcomes = []
    other = nn.Sequential(nn.Tanh(), Waiting(lambda: None))
    waiting = Waiting(
        lambda: outcomes.append(in_another_thread(lambda: lesson.Tracer().trace(other)))
    )
    with noting(cause=THREADS, hint=THREADS_HINT):
        graph = lesson.Tracer().trace(waiting)
    expected = torch.fx.Tracer().trace(other)
    same_graph(outcomes[0], expected, meta=META, cause=THREADS, hint=THREADS_HINT)
    equal(call_targets(graph), WANTED, cause=THREADS, hint=THREADS_HINT)
    holds(restored(), "`nn.Module` as before", cause=RESTORE, hint=RESTORE_HINT)


@pytest.mark.beyond("torch restores whatever was there when its own trace began")
def test_traces_that_overlap_leave_nothing_behind(lesson):
    first, second = overlapping_traces(lesson)
    found = {"first, ended first": call_targets(first), "second": call_targets(second)}
    wanted = dict.fromkeys(found, WANTED)
    # The first trace ends while the second is on: if it lacks nothing, threads are told apart.
    told_apart = call_targets(first) == WANTED
    equal(
        found,
        wanted,
        cause=UNCOUNTED if told_apart else TAKEN,
        hint=UNCOUNTED_HINT if told_apart else THREADS_HINT,
    )
    holds(restored(), "`nn.Module` as before", cause=UNCOUNTED, hint=UNCOUNTED_HINT)


UNCOUNTED = "`nn.Module` was restored while another trace was still on, or to that one's patch"
UNCOUNTED_HINT = "count the users of the patch: the last one to leave restores what was there first"
TAKEN = "the second trace's patch took the place of the first one's, in all threads"


def overlapping_traces(lesson) -> tuple[Graph, Graph]:
    """Two traces in two threads: the second begins inside the first, and outlasts it."""
    inside, go_on = Event(), Event()

    def pause() -> None:
        inside.set()
        go_on.wait(10)

    def outlast() -> None:
        go_on.set()
        wait([first], timeout=10)

    with noting(cause=THREADS, hint=THREADS_HINT), ThreadPoolExecutor(max_workers=1) as executor:
        first = executor.submit(lesson.Tracer().trace, Waiting(pause))
        first.add_done_callback(lambda _: inside.set())  # an error must not keep the second waiting
        inside.wait(10)
        try:
            second = lesson.Tracer().trace(Waiting(outlast))
        finally:
            go_on.set()
        return first.result(), second


# --- wrapped functions --------------------------------------------------------------------------


@torch.fx.wrap
def decorated(x, scale):
    """A function that must not be traced through: it decides by a value."""
    return x * scale if x.sum() > 0 else x


def wrapped_by_name(x):
    return x + len(x) if len(x) > 1 else x


torch.fx.wrap("wrapped_by_name")
torch.fx.wrap("len")


def uses_wrapped(x):
    return decorated(wrapped_by_name(x), 2) + len(x)


@pytest.mark.stretch
def test_a_wrapped_function_is_one_node(lesson):
    same_trace(
        lesson,
        lambda: uses_wrapped,
        cause=WRAPPED,
        hint=WRAPPED_HINT,
    )


WRAPPED = "a function that the user wrapped with `torch.fx.wrap` was traced through"
WRAPPED_HINT = "`torch.fx._symbolic_trace._wrapped_fns_to_patch` names the globals to patch"


@pytest.mark.stretch
def test_after_a_trace_wrapped_functions_are_themselves(lesson):
    before = (decorated, wrapped_by_name, "len" in globals())
    with noting(cause=WRAPPED, hint=WRAPPED_HINT):
        lesson.Tracer().trace(uses_wrapped)
    holds(
        (decorated, wrapped_by_name, "len" in globals()) == before,
        "the module's globals as before, a builtin's shadow removed",
        cause="the patched globals weren't restored",
        hint="remember for each name what was there, or that nothing was",
    )


@pytest.mark.stretch
def test_a_wrapped_function_without_proxies_just_runs(lesson):
    seen = []

    def function(x):
        seen.append(decorated(torch.ones(2), scale=3).tolist())
        return x

    lesson.Tracer().trace(function)
    equal(
        seen,
        [[3.0, 3.0]],
        cause="a call without any proxy was recorded",
        hint="look for a proxy among the arguments, nested ones too; without one, call it",
    )


@pytest.mark.stretch
@pytest.mark.parametrize("by_name", [False, True])
def test_a_wrapped_function_finds_a_nested_proxy(lesson, by_name):
    def function(x):
        scale = {"scale": [x]}
        one = torch.ones(1)
        return decorated(one, scale=scale) if by_name else decorated(one, scale)

    cause = "only the top level of the arguments was searched for a proxy, or nothing was wrapped"
    hint = "`torch.fx.node.map_aggregate` walks through containers"
    with noting(cause=cause, hint=hint):
        graph = lesson.Tracer().trace(function)
    equal(len(call_targets(graph)), 1, cause=cause, hint=hint)


@pytest.mark.stretch
def test_the_node_of_a_wrapped_function_says_so(lesson):
    expected = torch.fx.Tracer().trace(uses_wrapped)
    with noting(cause=WRAPPED, hint=WRAPPED_HINT):
        graph = lesson.Tracer().trace(uses_wrapped)
    equal(
        [node.meta.get("is_wrapped") for node in graph.nodes],
        [node.meta.get("is_wrapped") for node in expected.nodes],
        cause="passes over the graph can't tell a wrapped function from others",
        hint='`node.meta["is_wrapped"]`',
    )


class Table:
    def lookup(self, x):
        return self if x.sum() > 0 else None


class Derived(Table):
    """Inherits the method that is wrapped."""


@pytest.mark.stretch
def test_a_wrapped_method_is_one_node(lesson, monkeypatch):
    monkeypatch.setattr(
        torch.fx._symbolic_trace, "_wrapped_methods_to_patch", [(Derived, "lookup")]
    )
    table, before = Derived(), Derived.lookup
    cause, hint = "wrapped methods weren't patched, or not restored", "`_wrapped_methods_to_patch`"
    with noting(cause=cause, hint=hint):
        graph = lesson.Tracer().trace(lambda x: Derived.lookup(Derived.lookup(x, x), x=x))
    equal(call_targets(graph), ["lookup", "lookup"], cause=cause, hint=hint)
    holds(Derived.lookup is before, "the method as before", cause=cause, hint=hint)
    holds(table.lookup(torch.ones(1)) is table, "the method to run as before", cause=cause)


@pytest.mark.stretch
def test_a_wrapped_method_finds_a_proxy_by_name_and_without_one_just_runs(lesson, monkeypatch):
    monkeypatch.setattr(
        torch.fx._symbolic_trace, "_wrapped_methods_to_patch", [(Derived, "lookup")]
    )
    table, seen = Derived(), []

    def function(x):
        seen.extend([Derived.lookup(table, torch.ones(1)), Derived.lookup(table, x=torch.ones(1))])
        return Derived.lookup(self=x, x=x)

    cause = "keyword arguments were lost, or not searched for a proxy"
    with noting(cause=cause):
        graph = lesson.Tracer().trace(function)
    equal(call_targets(graph), ["lookup"], cause=cause)
    holds(seen == [table, table], "calls without proxies to run", got=seen, cause=cause)


@pytest.mark.beyond("torch looks the name up, and fails with a KeyError")
def test_a_wrapped_name_that_nothing_has_does_no_harm(lesson, monkeypatch):
    wrapped = torch.fx._symbolic_trace._wrapped_fns_to_patch
    monkeypatch.setitem(wrapped, (id(globals()), "never_defined"), globals())
    seen = []

    def function(x):
        seen.append("never_defined" in globals())
        return x

    with noting(cause="a name under `torch.fx.wrap` is looked up", on=(LookupError, TypeError)):
        lesson.Tracer().trace(function)
    equal(
        [*seen, "never_defined" in globals()],
        [False, False],
        cause="the name was given a meaning that it has nowhere",
        hint="leave out the names that neither the globals nor the builtins have",
    )


@pytest.mark.beyond("torch deletes the name again, fails, and leaves the other patches")
def test_a_trace_ends_well_though_its_code_removed_a_patched_name(lesson):
    def function(x):
        globals().pop("len", None)
        return x

    with noting(cause=GONE, on=(LookupError, TypeError)):
        lesson.Tracer().trace(function)
    holds(restored(), "`nn.Module` as before", cause=GONE)


GONE = "to restore what was patched fails where the name is gone already"


@pytest.mark.stretch
def test_patches_are_undone_while_torch_compiles(lesson):
    seen = []

    def function(x):
        with torch.fx._symbolic_trace._maybe_revert_all_patches():
            seen.append((restored(), torch.fx._symbolic_trace.is_fx_symbolic_tracing()))
        seen.append(restored())
        return x

    lesson.Tracer().trace(function)
    equal(
        [*seen, restored()],
        [(True, True), False, True],
        cause="torch doesn't find who patches, or torch's own flag was taken back with the rest",
        hint="`CURRENT_PATCHER` of `torch.fx._symbolic_trace` can revert and reapply all patches",
    )


def uses_math(x):
    return math.floor(x.sum()) + sqrt(x.mean()) + math.pi


@pytest.mark.stretch
def test_functions_of_math_are_recorded(lesson):
    same_trace(
        lesson,
        lambda: uses_math,
        cause="a function of `math` was called with a proxy",
        hint="`autowrap_modules`: wrap what of theirs is found in the globals of traced code",
    )


@pytest.mark.beyond("torch takes the patch of another trace for the function itself")
@pytest.mark.parametrize("function", [uses_wrapped, uses_math])
def test_a_second_trace_in_another_thread_records_wrapped_functions_too(lesson, function):
    graphs = []
    waiting = Waiting(
        lambda: graphs.append(in_another_thread(lambda: lesson.Tracer().trace(function)))
    )
    with noting(cause=THREADS, hint=THREADS_HINT):
        lesson.Tracer().trace(waiting)
    same_graph(
        graphs[0],
        torch.fx.Tracer().trace(function),
        cause="the second trace took the first one's patch for the function itself",
        hint="remember what a name meant before anybody patched it",
    )


def own_helper(x):
    return x if x.shape[0] > 1 else -x


def uses_own_helper(x):
    return own_helper(x) + 1


@pytest.mark.stretch
def test_functions_named_to_the_tracer_are_recorded(lesson):
    same_trace(
        lesson,
        lambda: uses_own_helper,
        cause="`autowrap_functions` was not heeded",
        hint="wrap them by identity wherever traced code's globals hold them",
        autowrap_functions=(own_helper,),
    )


def class_of_another_file() -> type[nn.Module]:
    """A class whose code has globals of its own, with a function of ``math`` among them."""
    namespace = {"__name__": "elsewhere", "Module": nn.Module, "root_of": sqrt}
    code = "class Elsewhere(Module):\n    def forward(self, x):\n        return root_of(x.sum())"
    exec(code, namespace)
    return namespace["Elsewhere"]


@pytest.mark.stretch
def test_functions_of_math_are_recorded_in_the_files_of_submodules(lesson):
    elsewhere = class_of_another_file()
    same_trace(
        lesson,
        lambda: nn.Sequential(elsewhere()),
        cause="only the globals of the root's own file were searched",
        hint="search those of each module's `forward` when the module is called",
    )


class CallsAPartial(nn.Module):
    """Has a ``forward`` that isn't a function, and so has no globals."""

    def __init__(self):
        super().__init__()
        self.forward = functools.partial(torch.add, 1)


@pytest.mark.stretch
def test_a_forward_that_is_no_function_is_traced_through(lesson):
    same_trace(
        lesson,
        lambda: nn.Sequential(CallsAPartial()),
        cause="the globals of `forward` were asked for, and there are none",
        hint="`getattr(forward, '__globals__', {})`",
    )


def doubled(x):
    return x * 2


def halved(x):
    return x / 2


_squared = doubled


def uses_helpers(x):
    return doubled(halved(x)) + _squared(x)


@pytest.mark.stretch
def test_public_functions_of_a_module_named_to_the_tracer_are_recorded(lesson):
    """One that the module keeps private runs, and so does one under a private name."""
    helpers = ModuleType("helpers")
    vars(helpers).update(doubled=doubled, _halved=halved)
    same_trace(
        lesson,
        lambda: uses_helpers,
        cause="`autowrap_modules` was not heeded, or private names were taken too",
        hint="names that begin with an underscore are not public, in either place",
        autowrap_modules=(helpers,),
    )


@pytest.mark.beyond("torch remembers the functions that the trace around it has patched")
def test_a_tracer_made_during_a_trace_records_functions_of_math(lesson):
    inner = []

    def function(x):
        inner.append(lesson.Tracer())
        return x

    lesson.Tracer().trace(function)
    same_graph(
        inner[0].trace(uses_math),
        torch.fx.Tracer().trace(uses_math),
        cause="the patched functions of the trace around it were remembered",
        hint="what is wanted are the originals",
    )


class Factor:
    """Can be called, and compared, and so has no hash."""

    def __init__(self, factor: int):
        self.factor = factor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factor) and other.factor == self.factor

    def __call__(self, x):
        return x * self.factor


twofold = Factor(2)


def uses_a_factor(x):
    return x + twofold(3)


@pytest.mark.stretch
def test_what_has_no_hash_can_be_wrapped(lesson):
    same_trace(
        lesson,
        lambda: uses_a_factor,
        cause="what is wrapped was a key of a dict, or in a set",
        hint="tell functions apart by identity",
        autowrap_functions=(twofold,),
    )


class Interval(metaclass=torch.fx.ProxyableClassMeta):
    """A class whose construction is recorded when a proxy goes in."""

    def __init__(self, low, high):
        self.low, self.high = low, high

    def width(self):
        return self.high - self.low


@pytest.mark.stretch
def test_a_proxyable_class_is_built_by_a_node(lesson):
    same_trace(
        lesson,
        lambda: lambda x: Interval(x, x * 2).width(),
        cause="the class was built with proxies inside",
        hint="`ProxyableClassMeta` asks whether a trace is on: set torch's flag",
    )


# --- copies, metadata, options ------------------------------------------------------------------


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda gm: pickle.loads(pickle.dumps(gm))], ids=["deepcopy", "pickle"]
)
def test_the_result_can_be_copied(lesson, copied):
    specimen = zoo.SMALL["EveryOpcode"]()
    gm = traced(lesson, specimen.model)
    same_numbers(
        copied(gm)(*specimen.inputs),
        specimen.eager(),
        cause="something that cannot be copied hangs on the graph",
        hint="keep what belongs to the trace on the tracer",
    )


@pytest.mark.stretch
def test_the_tracer_can_be_copied(lesson):
    tracer = lesson.Tracer()
    tracer.trace(zoo.SMALL["EveryOpcode"]().model)
    same_graph(
        copy.deepcopy(tracer).trace(zoo.SMALL["EveryOpcode"]().model),
        torch.fx.Tracer().trace(zoo.SMALL["EveryOpcode"]().model),
        cause="Python modules cannot be copied: the tracer remembers some",
        hint="`__deepcopy__` shares the list of modules to wrap",
    )


@pytest.mark.stretch
def test_a_copied_tracer_holds_together_what_its_attributes_share(lesson):
    tracer = lesson.Tracer()
    tracer.model = zoo.SMALL["EveryOpcode"]().model
    tracer.trace(tracer.model)
    copied = copy.deepcopy(tracer)
    holds(
        copied.model is copied.root and copied.root is not tracer.root,
        "one copy of the model, though two attributes hold it",
        cause="each attribute was copied by itself",
        hint="hand `memo` on to `copy.deepcopy`",
    )


@pytest.mark.beyond("torch doesn't note the copy, and begins another one without end")
def test_a_tracer_that_holds_itself_can_be_copied(lesson):
    tracer = lesson.Tracer()
    tracer.trace(nn.ReLU())
    tracer.outer = tracer
    copied = copy.deepcopy(tracer)
    holds(
        copied.outer is copied,
        "a copy that holds itself",
        cause="the copy wasn't noted before its attributes were copied",
        hint="`memo[id(self)]`",
    )


@pytest.mark.stretch
def test_stack_traces_begin_in_the_users_code(lesson):
    class Recording(lesson.Tracer):
        record_stack_traces = True

    class Model(nn.Module):
        def forward(self, x):
            return torch.relu(x)

    node = next(n for n in Recording().trace(Model()).nodes if n.op == "call_function")
    first_two = (node.stack_trace or "").splitlines()[:2]
    holds(
        "in forward" in first_two[0] and first_two[1].strip() == "return torch.relu(x)",
        "a stack trace that begins in the model's forward",
        got=node.stack_trace,
        cause="no frames were recorded, or frames of the tracer are among them",
        hint="`TracerBase.create_node` records them where `record_stack_traces` is set",
    )


@pytest.mark.stretch
def test_shapes_of_parameters_are_plain_values_where_asked(lesson):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(3, 2))

        def forward(self, x):
            x = x.reshape(self.weight.shape[0], -1) if self.weight.dim() == 2 else x
            return self.weight.t() @ x

    same_trace(
        lesson,
        lambda: nn.Sequential(Model()),
        cause="the shape of a parameter was recorded instead of evaluated",
        hint="`param_shapes_constant`: make a `torch.fx.proxy.ParameterProxy`",
        param_shapes_constant=True,
    )


@pytest.mark.stretch
def test_a_parameter_whose_shape_is_known_says_its_path(lesson):
    seen = []

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(3, 2))

        def forward(self, x):
            seen.append(repr(self.weight))
            return x

    for base in (lesson.Tracer, torch.fx.Tracer):
        base(param_shapes_constant=True).trace(nn.Sequential(Model()))
    equal(seen[0], seen[1], cause="a `ParameterProxy` was made without the parameter's path")


@pytest.mark.stretch
def test_concrete_arguments_reach_the_function(lesson):
    def function(x, flag):
        return x + 1 if flag else x - 1

    cause = "`concrete_args` were not handed on to `create_args_for_root`"
    hint = "`symbolic_trace(root, concrete_args)` → `trace(root, concrete_args)`"
    with noting(cause=cause, hint=hint):
        actual = lesson.symbolic_trace(function, concrete_args={"flag": False})
    expected = torch.fx.symbolic_trace(function, concrete_args={"flag": False})
    same_graph(actual.graph, expected.graph, cause=cause, hint=hint)


@pytest.mark.stretch
def test_preserved_metadata_is_written_on_nodes(lesson):
    origin = next(iter(torch.fx.symbolic_trace(named_relu).graph.nodes))
    origin.meta["custom"] = {"origin": "here"}

    def custom_meta(tracer: torch.fx.Tracer) -> list:
        with torch.fx.traceback.preserve_node_meta(), torch.fx.traceback.set_current_meta(origin):
            return [node.meta.get("custom") for node in tracer.trace(named_relu).nodes]

    equal(
        custom_meta(lesson.Tracer()),
        custom_meta(torch.fx.Tracer()),
        cause="`torch.fx.traceback.preserve_node_meta` was not heeded",
        hint="`TracerBase.create_node` does it where it is asked",
    )


def named_relu(x):
    return F.relu(x)


@pytest.mark.stretch
def test_the_tracer_says_which_root_it_traces(lesson):
    def names(tracer: torch.fx.Tracer, *roots: object) -> list[object]:
        found = [tracer.root_module_name, tracer.submodule_paths]
        for root in roots:
            tracer.trace(root)
            found += [tracer.root_module_name, isinstance(tracer.root, type(root))]
        return found

    for roots in ([nn.ReLU(), zoo.SMALL["LeafCalls"]().model], [named]):
        equal(
            names(lesson.Tracer(), *roots),
            names(torch.fx.Tracer(), *roots),
            cause="`root_module_name` isn't the name of the root's class, or empty for a function",
            hint="set `root_module_name` where `root` is set",
        )


@pytest.mark.parametrize("stack_traces", [False, True])
def test_a_subclass_may_choose_name_and_type_of_a_node(lesson, stack_traces):
    class Choosing(lesson.Tracer):
        record_stack_traces = stack_traces

        def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
            return super().create_node(kind, target, args, kwargs, f"own_{kind}", int)

    equal(
        [(node.name, node.type) for node in Choosing().trace(named_relu).nodes],
        [("own_placeholder", int), ("own_call_function", int), ("own_output", int)],
        cause="`create_node` drops the name or the type that it is given",
        hint="hand both on to the graph",
    )


def test_a_subclass_gets_arguments_as_a_tuple_and_a_dict(lesson):
    kinds = set()

    class Counting(lesson.Tracer):
        def create_node(self, kind, target, args, kwargs, *rest, **options):
            kinds.add((type(args), type(kwargs)))
            return super().create_node(kind, target, args, kwargs, *rest, **options)

    Counting().trace(zoo.SMALL["EveryOpcode"]().model)
    equal(
        kinds,
        {(tuple, dict)},
        cause="a node was asked for with `None` in place of its arguments",
        hint="`()` and `{}`, where there are none",
    )


def test_the_constructor_takes_what_torchs_takes(lesson):
    ours, theirs = (inspect.signature(each.__init__) for each in (lesson.Tracer, torch.fx.Tracer))
    lesson.Tracer((math,), (), False).trace(nn.ReLU())
    equal(
        [(each.name, each.default) for each in ours.parameters.values()],
        [(each.name, each.default) for each in theirs.parameters.values()],
        cause="an option is missing or has another name",
        hint="same names, same order, same defaults as `torch.fx.Tracer`",
    )


# --- growth -------------------------------------------------------------------------------------


class ReadsParameters(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.size = size
        for number in range(size):
            self.register_parameter(f"weight{number}", nn.Parameter(torch.zeros(1)))

    def forward(self, x):
        for number in range(self.size):
            x = x + getattr(self, f"weight{number}")
        return x


@pytest.mark.beyond("torch scans all parameters for each one that is read")
def test_reading_a_parameter_costs_the_same_in_a_large_model(lesson):
    def trace(size: int) -> Callable[[], object]:
        model = ReadsParameters(size)
        return lambda: lesson.Tracer().trace(model)

    factor = growth(trace, 200)
    holds(
        factor < LINEAR,
        "twice the steps for twice the parameters",
        got=f"{factor:.1f} times the steps",
        cause="every read searches all parameters",
        hint="an index by identity, built once a trace",
    )
