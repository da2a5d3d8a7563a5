"""Unlike the core: whatever a graph holds, and modules that can be copied, stored and edited.

- ``codegen``: a graph's ``CodeGen`` may write the first line, the ``return`` and the body: pytrees
  are taken apart and built again.
- ``writing``: whatever is inside a container, and objects of any type, can be arguments. Numbers
  and names that need care are written so that Python reads what was meant. Attributes, operators in
  place, and ``x[0] = y`` are written as such. Annotations may be of any kind, and nodes may share a
  name.
- ``modules``: a root may be a dict, and submodules can be added and deleted. Python's debugger and
  tracebacks show generated lines, and an error says which one failed. ``LazyGraphModule`` generates
  code when it is asked for.
- ``storing``: graph modules are pickled with their graph: nothing is traced again. A module can be
  written to a folder, as a package that needs no graph.
- ``graphs``: a graph has the methods ``python_code`` and ``on_generate_code``.
"""

from __future__ import annotations

from ...code import PythonCode, attribute, install, last_uses
from .codegen import CodeGen, PyTreeCodeGen
from .graphs import Graph
from .modules import GraphModule, LazyGraphModule, compiled
from .writing import CodeWriter, python_code

__all__ = [
    "CodeGen",
    "CodeWriter",
    "Graph",
    "GraphModule",
    "LazyGraphModule",
    "PyTreeCodeGen",
    "PythonCode",
    "attribute",
    "compiled",
    "install",
    "last_uses",
    "python_code",
]
