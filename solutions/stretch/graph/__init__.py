"""Unlike the core: a graph with the features of torch's.

- ``names``: names are made and numbered as in torch, and a graph is printed as torch prints it.
- ``nodes``: nodes can be compared: ``x < y`` if ``x`` comes first. Impossible nodes are refused: an
  unknown opcode, a target of the wrong kind. A single argument can be set. When a value is
  replaced, you can leave users out and pass metadata on. Erased nodes can't return to the list.
- ``graphs``: an insertion point also works without a block and without a node. A graph knows its
  module: ``lint`` checks the targets. A graph has a code generator.
- ``storing``: a graph of any length can be pickled.
"""

from __future__ import annotations

from ...graph import map_arg
from .graphs import Graph
from .names import Namespace
from .nodes import Node

__all__ = ["Graph", "Namespace", "Node", "map_arg"]
