"""Operations on proxies: what each adds to the cost of a node."""

from __future__ import annotations

import torch
from torch import fx

from benchmarks.case import Call, Family, sizes, timed
from tests.suite import same_graph

OPERATIONS = Family("operations on proxies", 1.1)
PARITY = 1.0


def operations(count: int):
    """So many rounds of one operator, one function and one method."""

    def prepare(lesson) -> Call:
        def call() -> fx.Graph:
            graph = fx.Graph()
            x = lesson.Proxy(graph.placeholder("x"), lesson.GraphAppendingTracer(graph))
            for _ in range(count):
                x = torch.relu(x + 1).view(-1)
            return graph

        return call

    return {"prepare": prepare, "same": same_graph}


CASES = list(sizes(OPERATIONS, operations, {300: PARITY, 1000: PARITY, 3000: PARITY}))

test_proxy = timed
