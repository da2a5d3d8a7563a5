"""Functions run on proxies, ours and torch's, without a tracer that calls modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
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


def plugged(lesson: Any, base: type = fx.Tracer) -> fx.Tracer:
    """torch's tracer whose ``proxy`` returns the lesson's proxies."""

    class Plugged(base):  # type: ignore[misc]
        def proxy(self, node: fx.Node) -> Any:
            return lesson.Proxy(node, self)

    return Plugged()


class Everything(torch.nn.Module):
    """Each kind of operation once."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.scale = torch.nn.Parameter(torch.ones(4))

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.linear(x)) * self.scale
        z = (2 - y).view(x.shape[0], -1)[:, 1:]
        return torch.cat([z, -z], dim=-1), {"mean": z.mean(dim=0, keepdim=True)}
