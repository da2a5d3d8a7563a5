"""Unlike the core: a graph that holds up where torch's does.

- ``names``: names are numbered as in torch; a name can belong to an object.
- ``nodes``: nodes can be compared, ``x < y`` if ``x`` comes first. Single arguments are set by
  position and by name; ``normalized_arguments`` names them all. Users can be left out when a value
  is replaced, and metadata be passed on. Iterations skip nodes that were erased.
- ``graphs``: impossible nodes are refused: an unknown opcode, a target of the wrong kind, a node
  of another graph, an erased one. An insertion point works without a block, and without a node: at
  the beginning, or the end. ``find_nodes`` finds nodes by opcode and target. A graph knows its
  module: ``lint`` checks the targets, dead code elimination keeps calls that have an effect and
  goes into subgraphs, and the module's hooks are called for each edit. It keeps a code generator.
- ``copying``: graphs can be copied and pickled, at any length.
- ``printing``: a graph is printed as torch prints it, or as a table.
"""

from __future__ import annotations

from torch.fx.node import map_aggregate

from ...graph import map_arg
from .graphs import Graph, InsertPoint
from .names import Namespace
from .nodes import Node, NodeList

__all__ = ["Graph", "InsertPoint", "Namespace", "Node", "NodeList", "map_aggregate", "map_arg"]
