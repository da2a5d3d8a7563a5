"""What differs between the versions of torch that the reference supports, all in one place."""

from __future__ import annotations

from typing import Any

from torch._library import opaque_object
from torch.fx import _symbolic_trace as torch_fx

# Whether values of a class are opaque to torch and go by reference; 2.15 has a new name for it.
is_opaque_by_reference = getattr(
    opaque_object, "is_opaque_symbolic_type", opaque_object.is_opaque_reference_type
)


def tracing_flag() -> tuple[dict[str, Any], str]:
    """Return where torch notes that this thread traces: a namespace, and the name in it.

    Up to 2.13 it is a global that all threads share; later each thread has its own.
    """
    own = getattr(torch_fx, "_is_fx_tracing_tls", None)
    return (vars(torch_fx), "_is_fx_tracing_flag") if own is None else (vars(own), "flag")
