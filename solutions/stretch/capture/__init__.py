"""Unlike the core: what a model writes comes back, and a backward is captured too.

- ``program`` makes a real ``ExportedProgram``, which ``torch.export.unflatten`` and everything else
  of export takes. Buffers and inputs that the model writes are outputs of it: batch norm in
  training, a cache. The core drops these writes.
- ``capture_joint`` records forward and backward in one graph, as AOTAutograd does for a compiler.
- Inputs for which a capture would be wrong are refused by name: sparse tensors, subclasses of
  ``Tensor``, tensors with symbolic sizes.
- ``writes``: what functionalization does, written by hand. ``capture_writes`` turns each write into
  a value itself.
"""

from __future__ import annotations

from .programs import Recorder, capture, capture_joint, program
from .writes import WriteRecorder, capture_writes, window

__all__ = [
    "Recorder",
    "WriteRecorder",
    "capture",
    "capture_joint",
    "capture_writes",
    "program",
    "window",
]
