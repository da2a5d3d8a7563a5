"""Models for ``custom_tracers``, and how the tests read what a tracer recorded."""

from __future__ import annotations

import torch
from torch import nn
from torch.fx import Graph

from tests.suite import equal, holds


class Scaled(nn.Module):
    """An operation before and one after a call of its child, and a parameter of its own."""

    def __init__(self, child: nn.Module):
        super().__init__()
        self.child = child
        self.weight = nn.Parameter(torch.rand(4))

    def forward(self, x):
        return (self.child(torch.exp(x)) * self.weight).neg()


def plain(model: object) -> Graph:
    """The graph that torch's own tracer records."""
    return torch.fx.Tracer().trace(model)


def leaves(graph: Graph) -> list[str]:
    return [node.target for node in graph.nodes if node.op == "call_module"]


def paths(tracer: object, graph: Graph) -> dict[str, str | None]:
    """The path recorded for each node, by the node's name."""
    table = tracer.node_to_originating_module
    holds(
        # A proxy has an attribute of any name, but it's a proxy again.
        all(isinstance(getattr(key, "op", None), str) for key in table),
        "nodes as the keys of `node_to_originating_module`",
        got=next(iter(table), None),
        cause=(lambda key: isinstance(key, str), "the keys of the table are the nodes' names"),
    )
    return {node.name: table.get(node) for node in graph.nodes}


def traced_paths(lesson, model: nn.Module) -> dict[str, str | None]:
    tracer = lesson.ModulePathTracer()
    return paths(tracer, tracer.trace(model))


def all_tagged(graph: Graph, tag: object) -> None:
    tags = {node.name: getattr(node, "tag", "no tag") for node in graph.nodes}
    missed = (lambda got: "no tag" in got.values(), "every node passes through `create_node`")
    equal(tags, dict.fromkeys(tags, tag), cause=missed)
