"""torch's own interpreters, and what they are made of."""

from torch import nn
from torch.fx import Graph, GraphModule, Interpreter, Node, Transformer
from torch.fx.node import map_aggregate
from torch.fx.passes.shape_prop import ShapeProp, TensorMetadata

__all__ = [
    "Interpreter",
    "ShapeProp",
    "TensorMetadata",
    "Transformer",
    "last_uses",
    "map_aggregate",
]


def last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """What torch's interpreter computes when it is made."""
    return Interpreter(GraphModule(nn.Module(), graph)).user_to_last_uses
