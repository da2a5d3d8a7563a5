"""torch's own engine."""

from torch.fx import GraphModule, Tracer, symbolic_trace

__all__ = ["GraphModule", "Tracer", "symbolic_trace"]
