"""Where to cut: the places of a graph where a single tensor travels on."""

from __future__ import annotations

from torch.fx import GraphModule, Node

from kata.pipeline.plan import PipelineError

CALLS = ("call_function", "call_method", "call_module")


def narrow_places(m: GraphModule) -> list[int]:
    """List the places where the graph can be cut so that a single tensor travels.

    Parameters do not travel: each stage has its own.

    Args:
        m: a traced model.

    Returns:
        The number of calls in front of each such place.

    >>> import torch
    >>> from torch.fx import symbolic_trace
    >>> narrow_places(symbolic_trace(lambda x: torch.tanh(torch.relu(x) * x) + 1))
    [2, 3]
    """
    calls = calls_of(m)
    place = {node: number for number, node in enumerate(calls, start=1)}
    values = [node for node in m.graph.nodes if node.op in {"placeholder", *CALLS}]
    last_use = {
        value: max((place.get(user, len(calls) + 1) for user in value.users), default=0)
        for value in values
    }
    alive = {value for value in values if value.op == "placeholder"}
    narrow = []
    for node, number in place.items():
        alive = {value for value in (*alive, node) if last_use[value] > number}
        if len(alive) == 1 and place.keys() >= alive and number < len(calls):
            narrow.append(number)
    return narrow


def calls_of(m: GraphModule) -> list[Node]:
    return [node for node in m.graph.nodes if node.op in CALLS]


def cuts_for(m: GraphModule, stages: int) -> list[int]:
    """Choose the narrow places that divide the calls most evenly.

    Raises:
        PipelineError: there are too few of them.
    """
    places = narrow_places(m)
    if len(places) < stages - 1:
        raise PipelineError(
            f"{len(places)} places of this model let a single tensor through: "
            f"choose at most {len(places) + 1} stages"
        )
    cuts: list[int] = []
    for stage in range(1, stages):
        still_to_come = stages - 1 - stage
        possible = [place for place in places if place > max(cuts, default=0)]
        possible = possible[: len(possible) - still_to_come]
        ideal = len(calls_of(m)) * stage / stages
        cuts.append(min(possible, key=lambda place: abs(place - ideal)))
    return cuts
