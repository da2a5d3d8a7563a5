"""Unlike the core: patterns of any shape, replacements that bring their own parts, and reasons.

- ``comparing``: an argument may be passed by position or by name, and be in a dict or a slice; an
  attribute that is a tensor matches any tensor of its type.
- ``finding``: a pattern may be a graph, and return several values. The options are torch's.
- ``replacing``: a replacement brings the modules and tensors that it uses. A value that is used
  between the nodes of a match is used after the copy. Filters and callbacks are torch's.
- ``fusing``: linear layers and transposed convolutions, too; what would be fused wrong stays.
- ``explaining``: why a pattern was not found: the nearest miss, node beside node.
"""

from __future__ import annotations

from ...rewriting import Match, is_contained
from .comparing import Matcher
from .explaining import Explanation, explain
from .finding import InternalMatch, SubgraphMatcher, match
from .fusing import fuse
from .replacing import ReplacedPatterns, replace_pattern, replace_pattern_with_filters

__all__ = [
    "Explanation",
    "InternalMatch",
    "Match",
    "Matcher",
    "ReplacedPatterns",
    "SubgraphMatcher",
    "explain",
    "fuse",
    "is_contained",
    "match",
    "replace_pattern",
    "replace_pattern_with_filters",
]
