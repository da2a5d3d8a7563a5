"""Unlike the core: ``CompleteExecOrderTracer``, which misses no use of a parameter.

A configuration has the whole reference's tracer, which records wrapped functions as torch's does.
The core does what torch does, including its mistakes. This tracer finds parameters anywhere among
the arguments, compares parameters and not names, and keeps the usages of a module that is called
again.
"""

# ruff: noqa: PLC0414 - what isn't replaced is passed on

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.fx import Node

from .. import exec_order as core
from ..exec_order import ExecOrderTracer as ExecOrderTracer
from ..exec_order import ExecutionInfo as ExecutionInfo
from ..exec_order import Fetch as Fetch
from ..exec_order import NamedParameters, named
from ..exec_order import ParamUsageInfo as ParamUsageInfo
from ..exec_order import apply_prefetch as apply_prefetch
from ..exec_order import prefetch_plan as prefetch_plan
from ..exec_order import units_in_order as units_in_order
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


class CompleteExecOrderTracer(ExecOrderTracer):
    """Watch a tracer at work, and miss no use of a parameter.

    It differs from ``ExecOrderTracer`` in this:

    - parameters count wherever they are among the arguments: by keyword, in a list, and where a
      module is called;
    - only a node that reads a parameter stands for it: a ``forward`` may have an argument that is
      named like one;
    - a module that is called again keeps the usages of the calls before.

    torch has nothing like it.

    >>> import torch
    >>> class Scaled(nn.Linear):
    ...     def forward(self, x):
    ...         return torch.mul(x, other=self.weight)
    >>> model, watcher, tracer = Scaled(2, 2), CompleteExecOrderTracer(), torch.fx.Tracer()
    >>> with watcher.patch_tracer(tracer, model):
    ...     graph = tracer.trace(model)
    >>> watcher.exec_info.param_forward_order == [model.weight]
    True
    """

    def record_call(
        self,
        info: ExecutionInfo,
        call_module: Callable[..., Any],
        module: nn.Module,
        *how: Any,
    ) -> Any:
        """Record that a module is called, call it, and keep the usages of its earlier calls.

        Args:
            info: The record.
            call_module: The tracer's method.
            module: The module that is called.
            *how: The other arguments of ``call_module``: forward, args, kwargs.

        Returns:
            What ``call_module`` returns.
        """
        earlier = info.module_to_param_usage_infos.get(module, [])
        output = super().record_call(info, call_module, module, *how)
        info.module_to_param_usage_infos[module][:0] = earlier
        return output

    def parameters_used(
        self,
        info: ExecutionInfo,
        parameters: Mapping[str, nn.Parameter],
        node: Node,
        args: tuple[Any, ...],
    ) -> NamedParameters:
        """Name the parameters that a new node uses, wherever they are among its arguments.

        Args:
            info: The record.
            parameters: All parameters of the root by name.
            node: The node.
            args: Its positional arguments as the model passed them.

        Returns:
            A new list of names and parameters, in order, each read once.
        """
        called = super().parameters_used(info, parameters, node, ())
        return called + named(parameters, [n for n in node.all_input_nodes if n.op == "get_attr"])
