"""Mark every node."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from ..tracer import Tracer


class TaggingTracer(Tracer):
    """Put a tag on every node: placeholders, attributes and the output included.

    The tag is the attribute ``node.tag``. It is in ``node.meta["tag"]`` too: a copy of a graph
    takes ``meta`` along, and leaves other attributes behind.

    In torch: a subclass of ``torch.fx.Tracer``.

    Args:
        tag: what to put on the nodes.
        **options: what ``Tracer`` takes.

    >>> graph = TaggingTracer("encoder").trace(lambda x: x + 1)
    >>> [node.tag for node in graph.nodes]
    ['encoder', 'encoder', 'encoder']
    """

    def __init__(self, tag: Any = "foo", **options: Any) -> None:
        super().__init__(**options)
        self.tag = tag

    def create_node(self, *args: Any, **kwargs: Any) -> Node:
        """Create the node as every tracer does, and put the tag on it.

        Args:
            *args: what ``Tracer.create_node`` takes: kind, target, args, kwargs, name, type_expr.
            **kwargs: the same, by name.

        Returns:
            The node.
        """
        node = super().create_node(*args, **kwargs)
        node.tag = node.meta["tag"] = self.tag  # type: ignore[attr-defined]
        return node
