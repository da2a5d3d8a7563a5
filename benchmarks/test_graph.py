"""Building, editing and cleaning up a graph: what each node costs."""

from __future__ import annotations

from benchmarks.case import Call, Family, sizes, timed
from tests.models.graph import chain, rebuilt, same_state, unused

BUILDING = Family("building a graph", 1.1)
EDITING = Family("replacing each node", 1.1)
COPYING = Family("copying a graph", 1.1)
DEAD_CODE = Family("erasing dead code", 1.1)
# The list, the arguments and the users are written in C++ in torch.
PARITY, SLOWER = 1.0, 1.5


def building(count: int):
    return case(lambda graph: lambda: chain(graph, count))


def editing(count: int):
    return case(lambda graph: lambda: rebuilt(graph), count)


def copying(count: int):
    def copied(graph):
        new = type(graph)()
        return lambda: (new.graph_copy(graph, {}), new)[1]

    return case(copied, count)


def dead_code(count: int):
    def cleaned(graph):
        unused(graph)
        return lambda: (graph.eliminate_dead_code(), graph)[1]

    return case(cleaned, count)


def case(work, count: int = 0):
    """Time what ``work`` returns for a graph, which has so many nodes."""

    def prepare(lesson) -> Call:
        graph = lesson.Graph()
        return work(chain(graph, count) if count else graph)

    return {"prepare": prepare, "same": same_state}


CASES = [
    *sizes(BUILDING, building, {300: PARITY, 1000: PARITY, 3000: PARITY}),
    *sizes(EDITING, editing, {300: SLOWER, 1000: SLOWER, 3000: SLOWER}),
    *sizes(COPYING, copying, {300: PARITY, 1000: PARITY, 3000: PARITY}),
    *sizes(DEAD_CODE, dead_code, {300: SLOWER, 1000: SLOWER, 3000: SLOWER}),
]

test_graph = timed
