"""Watch a tracer at work, and record what torch records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.fx import Node
from torch.fx.proxy import TracerBase

from .record import ExecutionInfo, NamedParameters


class ExecOrderTracer:
    """Watch a tracer at work, and record the execution order.

    In torch: ``torch.distributed.fsdp._trace_utils._ExecOrderTracer``.

    Attributes:
        exec_info: the record of the last trace; ``None`` before the first.

    >>> from torch.fx import Tracer
    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> watcher, tracer = ExecOrderTracer(), Tracer()
    >>> with watcher.patch_tracer(tracer, model):
    ...     graph = tracer.trace(model)
    >>> [type(module).__name__ for module in watcher.exec_info.module_forward_order]
    ['Sequential', 'Linear', 'ReLU', 'Linear']
    >>> [tuple(parameter.shape) for parameter in watcher.exec_info.param_forward_order]
    [(3, 2), (3,), (2, 3), (2,)]
    """

    def __init__(self) -> None:  # given
        self.exec_info: ExecutionInfo | None = None

    @contextmanager
    def patch_tracer(self, tracer: TracerBase, root_module: nn.Module) -> Iterator[None]:
        """Watch ``tracer`` within a ``with`` block, and record in ``exec_info`` what it uses.

        The tracer's ``call_module`` and ``create_proxy`` are replaced on the object, and only
        within the block, even if it fails. ``exec_info`` is a new record from the start.

        A module is recorded before it is called: in ``module_forward_order``, and, if it has
        parameters, with all of them in the list of the module that calls it. While it runs it is
        ``curr_module``, with an empty list of its own.

        A node is recorded after it was created: the parameters it uses are noted in the list of the
        current module, and, where they are new, in ``param_forward_order``.

        Args:
            tracer: any tracer; the block calls its ``trace``.
            root_module: the module that the block traces.
        """
        raise NotImplementedError(
            "exec_order: watch ``tracer`` within a ``with`` block, and record in ``exec_info`` what it uses"
        )

    def parameters_used(
        self, own: NamedParameters, parameters: Mapping[str, nn.Parameter], node: Node, args: Any
    ) -> NamedParameters:
        """Name the parameters that a new node uses.

        A ``call_module`` node uses all parameters of the current module, by their names in it. A
        ``call_function`` or ``call_method`` node uses those among its positional arguments, by
        their names in the root: a proxy stands for a parameter if its node's target is the
        parameter's name. What is nested in a list or passed by keyword isn't looked at. Other
        nodes use none.

        Args:
            own: all parameters of the current module, by their names in it.
            parameters: all parameters of the root by name.
            node: the node.
            args: its positional arguments as the model passed them, proxies among them.

        Returns:
            A new list of names and parameters, in order, repeated where an argument is.
        """
        raise NotImplementedError("exec_order: name the parameters that a new node uses")

    def begin_usages(self, info: ExecutionInfo, module: nn.Module) -> None:
        """Give a module that is called an empty list of usages, also where it had one before.

        Args:
            info: the record.
            module: the module that is called.
        """
        raise NotImplementedError(
            "exec_order: give a module that is called an empty list of usages, also where it had one before"
        )
