"""What is known of a forward pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from ..tracer import Tracer

NamedParameters = list[tuple[str, nn.Parameter]]


@dataclass
class TracingConfig:
    """How a model is to be traced before its execution order is recorded.

    In torch: ``torch.distributed.fsdp._trace_utils.TracingConfig``.

    Attributes:
        tracer: the tracer to use; a model may need one of its own kind.
        concrete_args: arguments of ``forward`` that are values and not proxies.

    >>> TracingConfig(concrete_args={"mask": None}).concrete_args
    {'mask': None}
    """

    tracer: Tracer | torch.fx.Tracer = field(default_factory=Tracer)
    concrete_args: dict[str, Any] | None = None


class ParamUsageInfo(NamedTuple):
    """Parameters that are used together, and the module they are used in.

    Either a module was called: then these are the module and all its parameters. Or an operation
    took parameters as arguments: then these are the module that ran and those parameters.

    In torch: ``torch.distributed.fsdp._trace_utils._ParamUsageInfo``.
    """

    module: nn.Module
    named_params: NamedParameters


class ExecutionInfo:
    """What is known of a forward pass: which modules and parameters were used, in which order.

    In torch: ``torch.distributed.fsdp._trace_utils._ExecutionInfo``.

    Args:
        root_module: the module that is traced.

    Attributes:
        curr_module: the module whose ``forward`` runs now.
        module_forward_order: the root, then one entry for each call of a module.
        module_to_param_usage_infos: for each module that was called, what it used, in order.
        param_forward_order: the parameters in the order of their first use.
        visited_params: the same parameters, as a set.

    >>> info = ExecutionInfo(nn.Linear(2, 2))
    >>> info.module_forward_order, info.param_forward_order
    ([Linear(in_features=2, out_features=2, bias=True)], [])
    """

    def __init__(self, root_module: nn.Module) -> None:  # given
        self.curr_module: nn.Module = root_module
        self.module_forward_order: list[nn.Module] = [root_module]
        self.module_to_param_usage_infos: dict[nn.Module, list[ParamUsageInfo]] = {root_module: []}
        self.param_forward_order: list[nn.Parameter] = []
        self.visited_params: set[nn.Parameter] = set()
