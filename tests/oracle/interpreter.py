"""torch's own interpreters, and what they are made of."""

from torch.fx import Interpreter, Transformer
from torch.fx.node import map_aggregate
from torch.fx.passes.shape_prop import ShapeProp, TensorMetadata

__all__ = [
    "Interpreter",
    "ShapeProp",
    "TensorMetadata",
    "Transformer",
    "map_aggregate",
]
