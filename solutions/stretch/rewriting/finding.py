"""Unlike the core: patterns of several results, and torch's options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from ...rewriting import Match, nodes_inside
from ..tracer import Tracer
from .comparing import Matcher, target_of

Pattern = Any  # a function, a module or a graph


def match(pattern: Pattern, graph: Graph) -> list[Match]:
    """Find the places where a pattern occurs in a graph and can be replaced.

    In torch: ``SubgraphMatcher(pattern).match(graph)``.

    Args:
        pattern: What to look for: a function, a module or a graph.
        graph: Where to look.

    Returns:
        The matches, in the order of the graph. Of two that overlap it is the first.

    Raises:
        ValueError: The pattern computes nothing, or something that it doesn't return.
    """
    found = SubgraphMatcher(graph_of(pattern)).match(graph)
    return [Match(each.anchor, each.nodes_map) for each in found]


def graph_of(pattern: Pattern) -> Graph:
    """Return the graph of a function or module; that of a ``GraphModule`` isn't traced again."""
    if isinstance(pattern, Graph | GraphModule):
        return pattern if isinstance(pattern, Graph) else pattern.graph
    tracer = Tracer()
    graph = tracer.trace(pattern)
    # Neither a pattern nor a replacement is run, so no code is made: the root has what it names.
    graph.owning_module = tracer.root  # type: ignore[assignment]
    return graph


@dataclass
class InternalMatch:
    """One place where a pattern was found. In torch: a class of the same name.

    Attributes:
        anchors: The nodes that the pattern returns and doesn't use itself.
        nodes_map: What each node of the pattern matches.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)

    @property
    def anchor(self) -> Node:
        """The first anchor."""
        return self.anchors[0]

    @property
    def placeholder_nodes(self) -> list[Any]:
        """What the placeholders of the pattern match, in their order."""
        return [self.nodes_map[each] for each in self.anchor.graph.find_nodes(op="placeholder")]

    @property
    def returning_nodes(self) -> list[Any]:
        """What the nodes that the pattern returns match, in their order."""
        return [self.nodes_map[each] for each in self.anchor.graph.output_node().all_input_nodes]

    @cached_property
    def inside(self) -> list[Node]:
        """The nodes that the match consists of."""
        return nodes_inside(Match(self.anchor, self.nodes_map))


class SubgraphMatcher(Matcher):
    """Finds a pattern of any number of results. In torch: a class of the same name.

    Args:
        pattern: What to look for.
        match_output: Whether the pattern's output must match the graph's output.
        match_placeholder: Whether placeholders must match placeholders; else they match anything.
        remove_overlapping_matches: Whether, of two matches that overlap, only the first counts.
        ignore_literals: Whether a literal of the pattern matches anything.

    Raises:
        ValueError: The pattern computes nothing, or something that it doesn't return.

    >>> pattern = graph_of(lambda x: (x + 1, x * 2))
    >>> graph = graph_of(lambda a: (a * 2) / (a + 1))
    >>> [found.returning_nodes for found in SubgraphMatcher(pattern).match(graph)]
    [[add, mul]]
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        check_pattern(pattern)
        self.pattern = pattern
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        output = pattern.output_node()
        unused = [each for each in output.all_input_nodes if len(each.users) == 1]
        self.anchors = [output] if match_output else unused

    def match(self, graph: Graph) -> list[InternalMatch]:
        """Find the pattern in a graph.

        Args:
            graph: Where to look.

        Returns:
            The matches, in the order of what the first anchor matches.
        """
        found = self.occurrences(graph)
        return without_overlaps(found) if self.remove_overlapping_matches else [*found]

    def occurrences(self, graph: Graph) -> Iterator[InternalMatch]:
        """Yield all matches that could be replaced; they may overlap."""
        inputs = graph.find_nodes(op="placeholder")
        for nodes_map in self.complete(self.anchors, {}, graph):
            found = InternalMatch(self.anchors, nodes_map)
            is_wanted = not self.match_placeholder or all(
                each in inputs for each in found.placeholder_nodes
            )
            if is_wanted and is_self_contained(found) and not depends_on_itself(found):
                yield found

    def complete(
        self, anchors: list[Node], nodes_map: dict[Node, Any], graph: Graph
    ) -> Iterator[dict[Node, Any]]:
        """Yield each way in which these anchors match, too."""
        if not anchors:
            yield nodes_map
            return
        anchor, *others = anchors
        for node in self.candidates(anchor, nodes_map, graph):
            attempt = dict(nodes_map)
            if self.match_node(anchor, node, attempt):
                yield from self.complete(others, attempt, graph)

    def candidates(self, anchor: Node, nodes_map: dict[Node, Any], graph: Graph) -> Iterable[Node]:
        """Return the nodes that an anchor may match, in the order of the graph.

        If the pattern computes the anchor from a node that has matched one already, they are found
        from there, along the users.
        """
        near = {node: {met} for node, met in nodes_map.items() if isinstance(met, Node)}
        for node in self.pattern.nodes:
            known = next((each for each in node.all_input_nodes if each in near), None)
            if known and node not in near:
                near[node] = {
                    user
                    for each in near[known]
                    for user in each.users
                    if target_of(user) == target_of(node)
                }
        return sorted(near[anchor]) if anchor in near else graph.nodes


def check_pattern(pattern: Graph) -> None:
    """Refuse a pattern that can't be replaced as a whole.

    Raises:
        ValueError: It computes nothing, or has a node that nothing uses.
    """
    *nodes, output = pattern.nodes
    if all(each.op == "placeholder" for each in output.all_input_nodes):
        raise ValueError("the pattern computes nothing: let it return what is to be replaced")
    for node in nodes:
        if not node.users:
            raise ValueError(
                f"the pattern doesn't use its {node.op} `{node.name}`: "
                "remove it, or return what is computed from it"
            )


def is_self_contained(found: InternalMatch) -> bool:
    """Tell whether the values that the pattern doesn't return are used inside the match alone.

    An input is outside: it may not be a list of such values.
    """
    inside, results, inputs = set(found.inside), found.returning_nodes, set[Node]()
    map_arg(found.placeholder_nodes, inputs.add)
    return inside.isdisjoint(inputs) and all(
        inside.issuperset(node.users) for node in inside if node not in results
    )


def depends_on_itself(found: InternalMatch) -> bool:
    """Tell whether something inside is computed outside from another result of the match."""
    return any(user in found.inside for node in users_between(found) for user in node.users)


def users_between(found: InternalMatch) -> list[Node]:
    """Return what is computed outside from results of a match before its last node, in order."""
    results = [each for each in found.returning_nodes if isinstance(each, Node)]
    last, own = max(found.inside), {*found.inside, *results}
    reached, waiting = set(own), [*own]
    while waiting:
        users = {user for user in waiting.pop().users if user < last} - reached
        waiting += users
        reached |= users
    return sorted(reached - own)


def without_overlaps(matches: Iterable[InternalMatch]) -> list[InternalMatch]:
    """Return the matches that have no node in common with an earlier one of these."""
    kept: list[InternalMatch] = []
    taken: set[Node] = set()
    for found in matches:
        if taken.isdisjoint(found.inside):
            taken.update(found.inside)
            kept.append(found)
    return kept
