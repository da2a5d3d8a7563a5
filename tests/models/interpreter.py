"""Modules with graphs, the values to run them with, and the results to expect."""

from __future__ import annotations

import inspect
import operator
import traceback
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from torch import fx, nn
from torch.fx.passes.shape_prop import ShapeProp, TensorMetadata

from tests import zoo
from tests.suite import equal
from tests.suite.expect import Words


class Run(NamedTuple):
    """A traced module, the values of its placeholders, and the value of its output."""

    module: fx.GraphModule
    values: list[Any]
    expected: Any


def run_of(specimen: zoo.Specimen) -> Run:
    """Trace a specimen, and order its arguments as an interpreter wants them."""
    module = fx.symbolic_trace(specimen.model)
    bound = inspect.signature(specimen.model.forward).bind(*specimen.inputs, **specimen.kwargs)
    values = []
    for node in module.graph.find_nodes(op="placeholder"):
        name = str(node.target)
        if name.lstrip("*") in bound.arguments:
            value = bound.arguments[name.lstrip("*")]
            values += value if name.startswith("*") else [value]
    return Run(module, values, specimen.eager())


def plain(value: Any) -> Any:
    """Return a value with ordinary lists and dicts: those in a graph are immutable."""
    if isinstance(value, TensorMetadata):
        return Words(f"TensorMetadata({tuple(value.shape)}, {value.dtype})")
    if isinstance(value, type):
        return next((each for each in (list, dict) if issubclass(value, each)), value)
    if isinstance(value, tuple | list):
        items = map(plain, value)
        if hasattr(value, "_fields"):
            return type(value)(*items)
        return tuple(items) if isinstance(value, tuple) else list(items)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


def error_of(call: Callable[[], object]) -> str:
    """Return what the traceback of a call's error ends with: type, message and notes."""
    try:
        call()
    except NotImplementedError:  # a stub's
        raise
    except Exception as error:
        return "".join(traceback.format_exception_only(error))
    return "no error"


class Refused(Exception):
    """An error of its own, which no interpreter raises by itself."""


def refuse(*args: object) -> None:
    raise Refused


def small() -> fx.GraphModule:
    """A parameter, a submodule, a function and a method."""
    return fx.symbolic_trace(zoo.SMALL["EveryOpcode"]().model)


def traced(function: Callable[..., object]) -> fx.GraphModule:
    return fx.symbolic_trace(function)


def described(
    shape_prop: Any, build: Callable[[], zoo.Specimen], *options: object
) -> list[dict[str, Any]]:
    """Return the shape and type that each node has for its value, after a run."""
    run = run_of(build())
    shape_prop(run.module, *options).propagate(*run.values)
    keys = "tensor_meta", "type"
    return [
        {"node": node.name} | {key: plain(node.meta[key]) for key in keys if key in node.meta}
        for node in run.module.graph.nodes
    ]


def keeping(lesson: Any, module: Any) -> Any:
    """Return an interpreter that keeps all values: it asks for no ``last_uses``."""
    return lesson.Interpreter(module, garbage_collect_values=False)


@cache
def by_torch(build: Callable[[], zoo.Specimen]) -> list[dict[str, Any]]:
    """Return the shape and type that torch gives each node."""
    return described(ShapeProp, build)


def same_shapes(lesson: Any, build: Callable[[], zoo.Specimen]) -> None:
    """Compare the shape and type in each node with those of torch."""
    for our, their in zip(described(lesson.ShapeProp, build), by_torch(build), strict=True):
        missing, extra = sorted(their.keys() - our), sorted(our.keys() - their)
        cause = [
            (bool(missing), f'the node has no meta["{"".join(missing[:1])}"]'),
            (bool(extra), "there is no tensor in the value, and the node has a tensor_meta"),
        ]
        equal(our, their, cause=cause)


def node_of(module: Any, name: str) -> fx.Node:
    (node,) = [each for each in module.graph.nodes if each.name == name]
    return node


def chain(count: int) -> fx.GraphModule:
    graph = fx.Graph()
    value = graph.placeholder("x")
    for _ in range(count):
        value = graph.call_function(operator.neg, (value,))
    graph.output(value)
    return fx.GraphModule(nn.Module(), graph)
