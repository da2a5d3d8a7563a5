"""Unlike the core: a graph may hold any value, and modules can be copied, stored and edited.

- ``codegen``: a graph's ``CodeGen`` may write the first line, the ``return`` and the body. One of
  them flattens containers and rebuilds them. A graph has the method ``on_generate_code``.
- ``writing``: any object can be an argument, also inside a container, and annotations can be of any
  kind. Attributes, in-place operators and ``x[0] = y`` are written as such. Nodes may share a name.
  A graph has the method ``python_code``.
- ``modules``: graph modules are copied and pickled with their graph, without tracing it again.
  Submodules can be added and deleted. Tracebacks show generated lines, and an error says which one
  failed. ``LazyGraphModule`` generates code only when it is needed. A module can be written to a
  folder, as a package that needs no graph.
"""

from __future__ import annotations

from ..graph import Graph
from .codegen import CodeGen, PyTreeCodeGen
from .modules import GraphModule, LazyGraphModule, compiled
from .writing import CodeWriter, python_code

__all__ = [
    "CodeGen",
    "CodeWriter",
    "Graph",
    "GraphModule",
    "LazyGraphModule",
    "PyTreeCodeGen",
    "compiled",
    "python_code",
]
