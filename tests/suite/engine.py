"""The engine on whose graphs a transform is judged: the learner's, the cores', or torch's.

With ``--impl core`` and on lessons, a transform works on the graphs of its own engine. The whole
reference and torch work on torch's. A test writes ``symbolic_trace(model)`` and gets either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.fx
from torch import nn
from torch.fx.node import map_aggregate

# The module whose pieces tests get; the fixture `lesson` sets it.
_current: Any = torch.fx


def use(module: Any) -> None:
    """Let the tests that follow get their pieces from a module: a tracer's, or ``torch.fx``."""
    global _current
    _current = module


def symbolic_trace(root: nn.Module | Callable[..., Any]) -> Any:
    """Trace with the engine; return its graph module."""
    return _current.symbolic_trace(root)


def new_graph() -> Any:
    """Return an empty graph of the engine's."""
    return _current.Graph()


def graph_module(root: Any, graph: Any) -> Any:
    """Return a module of the engine's that runs a graph."""
    return _current.GraphModule(root, graph)


def is_graph_module(value: object) -> bool:
    """Return whether a value is a graph module of the engine's."""
    return isinstance(value, _current.GraphModule)


def is_node(value: object) -> bool:
    """Return whether a value is a node of any graph."""
    return hasattr(value, "all_input_nodes")


def map_arg(argument: Any, function: Callable[[Any], Any]) -> Any:
    """Return an argument with ``function(node)`` in the place of each node of any graph."""
    return map_aggregate(argument, lambda leaf: function(leaf) if is_node(leaf) else leaf)
