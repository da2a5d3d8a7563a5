"""torch's own watcher, which belongs to FSDP1; it has no complete one.

Where torch has none any more, its tests are skipped: what it recorded is kept.
"""

import contextlib

with contextlib.suppress(ImportError):
    from torch.distributed.fsdp._trace_utils import TracingConfig
    from torch.distributed.fsdp._trace_utils import _ExecOrderTracer as ExecOrderTracer
    from torch.distributed.fsdp._trace_utils import _ExecutionInfo as ExecutionInfo
    from torch.distributed.fsdp._trace_utils import _ParamUsageInfo as ParamUsageInfo

    __all__ = ["ExecOrderTracer", "ExecutionInfo", "ParamUsageInfo", "TracingConfig"]
