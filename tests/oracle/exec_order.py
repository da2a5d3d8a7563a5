"""torch's own watcher, which FSDP uses; it has no complete one."""

from torch.distributed.fsdp._trace_utils import (
    TracingConfig,
    _ExecOrderTracer,
    _ExecutionInfo,
    _ParamUsageInfo,
)

ExecOrderTracer = _ExecOrderTracer
ExecutionInfo = _ExecutionInfo
ParamUsageInfo = _ParamUsageInfo

__all__ = ["ExecOrderTracer", "ExecutionInfo", "ParamUsageInfo", "TracingConfig"]
