"""Unlike the core: a configuration has the whole reference's tracer.

It records wrapped functions as torch's does. The rest of the stretch needs no code of its own: the
core leaves the tracer as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .. import exec_order as core
from .tracer import Tracer


@dataclass
class TracingConfig(core.TracingConfig):
    """The core's, whose tracer is the whole reference's: wrapped functions are recorded as calls.

    In torch: ``torch.distributed.fsdp._trace_utils.TracingConfig``.

    >>> import math
    >>> [node.name for node in TracingConfig().tracer.trace(lambda x: math.sqrt(x)).nodes]
    ['x', 'sqrt', 'output']
    """

    tracer: Tracer = field(default_factory=Tracer)
