"""Functions run on proxies, ours and torch's, without a tracer that calls modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx
from torch.fx import proxy as theirs


def recorded(lesson: Any, function: Callable[..., Any], inputs: str = "xy") -> fx.Graph:
    """The graph of a function that is called with the lesson's proxies, one for each letter."""
    graph = fx.Graph()
    tracer = lesson.GraphAppendingTracer(graph)
    proxies = [lesson.Proxy(graph.placeholder(name), tracer) for name in inputs]
    result = function(*proxies)
    graph.output(tracer.create_arg(result))
    return graph


def expected(function: Callable[..., Any], inputs: str = "xy") -> fx.Graph:
    """The graph that torch's proxies make of the same function."""
    return recorded(theirs, function, inputs)


def plugged(lesson: Any) -> fx.Tracer:
    """torch's tracer whose ``proxy`` returns the lesson's proxies."""
    tracer = fx.Tracer()
    tracer.proxy = lambda node: lesson.Proxy(node, tracer)
    return tracer


def unpacking(count: int) -> Callable[..., Any]:
    """A function of ``x`` and ``y`` that unpacks ``x`` into so many names."""
    scope: dict[str, Any] = {}
    names = ", ".join(f"x{number}" for number in range(count))
    exec(f"def function(x, y):\n    {names} = x\n    return [{names}]", scope)
    return scope["function"]
