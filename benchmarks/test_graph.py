"""Building, editing and cleaning up a graph: what each node costs."""

from __future__ import annotations

from functools import partial

from benchmarks.case import Call, sized, timed
from tests.models.graph import chain, rebuilt, same_state, unused

SIZES = (300, 1000, 3000)
# The list, the arguments and the users are written in C++ in torch.
PARITY, SLOWER, MOVING = 1.0, 1.5, 3.0


def building(lesson, count: int) -> Call:
    return partial(chain, lesson.Graph(), count)


def editing(lesson, count: int) -> Call:
    return partial(rebuilt, chain(lesson.Graph(), count))


def dead_code(lesson, count: int) -> Call:
    graph = chain(lesson.Graph(), count)
    unused(graph)
    return lambda: (graph.eliminate_dead_code(), graph)[1]


def moving(lesson, count: int) -> Call:
    graph = chain(lesson.Graph(), count)
    first, *others = graph.nodes

    def call():
        for node in others[:-1]:
            first.append(node)
        return graph

    return call


CASES = [
    *sized("building a graph", building, int, same_state, SIZES, PARITY),
    *sized("replacing each node", editing, int, same_state, SIZES, SLOWER),
    *sized("erasing dead code", dead_code, int, same_state, SIZES, SLOWER),
    *sized("moves to one place", moving, int, same_state, (1000, 4000, 16_000), MOVING),
]

test_graph = timed
