"""torch's own code under each lesson's names, so that the suite is judged by torch first.

``NAMES`` has what torch calls as the lesson does. The rest is written below, lesson by lesson. For
a lesson that torch has no code for, the reference is judged on torch's graphs and tracers.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph import _format_target, _Namespace
from torch.fx.node import Argument
from torch.utils._pytree import tree_flatten, tree_unflatten

from kata.paths import CORES

# A lesson, a module of torch, and names in it; torch may write an underscore before a name. Where
# torch no longer has the watcher of `exec_order`, its tests are skipped: its records are kept.
NAMES = """
proxy        torch.fx.proxy  GraphAppendingTracer Proxy TraceError
graph        torch.fx  Graph Node
graph        torch.fx.node  map_arg
code         torch.fx  Graph GraphModule
code         torch.fx._lazy_graph_module  LazyGraphModule
code         torch.fx.graph  CodeGen PyTreeCodeGen
interpreter  torch.fx  Interpreter Transformer
interpreter  torch.fx.passes.shape_prop  ShapeProp
tracer       torch.fx  GraphModule Tracer symbolic_trace
rewriting    torch.fx.experimental.optimization  fuse
rewriting    torch.fx.passes.utils.matcher_utils  InternalMatch SubgraphMatcher
rewriting    torch.fx.subgraph_rewriter  Match ReplacedPatterns
rewriting    torch.fx.subgraph_rewriter  replace_pattern replace_pattern_with_filters
unflatten    torch.export.unflatten  FlatArgsAdapter InterpreterModule
unflatten    torch.export.unflatten  InterpreterModuleDispatcher UnflattenedModule
exec_order   torch.distributed.fsdp._trace_utils  ExecOrderTracer ExecutionInfo
exec_order   torch.distributed.fsdp._trace_utils  ParamUsageInfo TracingConfig
split_module torch.fx.passes.split_module  split_module
"""
WRITTEN: defaultdict[str, dict[str, Any]] = defaultdict(dict)


@functools.cache
def of_torch(lesson: str) -> ModuleType:
    """Return a module that has torch's code under the names of a lesson."""
    module = ModuleType(f"{__name__}.{lesson}")
    table = [line.split() for line in NAMES.strip().splitlines()]
    for home, *names in (row[1:] for row in table if row[0] == lesson):
        with contextlib.suppress(ImportError), warnings.catch_warnings():
            for category in (DeprecationWarning, FutureWarning):  # of torch.jit: `fuse` needs it
                warnings.simplefilter("ignore", category)
            theirs = vars(importlib.import_module(home))
            vars(module).update({n: theirs[n if n in theirs else f"_{n}"] for n in names})
    if lesson in ("inlining", "inversion"):
        vars(module).update(names_of_reference(lesson, "solutions"))
    if lesson == "custom_tracers":
        vars(module).update(names_of_reference(lesson, package_on_torch()))
    vars(module).update(WRITTEN[lesson])
    return module


def names_of_reference(lesson: str, package: str) -> dict[str, Any]:
    """Return what the core and the stretch of a lesson's reference define."""
    homes = (f"{package}.{lesson}", f"{package}.stretch.{lesson}")
    core, stretch = (vars(importlib.import_module(home)) for home in homes)
    return {**core, **stretch}


def package_on_torch() -> str:
    """Return a package with the reference in it, and torch's tracer as the sibling ``tracer``."""
    package = ModuleType("reference_on_torch")
    package.__path__ = [str(CORES)]
    sys.modules.setdefault(package.__name__, package)
    for name in ("tracer", "stretch.tracer"):
        sys.modules.setdefault(f"{package.__name__}.{name}", of_torch("tracer"))
    return package.__name__


def of(lesson: str) -> Callable[[Any], Any]:
    """Mark a function or a class as one of a lesson."""

    def write(each: Any) -> Any:
        return WRITTEN[lesson].setdefault(each.__name__, each)

    return write


# --- the engine -----------------------------------------------------------------------------------


@of("proxy")
def record_call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return torch.fx.Proxy.__torch_function__(function, (), args, kwargs)


@of("graph")
class Namespace(_Namespace):
    """torch's, which can tie a name to an object besides."""

    def create_name(self, candidate: str, obj: object = None) -> str:
        return super().create_name(candidate, obj)


@of("code")
def attribute(base: str, path: str) -> str:
    return _format_target(base, path)


@of("code")
def python_code(graph: Graph) -> tuple[str, dict[str, Any]]:
    """The source and the globals of torch's ``PythonCode``."""
    code = graph.python_code("self")
    return code.src, code.globals


@of("path_of_module")
class PathOfModule(torch.fx.Tracer):
    """torch's ``Tracer``, with the method that judges the tests as its own."""

    path_of_module = torch.fx.Tracer.path_of_module


