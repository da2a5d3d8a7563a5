"""Record the order in which modules and parameters are used.

FSDP shards a model's parameters over many machines, and gathers each group shortly before it is
used. To know what comes when, it watches one symbolic trace: a tracer enters modules and creates
proxies in the very order in which the real model runs. Nothing is added to the tracer's class. Two
methods of one tracer object are replaced while the trace runs, and put back afterwards.

``ExecOrderTracer`` records what torch records, its oddities included. ``CompleteExecOrderTracer``
mends them.
"""

from .complete import CompleteExecOrderTracer
from .record import ExecutionInfo, ParamUsageInfo, TracingConfig
from .watch import ExecOrderTracer

__all__ = [
    "CompleteExecOrderTracer",
    "ExecOrderTracer",
    "ExecutionInfo",
    "ParamUsageInfo",
    "TracingConfig",
]
