"""torch's own proxies, and what they report to."""

from torch.fx.proxy import (
    Attribute,
    GraphAppendingTracer,
    ParameterProxy,
    Proxy,
    TraceError,
    TracerBase,
)

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "TraceError",
    "TracerBase",
]
