"""Remember which module each node comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node, Proxy
from torch.fx.node import Target

from ..tracer import Tracer


class ModulePathTracer(Tracer):
    """Record, for each node, the path of the module whose ``forward`` made it.

    A model's graph is flat: a chain of operations. This tracer keeps the link back to the tree of
    modules. An operation of the model itself has the path ``""``. What isn't made by an operation
    has no entry: the output is one such node.

    In torch: a subclass of ``torch.fx.Tracer``. torch itself keeps a richer record in
    ``node.meta["nn_module_stack"]``.

    Args:
        **options: what ``Tracer`` takes.

    Attributes:
        current_module_qualified_name: the path of the module whose ``forward`` runs now.
        node_to_originating_module: the path for each recorded node. Each tracer has its own.

    >>> from torch import nn
    >>> model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Sigmoid())
    >>> tracer = ModulePathTracer()
    >>> for node in tracer.trace(model).nodes:
    ...     print(node, repr(tracer.node_to_originating_module.get(node)))
    input_1 ''
    _0_0 '0.0'
    _0_1 '0.1'
    _1 '1'
    output None
    """

    current_module_qualified_name: str
    node_to_originating_module: dict[Node, str]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.current_module_qualified_name = ""
        self.node_to_originating_module = {}

    def call_module(
        self,
        m: torch.nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Call ``m`` as every tracer does, and let its path be the current one meanwhile.

        Args:
            m: the module that is called.
            forward: runs the module for real.
            args: its positional arguments.
            kwargs: its keyword arguments.

        Returns:
            What the module returns.
        """
        caller = self.current_module_qualified_name
        self.current_module_qualified_name = self.path_of_module(m)
        try:
            return super().call_module(m, forward, args, kwargs)
        finally:
            self.current_module_qualified_name = caller

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Create the proxy as every tracer does, and note the path its node comes from.

        Args:
            kind: the node's opcode.
            target: what the node calls or reads.
            args: its positional arguments, proxies among them.
            kwargs: its keyword arguments.
            name: the name the node should have.
            type_expr: its annotation.
            proxy_factory_fn: makes the proxy. A tracer that finds no such parameter does without.

        Returns:
            The proxy.
        """
        proxy = super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)
        self.node_to_originating_module[proxy.node] = self.current_module_qualified_name
        return proxy
