"""Unlike the core: options reach the tracer, and tags survive a copy.

The three classes derive from the tracer of the stretch, and take its options. ``create_proxy``
has the signature of the tracer's, which looks for a parameter in it. The tag is also in
``node.meta``, which is copied with a graph.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from torch.fx import Node, Proxy

from .. import custom_tracers as core
from .tracer import Tracer


class ModulePathTracer(core.ModulePathTracer, Tracer):
    """Record, for each node, the path of the module whose ``forward`` made it.

    >>> from torch import nn
    >>> tracer = ModulePathTracer(param_shapes_constant=True)
    >>> graph = tracer.trace(nn.Sequential(nn.ReLU()))
    >>> list(tracer.node_to_originating_module.values())
    ['', '0']
    """

    def __init__(self, **options: Any) -> None:
        super().__init__()
        Tracer.__init__(self, **options)

    # The tracer passes `proxy_factory_fn` only if the signature has a parameter of that name.
    @wraps(Tracer.create_proxy)
    def create_proxy(self, *args: Any, **kwargs: Any) -> Proxy:  # type: ignore[override]
        return super().create_proxy(*args, **kwargs)


class LowerReluTracer(core.LowerReluTracer, Tracer):
    """Trace through every ``nn.ReLU``; other modules are leaves if they are for ``Tracer``."""


class TaggingTracer(core.TaggingTracer, Tracer):
    """Put a tag on every node, as ``node.tag`` and as ``node.meta["tag"]``.

    A copy of a graph has a copy of ``meta``, and of no other attribute of a node.

    >>> from copy import deepcopy
    >>> graph = deepcopy(TaggingTracer("encoder").trace(lambda x: x + 1))
    >>> [node.meta["tag"] for node in graph.nodes]
    ['encoder', 'encoder', 'encoder']
    """

    def __init__(self, tag: Any = "foo", **options: Any) -> None:
        super().__init__(tag)
        Tracer.__init__(self, **options)

    def create_node(self, *args: Any, **kwargs: Any) -> Node:
        """Create the node as the core does, and put the tag in ``meta``, too."""
        node = super().create_node(*args, **kwargs)
        node.meta["tag"] = self.tag
        return node
