"""Decide what is recorded, and what about it.

The tracer makes every decision in a small method of its own, so that a subclass can change one
decision and leave the others alone. Here are five subclasses, each a few lines long:

- ``ModulePathTracer`` remembers which module each node comes from (``call_module``,
  ``create_proxy``);
- ``LowerTracer`` and ``LowerReluTracer`` look inside modules that are recorded as one call
  (``is_leaf_module``);
- ``TaggingTracer`` marks every node (``create_node``);
- ``SourceLineTracer`` notes the line of your code that asked for a node (``create_node``);
- ``OutOfPlaceTracer`` refuses what changes a tensor in place (``create_node``).
"""

from .lowering import LowerReluTracer, LowerTracer
from .module_path import ModulePathTracer
from .out_of_place import InPlaceError, OutOfPlaceTracer
from .source_line import SourceLine, SourceLineTracer
from .tagging import TaggingTracer

__all__ = [
    "InPlaceError",
    "LowerReluTracer",
    "LowerTracer",
    "ModulePathTracer",
    "OutOfPlaceTracer",
    "SourceLine",
    "SourceLineTracer",
    "TaggingTracer",
]
