"""What the lesson ``tracer`` gives you."""

from __future__ import annotations

from typing import Any

from torch.fx import _symbolic_trace as torch_fx


def tracing_flag() -> tuple[Any, str]:
    """Return where torch's flag for a running trace is: an object and an attribute name.

    Up to torch 2.13 it is one global for all threads; in newer versions each thread has its own.
    """
    own = getattr(torch_fx, "_is_fx_tracing_tls", None)
    return (torch_fx, "_is_fx_tracing_flag") if own is None else (own, "flag")