@of("create_arg")
class CreateArg(torch.fx.Tracer):
    """torch's ``Tracer``, whose ``create_arg`` may also be asked outside a trace.

    ``Tracer.trace`` collects the tensors that hang on modules before it starts; so does this, for
    the root it finds.
    """

    tensor_attrs: dict[Any, str] = {}
    of_torch = torch.fx.Tracer.create_arg

    def create_arg(self, a: Any) -> Argument:
        if not self.tensor_attrs:
            self.tensor_attrs = {
                value: f"{path}.{name}".lstrip(".")
                for path, module in self.root.named_modules()
                for name, value in vars(module).items()
                if isinstance(value, torch.Tensor)
            }
        return self.of_torch(a)


@of("placeholders")
class Placeholders(torch.fx.Tracer):
    """torch's ``Tracer``, with the method that judges the tests as its own."""

    create_args_for_root = torch.fx.Tracer.create_args_for_root


# --- transforms -----------------------------------------------------------------------------------


def graph_of(pattern: Any) -> Graph:
    """The graph that ``replace_pattern`` makes of a pattern."""
    if isinstance(pattern, Graph):
        return pattern
    return (pattern if isinstance(pattern, GraphModule) else torch.fx.symbolic_trace(pattern)).graph


@of("rewriting")
def match(pattern: Any, graph: Graph) -> list[Any]:
    """Return what ``replace_pattern`` would replace."""
    theirs = of_torch("rewriting")
    found = theirs.SubgraphMatcher(graph_of(pattern)).match(graph)
    return [theirs.Match(each.anchors[0], each.nodes_map) for each in found]


@of("rewriting")
class Matcher:
    """torch's comparison of two nodes."""

    def match_node(self, expected: Node, actual: Node, nodes_map: dict[Node, Any]) -> bool:
        theirs = of_torch("rewriting")
        matcher = theirs.SubgraphMatcher(expected.graph)
        return matcher._match_nodes(expected, actual, theirs.InternalMatch([expected], nodes_map))


# --- below the modules: the steps have no names of their own in torch -----------------------------


@of("capture")
def capture(model, args, kwargs=None, *, table=None):
    """Return what ``make_fx`` records of a model, as a function of its state and leaves."""
    norm = torch.ops.aten.native_batch_norm.default
    state = {}
    if isinstance(model, nn.Module):
        state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    leaves, structure = tree_flatten((args, kwargs or {}))

    def flat(*values):
        given = dict(zip(state, values, strict=False))
        args, kwargs = tree_unflatten(values[len(state) :], structure)
        if isinstance(model, nn.Module):
            return torch.func.functional_call(model, given, args, kwargs)
        return model(*args, **kwargs)

    values = (*state.values(), *leaves)
    rules = {norm: norm.decompose, **dict(table or {})}
    captured = recorded(flat, values, rules)
    schemas = [getattr(node.target, "_schema", norm._schema) for node in captured.graph.nodes]
    if any(schema.is_mutable for schema in schemas):
        without_writes = torch.func.functionalize(flat, remove="mutations")
        captured = recorded(without_writes, values, rules)
    captured.graph.eliminate_dead_code()
    captured.recompile()
    return captured


def recorded(function, values, table):
    """Return what ``make_fx`` records on fake tensors."""
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(
        function, tracing_mode="fake", decomposition_table=table, _allow_non_fake_inputs=True
    )(*values)


@of("capture")
def program(model, args, kwargs=None, *, table=None):
    """Return what ``torch.export`` makes of a model, with the operators of the table broken up."""
    from tests.suite.programs import export, specs_are_copied

    with specs_are_copied():
        return export(model, *args, kwargs=kwargs).run_decompositions(dict(table or {}))


@of("unflatten")
def unflatten(*args, **kwargs):
    """torch's, without the warnings that it raises about its own code."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`isinstance\\(treespec, LeafSpec", FutureWarning)
        warnings.filterwarnings("ignore", "Attempted to insert a get_attr Node", UserWarning)
        return torch.export.unflatten(*args, **kwargs)


@of("backend")
def backend(gm, example_inputs):
    """Run ``aot_eager``, torch's backend without a compiler: its kernels aren't in a graph of aten.

    What a backend owes its caller is true of any: the numbers, the gradients, the random numbers,
    and another shape.
    """
    from torch._dynamo.backends.debugging import aot_eager

    return aot_eager(gm, example_inputs)


# --- many machines: torch's stages need a process each --------------------------------------------


@of("schedule")
def gpipe(stages, microbatches):
    from tests.models.schedule import torch_orders

    return torch_orders("ScheduleGPipe", stages, microbatches)


@of("schedule")
def one_f_one_b(stages, microbatches):
    from tests.models.schedule import torch_orders

    return torch_orders("Schedule1F1B", stages, microbatches)
