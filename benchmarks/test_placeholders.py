"""Signatures with few parameters and with many."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.fx import Graph

from benchmarks.case import Call, sized, timed
from tests.suite import same_graph


def function_of(size: int) -> Callable:
    """A function of ``size`` parameters, every other one with a default."""
    names = [f"a{number}" for number in range(size // 2)]
    names += [f"b{number}=None" for number in range(size // 2)]
    namespace: dict = {}
    exec(f"def function({', '.join(names)}): return a0", namespace)
    return namespace["function"]


def placeholders(lesson, function: Callable) -> Call:
    """The placeholders of one function, on a tracer at the start of a trace."""
    tracer = type("Plugged", (lesson.Placeholders, torch.fx.Tracer), {})()
    tracer.root, tracer.graph, tracer.tensor_attrs = torch.nn.Module(), Graph(), {}
    return lambda: (tracer.create_args_for_root(function, False), tracer.graph)[1]


CASES = [
    *sized(
        "parameters in a signature",
        placeholders,
        function_of,
        same_graph,
        (30, 100, 300, 1000),
    ),
]

test_placeholders = timed
