"""Functions and tracers for the tests of ``placeholders``."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import nn
from torch.fx import Graph, GraphModule

from tests.suite import equal, own, same_graph
from tests.suite.expect import Cause


def plugged(lesson) -> torch.fx.Tracer:
    """Return torch's ``Tracer`` with the lesson's class as its first base."""
    mixin = own(lesson.Placeholders, "create_args_for_root")
    return type("Plugged", (mixin, torch.fx.Tracer), {})()


def arguments_for(lesson, function: Callable, root: nn.Module | None = None, **options):
    """Return what ``create_args_for_root`` returns, and the tracer that made the placeholders."""
    tracer = plugged(lesson)
    tracer.root, tracer.graph, tracer.tensor_attrs = root or nn.Module(), Graph(), {}
    callable_, args = tracer.create_args_for_root(function, root is not None, **options)
    return callable_, args, tracer


def placeholders(graph: Graph) -> list[tuple]:
    return [(node.target, node.args, node.type) for node in graph.nodes if node.op == "placeholder"]


def names(found: list[tuple]) -> list[str]:
    return [target for target, *_ in found]


def signature_of(lesson, function: Callable) -> list[tuple]:
    return placeholders(arguments_for(lesson, function)[2].graph)


def graph_module(lesson, root: nn.Module | Callable, **options) -> GraphModule:
    tracer = plugged(lesson)
    graph = tracer.trace(root, **options)
    return GraphModule(tracer.root, graph)


def called(function: Callable, *args: object) -> object:
    """Return the result of a call, or its error, so that a test can show either."""
    try:
        return function(*args)
    except (TypeError, NameError) as error:
        return error


def same_trace(lesson, build: Callable, cause: Cause = (), hint: str = "", **options) -> None:
    """Fail unless the trace with the lesson's mixin is torch's, generated code included."""
    actual = plugged(lesson).trace(build(), **options)
    expected = torch.fx.Tracer().trace(build(), **options)
    typed = type_of_output(actual) is not None and type_of_output(expected) is None
    seen = (typed, ANNOTATED), *([cause] if cause else [])
    same_graph(actual, expected, cause=seen, hint=hint)
    equal(code(actual), code(expected), cause=seen, hint=hint or CODE_HINT)


ANNOTATED = "the function that you return is annotated: its result's type went into the graph"
CODE_HINT = "compare `graph.python_code('self').src` with torch's"


def type_of_output(graph: Graph) -> object:
    return graph.output_node().type


def code(graph: Graph) -> str:
    return graph.python_code("self").src


def twice(function: Callable) -> Callable:
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return wrapper
