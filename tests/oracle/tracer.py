"""torch's own engine."""

from torch.fx import Tracer, symbolic_trace

__all__ = ["Tracer", "symbolic_trace"]
