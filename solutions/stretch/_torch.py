"""What differs between the versions of torch that the reference supports, all in one place."""

from __future__ import annotations

from torch._library import opaque_object

# Whether values of a class are opaque to torch and go by reference; 2.15 has a new name for it.
is_opaque_by_reference = getattr(
    opaque_object, "is_opaque_symbolic_type", opaque_object.is_opaque_reference_type
)
