"""Unlike the core: patterns with several results, and replacements that bring their own parts.

- ``matching``: a pattern may be a graph, and return several values. An argument may be passed by
  position or by name. A tensor attribute matches any tensor of its type.
- ``replacing``: a replacement brings the modules and tensors that it uses. A value that is used
  between the nodes of a match is used after the copy. Filters and callbacks are torch's.
- ``fusing``: linear layers, too. A pair is left alone if fusing it would change the result.
"""

from __future__ import annotations

from .fusing import fuse
from .matching import InternalMatch, Matcher, SubgraphMatcher, match
from .replacing import ReplacedPatterns, replace_pattern, replace_pattern_with_filters

__all__ = [
    "InternalMatch",
    "Matcher",
    "ReplacedPatterns",
    "SubgraphMatcher",
    "fuse",
    "match",
    "replace_pattern",
    "replace_pattern_with_filters",
]
