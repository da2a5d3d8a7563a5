"""Draw an fx graph as SVG: the list downwards, one column per top-level module, skips in lanes.

Nothing here imports torch. The data is a ``Picture``, read from the files in ``docs/pictures/``
or made from a graph by ``drawing.listing``.
"""

from __future__ import annotations

from drawing.picture import Link, Node, Panel, Picture, PictureError, load, parse
from drawing.svg import draw
from drawing.table import table

__all__ = [
    "Link",
    "Node",
    "Panel",
    "Picture",
    "PictureError",
    "draw",
    "load",
    "parse",
    "table",
]
