"""What the tests are written with: comparisons that explain themselves, and the machinery below.

The tests of a lesson need no more than this: the fixture ``lesson`` (the module under test) and
the comparisons exported here.
"""

from tests.suite.cost import is_linear, lines_run
from tests.suite.expect import (
    barred,
    equal,
    holds,
    is_value,
    noting,
    own,
    refuses,
    same_numbers,
    warns_of,
)
from tests.suite.graphs import rows, same_graph
from tests.suite.versions import rest_slow

__all__ = [
    "barred",
    "equal",
    "holds",
    "is_linear",
    "is_value",
    "lines_run",
    "noting",
    "own",
    "refuses",
    "rest_slow",
    "rows",
    "same_graph",
    "same_numbers",
    "warns_of",
]
