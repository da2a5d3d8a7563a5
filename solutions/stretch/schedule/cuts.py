"""Unlike the core: chooses the cuts by what the nodes cost."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from time import perf_counter
from typing import Any

from ..interpreter import Interpreter
from ..split_module import split_module


def seconds(gm: Any, *inputs: Any) -> Callable[[Any], float]:
    """Measure how long each node of a model takes, in its second run.

    Args:
        gm: The traced model.
        *inputs: The arguments of the model.

    Returns:
        A function from a node to its seconds.
    """
    timer = _Timer(gm)
    for _ in range(2):
        timer.run(*inputs)
    return timer.seconds.__getitem__


class _Timer(Interpreter):
    """Runs a graph and measures each node."""

    def __init__(self, gm: Any) -> None:
        super().__init__(gm)
        self.seconds: dict[Any, float] = {}

    def run_node(self, n: Any) -> Any:
        start = perf_counter()
        value = super().run_node(n)
        self.seconds[n] = perf_counter() - start
        return value


def cut_by_cost(gm: Any, stages: int, cost: Callable[[Any], float]) -> Any:
    """Cut a traced model so that its most expensive stage is as cheap as it can be.

    Args:
        gm: The traced model.
        stages: How many stages to make; at most as many as there are calls.
        cost: The cost of a call, such as its ``seconds``.

    Returns:
        What ``split_module`` returns.

    Raises:
        ValueError: There are more stages than calls.

    >>> import torch
    >>> from solutions.tracer import symbolic_trace
    >>> gm = symbolic_trace(torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(4))))
    >>> cut = cut_by_cost(gm, 2, lambda node: 3 if node.name == "_0" else 1)
    >>> [len(list(stage.children())) for stage in cut.children()]
    [1, 3]
    """
    calls = [node for node in gm.graph.nodes if node.op.startswith("call_")]
    if not 0 < stages <= len(calls):
        raise ValueError(f"a model of {len(calls)} calls can't be cut into {stages} stages")
    cuts = _cheapest_cuts([cost(node) for node in calls], stages)
    numbers = {
        node: stage
        for stage, (start, end) in enumerate(pairwise([0, *cuts, len(calls)]))
        for node in calls[start:end]
    }
    return split_module(gm, gm, numbers.__getitem__)


def _cheapest_cuts(costs: list[float], stages: int) -> list[int]:
    """Return where to cut a row of costs: before these positions.

    ``best[end]`` is the cheapest way to cut the first ``end`` calls into the stages so far: what
    its most expensive stage costs, and its cuts.
    """
    before = [0.0]
    for cost in costs:
        before.append(before[-1] + cost)
    best: dict[int, tuple[float, list[int]]] = {
        end: (before[end], []) for end in range(1, len(before))
    }
    for made in range(1, stages):
        best = {
            end: min(
                (max(best[at][0], before[end] - before[at]), [*best[at][1], at])
                for at in range(made, end)
            )
            for end in range(made + 1, len(before))
        }
    return best[len(costs)][1]
