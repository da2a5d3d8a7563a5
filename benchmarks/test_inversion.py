"""Chains turned round, beside the plain way: a loop over a trace by ``torch.fx``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import torch
from torch.fx import Graph, GraphModule, Node

from benchmarks.case import Call, sized, timed
from tests.suite import equal

INVERSES = {torch.tan: torch.arctan, torch.exp: torch.log}


def chain_of(size: int) -> Callable:
    """A function of ``size`` steps."""

    def chain(x):
        for number in range(size):
            x = torch.exp(x) if number % 2 else torch.tan(x)
        return x

    return chain


def plainly(function: Callable) -> GraphModule:
    """Turn a chain of functions round, and ask no questions: nothing is checked."""
    traced = torch.fx.symbolic_trace(function)
    graph, values = Graph(), {}
    for node in reversed(traced.graph.nodes):
        if node.op == "output":
            values[source_of(node)] = graph.placeholder(node.name)
        elif node.op == "call_function":
            values[source_of(node)] = graph.call_function(INVERSES[node.target], (values[node],))
        else:
            graph.output(values[node])
    graph.lint()
    return GraphModule(traced, graph)


def source_of(node: Node) -> Node:
    (source,) = node.all_input_nodes
    return source


def invert(lesson, chain: Callable) -> Call:
    return partial(lesson.invert, chain)


def same_code(ours: GraphModule, theirs: GraphModule) -> None:
    equal(ours.code.strip(), theirs.code.strip(), cause="another chain")


CASES = sized(
    "steps turned round",
    invert,
    chain_of,
    same_code,
    (100, 10_000),
    0.85,
    torch=SimpleNamespace(invert=plainly),
)

test_inversion = timed
