"""Operations on proxies: what each adds to the cost of a node."""

from __future__ import annotations

import torch
from torch import fx

from benchmarks.case import Call, sized, timed
from tests.suite import same_graph


def operations(lesson, count: int) -> Call:
    """So many rounds of one operator, one function and one method."""

    def call() -> fx.Graph:
        graph = fx.Graph()
        x = lesson.Proxy(graph.placeholder("x"), lesson.GraphAppendingTracer(graph))
        for _ in range(count):
            x = torch.relu(x + 1).view(-1)
        return graph

    return call


CASES = sized("operations on proxies", operations, int, same_graph, (300, 1000, 3000), 1.0)

test_proxy = timed
