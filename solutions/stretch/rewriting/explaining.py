"""Unlike the core: why a pattern was not found.

The core stops at the first difference. Here it is noted, and what can still be compared is
compared, so that the place with the fewest differences can be shown.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, field
from typing import Any

from torch.fx import Graph, GraphModule, Node

from ... import rewriting as core
from ...rewriting import Match
from .comparing import Matcher, aligned, arguments_of, target_of
from .finding import Pattern, graph_of, match


@dataclass
class Explanation:
    """Whether a pattern was found, or else where it came nearest; ``str`` shows it as a table.

    Attributes:
        pattern: The pattern's graph.
        graph: The graph that was looked through.
        matches: Where the pattern was found.
        nodes_map: What the nodes of the pattern are compared with at the nearest miss.
        differences: For each node of the pattern that differs there, what differs.
    """

    pattern: Graph
    graph: Graph
    matches: list[Match] = field(default_factory=list)
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    differences: dict[Node, str] = field(default_factory=dict)

    @property
    def calls(self) -> list[Node]:
        """The nodes of the pattern that compute something."""
        return calls_of(self.pattern)

    @property
    def compared(self) -> list[tuple[Node, Node]]:
        """These, each with the node that it is compared with, if it is one."""
        pairs = [(each, self.nodes_map.get(each)) for each in self.calls]
        return [(expected, actual) for expected, actual in pairs if isinstance(actual, Node)]

    @property
    def agreeing(self) -> int:
        """How many of these agree."""
        return len(self.compared) - len(self.differences)

    def __str__(self) -> str:
        if self.matches:
            places = ", ".join(str(each.nodes_map[each.anchor]) for each in self.matches)
            return f"found {len(self.matches)} times, at {places}"
        ours, theirs = lines_of(self.pattern), lines_of(self.graph)
        rows = [("pattern", "graph", "")]
        for node in self.calls:
            met = str(self.nodes_map.get(node, "-"))
            rows.append((ours[node.name], theirs.get(met, met), self.differences.get(node, "")))
        left, right = (max(len(row[column]) for row in rows) for column in (0, 1))
        head = f"not found; at the nearest miss {self.agreeing} of {len(self.calls)} nodes agree"
        return "\n".join([head, *(f"  {a:{left}}  {b:{right}}  {c}".rstrip() for a, b, c in rows)])


def calls_of(graph: Graph) -> list[Node]:
    """Return the nodes of a graph that compute something."""
    return [each for each in graph.nodes if each.op not in ("placeholder", "output")]


def lines_of(graph: Graph) -> dict[str, str]:
    """Return for each node that is computed, by its name, the line of code that computes it."""
    lines = [line.strip().split(";  ")[0] for line in graph.python_code("self").src.splitlines()]
    return {line.split()[0]: line for line in lines if " = " in line}


def explain(gm: GraphModule, pattern: Pattern) -> Explanation:
    """Tell why a pattern is not found: where it comes nearest, and what differs there.

    Each node of the pattern is compared with each node of the graph. At the nearest miss most nodes
    agree; of several such places, those of a whole pattern come first, then those with the fewest
    differences, then the first in the graph.

    In torch: no such function.

    Args:
        gm: Where to look.
        pattern: What to look for. If it returns several values, each is compared by itself.

    >>> import torch
    >>> from torch.fx import symbolic_trace
    >>> gm = symbolic_trace(lambda a, b: torch.relu(a + b))
    >>> print(explain(gm, lambda x, y: torch.tanh(x + y)))
    not found; at the nearest miss 1 of 2 nodes agree
      pattern                 graph
      add = x + y             add = a + b
      tanh = torch.tanh(add)  relu = torch.relu(add)  another function
    """
    graph = graph_of(pattern)
    result = Explanation(graph, gm.graph, match(graph, gm.graph))
    if result.matches:
        return result
    attempts = (compare(start, node) for node in calls_of(gm.graph) for start in result.calls)
    return min(attempts, key=distance, default=result)


def distance(attempt: Explanation) -> tuple[int, bool, int]:
    """Return what is smallest at the nearest miss."""
    results = attempt.pattern.output_node().all_input_nodes
    is_part = attempt.nodes_map.keys().isdisjoint(results)
    return -attempt.agreeing, is_part, len(attempt.differences)


def compare(start: Node, node: Node) -> Explanation:
    """Compare a node of the pattern and one of the graph, and what they are computed from."""
    attempt = Explanation(start.graph, node.graph, nodes_map={start: node})
    for expected in reversed(attempt.calls):  # a node after its users: they tell what it meets
        actual = attempt.nodes_map.get(expected)
        if isinstance(actual, Node):
            reason = CallComparison().difference(expected, actual, attempt.nodes_map)
            if reason:
                attempt.differences[expected] = reason
    note_escaping_values(attempt, start)
    return attempt


def note_escaping_values(attempt: Explanation, start: Node) -> None:
    """Note which values inside are used outside, but for that of ``start`` and of results."""
    results = [start, *start.graph.output_node().all_input_nodes]
    inside = attempt.nodes_map.values()
    for expected, actual in attempt.compared:
        outside = [user for user in actual.users if user not in inside]
        if outside and expected not in results:
            attempt.differences.setdefault(expected, f"also used by {outside[0]}")


class CallComparison(core.Matcher):
    """Compares one call with another. Their inputs are paired, and are compared later.

    Attributes:
        reason: The first difference of the arguments.
    """

    reason = ""

    def difference(self, expected: Node, actual: Node, nodes_map: dict[Node, Any]) -> str:
        """Return what differs, or nothing; pair the inputs in any case."""
        inputs = actual.all_input_nodes
        if expected.op != actual.op:
            self.reason = f"{actual.op}, not {expected.op}"
        elif target_of(expected) != target_of(actual):
            self.reason = f"another {expected.op.removeprefix('call_')}"
        elif is_swapped(expected, actual, nodes_map):
            self.reason = "the arguments are in another order"
            inputs = inputs[::-1]
        else:
            self.match_value(*arguments_of(expected, actual), nodes_map)
        if self.reason:
            for pair in zip(expected.all_input_nodes, inputs, strict=False):
                nodes_map.setdefault(*pair)
        return self.reason

    def match_value(self, expected: Any, actual: Any, nodes_map: dict[Node, Any]) -> bool:
        """Compare an argument, and remember the first that differs."""
        is_node = isinstance(expected, Node)
        known = nodes_map.get(expected, expected) if is_node else expected
        is_match = super().match_value(*aligned(expected, actual), nodes_map)
        if not is_match and not self.reason:
            is_second = is_node and known is expected and isinstance(actual, Node)
            self.reason = (
                f"{actual} stands for two nodes of the pattern"
                if is_second
                else f"{reprlib.repr(actual)}, not {reprlib.repr(known)}"
            )
        return is_match

    def match_call(self, expected: Node, actual: Node, nodes_map: dict[Node, Any]) -> bool:
        """Accept any two nodes at the same place: they are compared later."""
        return True


def is_swapped(expected: Node, actual: Node, nodes_map: dict[Node, Any]) -> bool:
    """Tell whether the arguments of two nodes match in the opposite order only."""
    matches, swapped = (
        Matcher().match_value(expected.args, args, dict(nodes_map))
        for args in (actual.args, actual.args[::-1])
    )
    return swapped and not matches
