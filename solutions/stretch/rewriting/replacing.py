"""Unlike the core: several results, filters and callbacks, and replacements that bring their parts.

Matches are replaced in the order of the graph. A result of one match may be an input of a later
one, which is updated before it is replaced, and before it is returned.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from torch import nn
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_leaves

from ...code import install
from ...rewriting import Match
from .._paths import attribute_at
from ..graph import map_arg
from .matching import (
    InternalMatch,
    Pattern,
    SubgraphMatcher,
    graph_of,
    users_between,
    without_overlaps,
)

MatchFilter = Callable[[InternalMatch, Graph, Graph], bool]


@dataclass
class ReplacedPatterns:
    """One place where a pattern was replaced. In torch: a class of the same name.

    Attributes:
        anchor: The first node that the pattern returns.
        nodes_map: What each node of the pattern matched.
        replacements: The nodes that were added.
    """

    anchor: Node
    nodes_map: dict[Node, Any]
    replacements: list[Node]


def replace_pattern(gm: GraphModule, pattern: Pattern, replacement: Pattern) -> list[Match]:
    """Replace a pattern of any number of results wherever it occurs, as the core does.

    Attributes that the replacement uses are copied to the module, unless it has one of that name;
    constants of the replacement get new names. In a match that is returned, an input that was
    itself replaced is the new node.

    Raises:
        ValueError: The pattern can't be replaced (``SubgraphMatcher``), or the replacement takes or
            returns another number of values than the pattern.
    """
    replaced = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(each.anchor, each.nodes_map) for each in replaced]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Pattern,
    replacement: Pattern | None = None,
    match_filters: list[MatchFilter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
) -> list[ReplacedPatterns]:
    """Replace a pattern where all filters agree.

    Args:
        gm: The module whose graph is edited.
        pattern: What to look for.
        replacement: What to put there, if there is no callback. If it is a module, submodules
            that the graph no longer calls are removed from ``gm``, as in torch.
        match_filters: Each gets a match, the graph and the pattern's graph, and returns whether
            the match counts. One that doesn't count doesn't overlap with others either.
        ignore_literals: Whether a literal of the pattern matches anything.
        replacement_callback: Gets the same as a filter, and returns the graph to put there.

    Raises:
        ValueError: As for ``replace_pattern``.

    In torch: a function of the same name.
    """
    matcher = SubgraphMatcher(graph_of(pattern), ignore_literals=ignore_literals)
    wanted = (
        found
        for found in matcher.occurrences(gm.graph)
        if all(accepts(found, gm.graph, matcher.pattern) for accepts in match_filters or ())
    )
    replacer = Replacer(gm)
    new: Any = None if replacement_callback else graph_of(replacement)
    for found in without_overlaps(wanted):
        replacer.update(found)
        if replacement_callback:
            new = replacement_callback(found, gm.graph, matcher.pattern)
        replacer.replace(found, new)
    if isinstance(replacement, nn.Module):
        gm.delete_all_unused_submodules()
    gm.recompile()
    return replacer.replaced


class Replacer:
    """Replaces matches in a module's graph, one after the other.

    Attributes:
        gm: The module.
        replaced: The places replaced so far.
        new_values: For each result that was replaced, its new value.
        paths: Where a replacement's attributes and modules are in ``gm``.
    """

    def __init__(self, gm: GraphModule) -> None:
        self.gm = gm
        self.replaced: list[ReplacedPatterns] = []
        self.new_values: dict[Node, Any] = {}
        self.paths: dict[tuple[Graph, str], str] = {}

    def update(self, found: InternalMatch) -> None:
        """Replace the inputs of a match that are results of earlier ones."""
        for node, value in found.nodes_map.items():
            found.nodes_map[node] = map_arg(value, lambda each: self.new_values.get(each, each))

    def replace(self, found: InternalMatch, replacement: Graph) -> None:
        """Put a copy of a graph before the last node of a match, and erase the match.

        Nodes before that one that use its results move after the copy.
        """
        placeholders = replacement.find_nodes(op="placeholder")
        values = dict(zip(placeholders, found.placeholder_nodes, strict=True))
        new_results = tree_leaves(replacement.output_node().args)
        results = dict(zip(found.returning_nodes, new_results, strict=True))
        between, last = users_between(found), max(found.inside)
        with self.gm.graph.inserting_before(last):
            self.gm.graph.graph_copy(replacement, values)
        for node in between:
            last.prepend(node)
        for node, copied in values.items():
            if node.op in ("get_attr", "call_module"):
                copied.target = self.path_of(replacement, str(node.target))
        for old, result in results.items():
            self.new_values[old] = values.get(result, result)  # it may be a number
            old.replace_all_uses_with(self.new_values[old])
        for node in reversed(found.inside):
            node.graph.erase_node(node)
        added = [copied for node, copied in values.items() if node.op != "placeholder"]
        self.replaced.append(ReplacedPatterns(found.anchor, found.nodes_map, added))

    def path_of(self, replacement: Graph, target: str) -> str:
        """Return where ``gm`` has an attribute of a replacement; copy it once if it hasn't."""
        key = replacement, target
        if key not in self.paths:
            self.paths[key] = bring(self.gm, replacement.owning_module, target)
        return self.paths[key]


def bring(gm: GraphModule, source: nn.Module | None, target: str) -> str:
    """Copy an attribute to a module, unless it has one of that name, and return where it is.

    A trace numbers its constants, so equal names mean nothing: each gets a new one.

    """
    is_constant = target.startswith("_tensor_constant")
    if source is None or (attribute_at(gm, target) is not None and not is_constant):
        return target
    names = (f"_tensor_constant{number}" for number in count())
    path = next(each for each in names if not hasattr(gm, each)) if is_constant else target
    install(gm, path, copy.deepcopy(operator.attrgetter(target)(source)))
    return path
