"""Draw an fx graph as SVG: the list downwards, one column per top-level module, skips in lanes.

Nothing here imports torch. The data is a ``Picture``; ``drawing.listing`` makes its panels from
graphs.
"""

from __future__ import annotations

from drawing.picture import Link, Node, Panel, Picture
from drawing.svg import draw
from drawing.table import table

__all__ = ["Link", "Node", "Panel", "Picture", "draw", "table"]
