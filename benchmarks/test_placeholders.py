"""Signatures with many parameters, and one with arguments that are known."""

from __future__ import annotations

import torch
from torch.fx import Graph

from benchmarks.case import Call, Case, Family, sizes, timed
from tests.suite import same_graph

PARAMETERS = Family("parameters in a signature", 1.1)


def function_of(size: int):
    """A function of ``size`` parameters, every other one with a default."""
    names = [f"a{number}" for number in range(size // 2)]
    names += [f"b{number}=None" for number in range(size // 2)]
    namespace: dict = {}
    exec(f"def function({', '.join(names)}): return a0", namespace)
    return namespace["function"]


def placeholders_of(function, concrete_args=None):
    """The placeholders of one function, on a tracer at the start of a trace."""

    def prepare(lesson) -> Call:
        tracer = type("Plugged", (lesson.Placeholders, torch.fx.Tracer), {})()
        tracer.root, tracer.graph, tracer.tensor_attrs = torch.nn.Module(), Graph(), {}

        def call() -> Graph:
            tracer.create_args_for_root(function, False, concrete_args)
            return tracer.graph

        return call

    return {"prepare": prepare, "same": same_graph}


def attention(query, key, value, mask=None, *, scale: float = 1.0, causal: bool = False):
    """Return what many forwards look like."""
    return query @ key @ value


CASES = [
    Case("attention(query, key, value, ...)", quick=True, **placeholders_of(attention)),
    Case("attention(..., mask=None) known", **placeholders_of(attention, {"mask": None})),
    *sizes(
        PARAMETERS,
        lambda size: placeholders_of(function_of(size)) | {"quick": False},
        {30: None, 100: None, 300: None, 1000: None},
    ),
]

test_placeholders = timed
