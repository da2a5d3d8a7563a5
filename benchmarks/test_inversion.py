"""Chains turned round, beside the plain way: a loop over a trace by ``torch.fx``."""

from __future__ import annotations

import torch
from torch.fx import Graph, GraphModule, Node

from benchmarks.case import Call, Family, sizes, timed
from tests.suite import equal

TARGET = 0.85
STEPS = Family("steps turned round", 1.1)
INVERSES = {torch.tan: torch.arctan, torch.exp: torch.log}


def chain_of(size: int):
    """A function of ``size`` steps."""

    def chain(x):
        for number in range(size):
            x = torch.exp(x) if number % 2 else torch.tan(x)
        return x

    return chain


def plainly(function) -> GraphModule:
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


def invert(size: int):
    """One chain, turned round by the lesson and plainly."""
    chain = chain_of(size)

    def prepare(lesson) -> Call:
        return lambda: lesson.invert(chain)

    return {"prepare": prepare, "on_torch": lambda: lambda: plainly(chain), "same": same_code}


def same_code(ours: GraphModule, theirs: GraphModule) -> None:
    equal(ours.code.strip(), theirs.code.strip(), cause="another chain")


CASES = sizes(STEPS, invert, {10: TARGET, 100: TARGET, 1000: TARGET, 10_000: TARGET})

test_inversion = timed
