"""FILL IN: what is timed beside torch."""

from __future__ import annotations

from torch import fx

from benchmarks.case import Call, Family, sizes
from tests.suite import same_graph

STEPS = Family("FILL IN: what grows", 1.1)
PARITY = 1.0


def steps(count: int):
    """FILL IN: one input of this size; `prepare` is not timed, the call it returns is."""

    def prepare(lesson) -> Call:
        graph = fx.Graph()
        value = graph.placeholder("x")
        for _ in range(count):
            value = graph.call_method("relu", (value,))
        graph.output(value)
        return lambda: lesson.first_step(graph)

    return {"prepare": prepare, "same": same_graph}


CASES = list(sizes(STEPS, steps, {300: PARITY, 1000: PARITY, 3000: PARITY}))


def test_capture(case, side, time):
    time(case, side)
