"""torch's own code generation; its steps are functions inside one function, without names."""

from torch.fx import Graph, GraphModule
from torch.fx.graph import CodeGen
from torch.fx.graph import _format_target as attribute
from torch.fx.graph import _PyTreeCodeGen as PyTreeCodeGen

__all__ = ["CodeGen", "Graph", "GraphModule", "PyTreeCodeGen", "attribute", "python_code"]


def python_code(graph: Graph):
    """The source and the globals of torch's ``PythonCode``."""
    code = graph.python_code("self")
    return code.src, code.globals
