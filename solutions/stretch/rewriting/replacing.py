"""Unlike the core: several results, filters and callbacks, and replacements that bring their parts.

Matches are replaced in the order of the graph. What took the place of a result is remembered: a
later match that has it as an input is updated before it is replaced, and before it is returned.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from torch import nn
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from ...rewriting import Match
from .finding import (
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
    """Replace a pattern wherever it occurs, and recompile the module; the core says more.

    In torch: ``torch.fx.replace_pattern``.

    Args:
        gm: The module whose graph is edited. What the replacement uses is copied to it, but for
            what it has under the same name; constants of the replacement get new names.
        pattern: What to look for.
        replacement: What to put there. It takes as many inputs as the pattern, in the same order,
            and returns as many values.

    Returns:
        The matches. An input that was itself replaced is the node that took its place.

    Raises:
        ValueError: The pattern computes nothing, or something that it doesn't return; or the
            replacement takes or returns another number of values than the pattern.
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

    In torch: a function of the same name.

    Args:
        gm: The module whose graph is edited.
        pattern: What to look for.
        replacement: What to put there, if there is no callback. If it is a module, submodules
            that the graph no longer calls are removed from ``gm``, as in torch.
        match_filters: Each gets a match, the graph and the pattern's graph, and tells whether the
            match counts. One that doesn't count doesn't overlap with others either.
        ignore_literals: Whether a literal of the pattern matches anything.
        replacement_callback: Gets the same as a filter, and returns the graph to put there.

    Returns:
        The places, in the order of the graph.

    Raises:
        ValueError: As for ``replace_pattern``; or there is neither replacement nor callback.
    """
    if replacement is None and replacement_callback is None:
        raise ValueError("nothing to put there: pass a replacement or a replacement_callback")
    matcher = SubgraphMatcher(graph_of(pattern), ignore_literals=ignore_literals)
    wanted = (
        found
        for found in matcher.occurrences(gm.graph)
        if all(accepts(found, gm.graph, matcher.pattern) for accepts in match_filters or ())
    )
    replacer = Replacer(gm)
    new = graph_of(replacement) if replacement is not None else None
    for found in without_overlaps(wanted):
        replacer.update(found)
        if replacement_callback is not None:
            new = replacement_callback(found, gm.graph, matcher.pattern)
        replacer.replace(found, new)  # type: ignore[arg-type]
    if isinstance(replacement, nn.Module):
        gm.delete_all_unused_submodules()
    gm.recompile()
    return replacer.replaced


class Replacer:
    """Replaces matches in a module's graph, one after the other.

    Attributes:
        gm: The module.
        replaced: The nodes replaced so far.
        new_values: What took the place of each result that was replaced.
        paths: Where a replacement's attributes and modules are in ``gm``.
    """

    def __init__(self, gm: GraphModule) -> None:
        self.gm = gm
        self.replaced: list[ReplacedPatterns] = []
        self.new_values: dict[Node, Any] = {}
        self.paths: dict[tuple[Graph, str], str] = {}

    def update(self, found: InternalMatch) -> None:
        """Let a match refer to what took the place of its inputs."""
        for node, value in found.nodes_map.items():
            found.nodes_map[node] = map_arg(value, lambda each: self.new_values.get(each, each))

    def replace(self, found: InternalMatch, replacement: Graph) -> None:
        """Put a copy of a graph before the last node of a match, and erase the match.

        Nodes before that one that use its results move after the copy.
        """
        placeholders = replacement.find_nodes(op="placeholder")
        results = tree_leaves(replacement.output_node().args)
        check_number("inputs", found.placeholder_nodes, placeholders)
        check_number("results", found.returning_nodes, results)
        values = dict(zip(placeholders, found.placeholder_nodes, strict=True))
        between, last = users_between(found), max(found.inside)
        with self.gm.graph.inserting_before(last):
            self.gm.graph.graph_copy(replacement, values)
        for node in between:
            last.prepend(node)
        added = [copied for node, copied in values.items() if node.op != "placeholder"]
        for node, copied in values.items():
            if node.op in ("get_attr", "call_module"):
                copied.target = self.path_of(replacement, str(node.target))
        for old, result in zip(found.returning_nodes, results, strict=True):
            new = values.get(result, result)
            if isinstance(old, Node) and old is not new:  # a literal has no users
                self.new_values[old] = new
                old.replace_all_uses_with(new, lambda user: user not in added)
        for node in reversed(found.inside):
            node.graph.erase_node(node)
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

    Args:
        gm: The module to copy to.
        source: The module to copy from, if there is one.
        target: The path of the attribute in ``source``.
    """
    is_constant = target.startswith("_tensor_constant")
    if source is None or (has_path(gm, target) and not is_constant):
        return target
    names = (f"_tensor_constant{number}" for number in count())
    path = next(each for each in names if not hasattr(gm, each)) if is_constant else target
    owner, _, name = path.rpartition(".")
    if not has_path(gm, owner):
        gm.add_submodule(owner, nn.Module())
    setattr(gm.get_submodule(owner), name, copy.deepcopy(operator.attrgetter(target)(source)))
    return path


def has_path(module: nn.Module, path: str) -> bool:
    """Tell whether a dotted path leads to something; the empty one does."""
    try:
        return not path or operator.attrgetter(path)(module) is not None
    except AttributeError:
        return False


def check_number(what: str, expected: Sequence[Any], actual: Sequence[Any]) -> None:
    """Refuse a replacement that doesn't fit.

    Raises:
        ValueError: The numbers differ.
    """
    if len(expected) != len(actual):
        raise ValueError(
            f"the pattern has {len(expected)} {what}, and the replacement {len(actual)}: "
            "they must have the same number, in the same order"
        )
