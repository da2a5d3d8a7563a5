"""torch's own interpreters."""

from torch.fx import Interpreter, Transformer
from torch.fx.passes.shape_prop import ShapeProp

__all__ = ["Interpreter", "ShapeProp", "Transformer"]
