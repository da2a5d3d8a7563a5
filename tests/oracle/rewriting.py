"""torch's matcher, rewriter and fusion, under the lesson's names."""

from __future__ import annotations

import warnings
from typing import Any

from torch.fx import Graph, GraphModule, Node, symbolic_trace
from torch.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher
from torch.fx.subgraph_rewriter import (
    Match,
    ReplacedPatterns,
    replace_pattern,
    replace_pattern_with_filters,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit, which its module imports
    from torch.fx.experimental.optimization import fuse

__all__ = [
    "InternalMatch",
    "Match",
    "Matcher",
    "ReplacedPatterns",
    "SubgraphMatcher",
    "fuse",
    "match",
    "replace_pattern",
    "replace_pattern_with_filters",
]


def graph_of(pattern: Any) -> Graph:
    """The graph that ``replace_pattern`` makes of a pattern."""
    if isinstance(pattern, Graph):
        return pattern
    return pattern.graph if isinstance(pattern, GraphModule) else symbolic_trace(pattern).graph


def match(pattern: Any, graph: Graph) -> list[Match]:
    """Return what ``replace_pattern`` would replace."""
    found = SubgraphMatcher(graph_of(pattern)).match(graph)
    return [Match(each.anchors[0], each.nodes_map) for each in found]


class Matcher:
    """torch's comparison of two nodes."""

    def match_node(self, expected: Node, actual: Node, nodes_map: dict[Node, Any]) -> bool:
        matcher = SubgraphMatcher(expected.graph)
        return matcher._match_nodes(expected, actual, InternalMatch([expected], nodes_map))
