"""Unlike the core: patterns of several results, arguments by name, and tensors by their type."""

from __future__ import annotations

import contextlib
import inspect
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from torch import Tensor
from torch.fx import Graph, GraphModule, Node
from torch.fx.operator_schemas import get_signature_for_torch_op

from ... import rewriting as core
from ...rewriting import Match, nodes_inside
from ..tracer import Tracer

Pattern = Any  # a function, a module or a graph


def match(pattern: Pattern, graph: Graph) -> list[Match]:
    """Find the places where a pattern occurs in a graph and can be replaced.

    The pattern is a function, a module or a graph. See the core, and ``SubgraphMatcher``.
    """
    found = SubgraphMatcher(graph_of(pattern)).match(graph)
    return [Match(each.anchor, each.nodes_map) for each in found]


def graph_of(pattern: Pattern) -> Graph:
    """Return the graph of a function or module; that of a ``GraphModule`` isn't traced again."""
    if isinstance(pattern, Graph | GraphModule):
        return pattern if isinstance(pattern, Graph) else pattern.graph
    tracer = Tracer()
    graph = tracer.trace(pattern)
    # A pattern isn't run, so it needs no code: the root has the attributes that it names.
    graph.owning_module = tracer.root  # type: ignore[assignment]
    return graph


class Matcher(core.Matcher):
    """Compares nodes as the core does, and knows the names of arguments.

    Attributes:
        ignore_literals: Whether a literal of the pattern matches anything.
    """

    ignore_literals = False

    def match_call(self, expected: Node, actual: Node, nodes_map: dict[Node, Any]) -> bool:
        """Return whether two nodes make the same call, with arguments that match."""
        return same_target(expected, actual) and self.match_arguments(expected, actual, nodes_map)

    def match_arguments(self, expected: Node, actual: Node, nodes_map: dict[Node, Any]) -> bool:
        """Return whether the arguments of two calls match, by position or by name."""
        named, others = expected.kwargs, actual.kwargs
        if named.keys() == others.keys() and len(expected.args) == len(actual.args):
            ours = [*expected.args, *named.values()]
            return self.match_value(ours, [*actual.args, *map(others.get, named)], nodes_map)
        for signature in signatures_of(expected.target):
            with contextlib.suppress(TypeError):  # this overload takes other arguments
                ours, theirs = (bound_arguments(signature, each) for each in (expected, actual))
                return self.match_value(ours, theirs, nodes_map)
        return False

    def match_value(self, expected: Any, actual: Any, nodes_map: dict[Node, Any]) -> bool:
        """Return whether an argument in the pattern matches an argument in the graph."""
        is_literal = not isinstance(expected, Node | list | tuple)
        is_ignored = is_literal and self.ignore_literals
        return is_ignored or super().match_value(expected, actual, nodes_map)


def same_target(expected: Node, actual: Node) -> bool:
    """Return whether two nodes call or read the same; of modules or tensors, the type counts.

    If one of the two graphs has no module, there is no type to compare, and the path counts.
    """
    if None in (expected.graph.owning_module, actual.graph.owning_module):
        return (expected.op, expected.target) == (actual.op, actual.target)
    return target_of(expected) == target_of(actual)


def target_of(node: Node) -> object:
    """Return what a node calls or reads, and its opcode; the type of a module or a tensor."""
    owner = node.graph.owning_module
    if node.op in ("call_module", "get_attr"):
        value = operator.attrgetter(str(node.target))(owner)
        if node.op == "call_module" or isinstance(value, Tensor):
            return node.op, type(value)
    return node.op, node.target


@cache
def signatures_of(target: Any) -> list[inspect.Signature]:
    """Return the signatures of one of torch's functions, one per overload."""
    return get_signature_for_torch_op(target) or [] if callable(target) else []


def bound_arguments(signature: inspect.Signature, node: Node) -> list[Any]:
    """Return the arguments of a call in the order of its signature, with the defaults.

    Raises:
        TypeError: The signature takes other arguments.
    """
    bound = signature.bind(*node.args, **node.kwargs)
    bound.apply_defaults()
    return [*bound.arguments.values()]


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
    def returning_nodes(self) -> list[Node]:
        """What the nodes that the pattern returns match, in their order."""
        return [self.nodes_map[each] for each in self.anchor.graph.output_node().all_input_nodes]

    @cached_property
    def inside(self) -> list[Node]:
        """The nodes that the match consists of."""
        return nodes_inside(Match(self.anchor, self.nodes_map))


class SubgraphMatcher(Matcher):
    """Finds a pattern of any number of results. In torch: a class of the same name.

    Args:
        pattern: A graph.
        match_output: Whether the results must be those of the whole graph.
        match_placeholder: Whether an input matches only an input of the graph, or a literal.
        remove_overlapping_matches: Whether to leave out a match that has a node in common with an
            earlier one.
        ignore_literals: Whether a literal of the pattern matches anything.

    Raises:
        ValueError: The pattern returns nothing that it computes, or doesn't use all its nodes.

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
        *nodes, output = pattern.nodes
        results = output.all_input_nodes
        computes = results and all(each.op != "placeholder" for each in results)
        if not computes or not all(each.users for each in nodes):
            raise ValueError("a pattern must use all its inputs, and return values it computes")
        self.pattern = pattern
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        sinks = [each for each in results if len(each.users) == 1]
        self.anchors = [output] if match_output else sinks

    def match_node(self, expected: Node, actual: Any, nodes_map: dict[Node, Any]) -> bool:
        """Return whether a pattern's node, with all that it is computed from, matches a value."""
        is_input = expected.op == "placeholder" and self.match_placeholder
        if is_input and isinstance(actual, Node) and actual.op != "placeholder":
            return False
        return super().match_node(expected, actual, nodes_map)

    def match(self, graph: Graph) -> list[InternalMatch]:
        """Find the pattern in a graph, in the order of what the first anchor matches."""
        found = self.occurrences(graph)
        return without_overlaps(found) if self.remove_overlapping_matches else [*found]

    def occurrences(self, graph: Graph) -> Iterator[InternalMatch]:
        """Yield all matches that could be replaced; they may overlap."""
        for nodes_map in self.complete(self.anchors, {}, graph):
            found = InternalMatch(self.anchors, nodes_map)
            if is_self_contained(found) and not depends_on_itself(found):
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
                    user for each in near[known] for user in each.users if same_target(node, user)
                }
        return sorted(near[anchor]) if anchor in near else graph.nodes


def is_self_contained(found: InternalMatch) -> bool:
    """Return whether only results of a match are used outside of it."""
    inside, results = set(found.inside), found.returning_nodes
    return all(inside.issuperset(node.users) for node in inside if node not in results)


def depends_on_itself(found: InternalMatch) -> bool:
    """Return whether a node inside is computed outside from another result of the match."""
    return any(user in found.inside for node in users_between(found) for user in node.users)


def users_between(found: InternalMatch) -> list[Node]:
    """Return the nodes outside that need a result and come before the last node, in order."""
    last, inside = max(found.inside), set(found.inside)
    reached, waiting = set(inside), [*inside]
    while waiting:
        users = {user for user in waiting.pop().users if user < last} - reached
        waiting += users
        reached |= users
    return sorted(reached - inside)


def without_overlaps(matches: Iterable[InternalMatch]) -> list[InternalMatch]:
    """Return the matches that have no node in common with an earlier one of these."""
    kept: list[InternalMatch] = []
    taken: set[Node] = set()
    for found in matches:
        if taken.isdisjoint(found.inside):
            taken.update(found.inside)
            kept.append(found)
    return kept
