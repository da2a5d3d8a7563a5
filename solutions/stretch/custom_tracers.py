"""Unlike the core: options reach the tracer, tags survive a copy, and you choose what to lower.

- ``ModulePathTracer``, ``LowerReluTracer`` and ``TaggingTracer`` derive from the tracer of the
  stretch, and take its options. ``create_proxy`` names its parameters, because the tracer looks for
  one of them in the signature. The tag is also in ``node.meta``, which is copied with a graph.
- ``LowerTracer`` traces through modules of any types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.fx import Node, Proxy
from torch.fx.node import Target

from .. import custom_tracers as core
from .tracer import Tracer

__all__ = ["LowerReluTracer", "LowerTracer", "ModulePathTracer", "TaggingTracer"]


class ModulePathTracer(core.ModulePathTracer, Tracer):
    """Record, for each node, the path of the module whose ``forward`` made it.

    It is the core's, except for the signature of ``create_proxy``.

    >>> tracer = ModulePathTracer(param_shapes_constant=True)
    >>> graph = tracer.trace(nn.Sequential(nn.ReLU()))
    >>> list(tracer.node_to_originating_module.values())
    ['', '0']
    """

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
        """Create the proxy as ``Tracer`` does, and record the current path for its node.

        In torch: ``TracerBase.create_proxy``; the tracer passes ``proxy_factory_fn`` only if it
        finds a parameter of that name.
        """
        return super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)


class LowerReluTracer(core.LowerReluTracer, Tracer):
    """Trace through every ``nn.ReLU``; other modules are leaves if they are for ``Tracer``.

    >>> graph = LowerReluTracer().trace(nn.Sequential(nn.ReLU()))
    >>> [node.op for node in graph.nodes]
    ['placeholder', 'call_function', 'output']
    """


class LowerTracer(Tracer):
    """Trace through modules of the given types; others are leaves if they are for ``Tracer``.

    Args:
        *types: The classes of modules to trace through, subclasses included.
        **options: What ``Tracer`` takes.

    In torch: a subclass of ``torch.fx.Tracer``.

    >>> model = nn.Sequential(nn.GELU(), nn.Sigmoid())
    >>> for node in LowerTracer(nn.GELU).trace(model).nodes:
    ...     print(node.op, node.name)
    placeholder input_1
    call_function gelu
    call_module _1
    output output
    """

    def __init__(self, *types: type[nn.Module], **options: Any) -> None:
        super().__init__(**options)
        self.types = types

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Return whether a call of ``m`` is one node: never if it is of the given types."""
        return not isinstance(m, self.types) and super().is_leaf_module(m, module_qualified_name)


class TaggingTracer(core.TaggingTracer, Tracer):
    """Put a tag on every node, as ``node.tag`` and as ``node.meta["tag"]``.

    A copy of a graph has a copy of ``meta``, and of no other attribute of a node.

    >>> from copy import deepcopy
    >>> graph = deepcopy(TaggingTracer("encoder").trace(lambda x: x + 1))
    >>> [node.meta["tag"] for node in graph.nodes]
    ['encoder', 'encoder', 'encoder']
    """

    def create_node(self, *args: Any, **kwargs: Any) -> Node:
        """Create the node as the core does, and put the tag in ``meta``, too."""
        node = super().create_node(*args, **kwargs)
        node.meta["tag"] = self.tag
        return node
