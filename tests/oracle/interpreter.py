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
    "last_users",
    "map_aggregate",
]


def last_users(graph: Graph) -> dict[Node, Node]:
    """What torch's interpreter computes when it is made, the other way round."""
    uses = Interpreter(GraphModule(nn.Module(), graph)).user_to_last_uses
    return {value: node for node, values in uses.items() for value in values}
