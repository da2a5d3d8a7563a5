"""The whole reference's own engine, all of it from one module: the finale with the stretch.

``tracer`` beside it makes torch's graphs, nodes and proxies. This one makes the reference's, and
its ``symbolic_trace`` returns the reference's graph module, whose graph the interpreter runs. No
object of ``torch.fx`` is made on the way.

>>> import torch
>>> from solutions.stretch import engine
>>> gm = engine.symbolic_trace(lambda x, n: x**n, {"n": 2})
>>> type(gm.graph).__module__, gm(torch.tensor(3), 2)
('solutions.stretch.graph.graphs', tensor(9))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from .code import CodeGen, CodeWriter, GraphModule, LazyGraphModule, PyTreeCodeGen, python_code
from .graph import Graph, Namespace, Node, map_arg
from .interpreter import Interpreter, ShapeProp, Transformer
from .proxy import Attribute, GraphAppendingTracer, Proxy, TracerBase
from .tracer import TracerOfAnyGraph

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Attribute",
    "CodeGen",
    "CodeWriter",
    "Graph",
    "GraphAppendingTracer",
    "GraphModule",
    "Interpreter",
    "LazyGraphModule",
    "Namespace",
    "Node",
    "Proxy",
    "PyTreeCodeGen",
    "ShapeProp",
    "Tracer",
    "TracerBase",
    "Transformer",
    "map_arg",
    "python_code",
    "symbolic_trace",
]


class Tracer(TracerOfAnyGraph, TracerBase):
    """The whole reference's tracer, on the reference's own graphs and proxies.

    In torch: ``torch.fx.Tracer``.
    """

    create_node = TracerBase.create_node

    def new_graph(self) -> Graph:
        """Return an empty graph that remembers the class of its tracer."""
        return Graph(tracer_cls=type(self))


def symbolic_trace(
    root: nn.Module | Callable[..., Any],
    concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
) -> GraphModule:
    """Trace ``root`` and return a graph module of the reference's.

    Args:
        root: A module or a function.
        concrete_args: Arguments that are known now; see ``Tracer.create_args_for_root``.

    In torch: ``torch.fx.symbolic_trace``.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
