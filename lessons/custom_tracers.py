"""Decide what a tracer records, and what it remembers about each node.

A tracer makes each of its decisions in a small method, so that a subclass can change one of them
and leave the rest to ``super()``. Here are three subclasses:

- ``LowerReluTracer`` records the operations of ``nn.ReLU`` instead of a call of the module;
- ``TaggingTracer`` puts a tag on every node;
- ``ModulePathTracer`` records which module each node comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from .graph import Node
from .proxy import Proxy
from .tracer import Tracer


class LowerReluTracer(Tracer):
    """Traces through every ``nn.ReLU``; ``Tracer`` decides about all other modules.

    Usually, each call of a module of ``torch.nn`` is one ``call_module`` node. A pass that fuses
    functions doesn't see what such a module does. For ``nn.ReLU`` and its subclasses, this tracer
    records the operations of ``forward`` instead.

    In torch: a subclass of ``torch.fx.Tracer``.

    >>> for node in LowerReluTracer().trace(nn.Sequential(nn.ReLU(), nn.Sigmoid())).nodes:
    ...     print(node.op, node.name, dict(node.kwargs))
    placeholder input_1 {}
    call_function relu {'inplace': False}
    call_module _1 {}
    output output {}
    """

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:  # step 1
        """Return whether a call of ``m`` becomes one node.

        In torch: ``torch.fx.Tracer.is_leaf_module``.
        """
        raise NotImplementedError("custom_tracers: LowerReluTracer.is_leaf_module")


class TaggingTracer(Tracer):
    """Puts a tag on every node: placeholders, attributes and the output included.

    A later pass can ask each node where it belongs: ``node.tag``. Each tracer has its own tag.
    Everything else about a node, such as its annotation, is kept.

    In torch: a subclass of ``torch.fx.Tracer``.

    >>> graph = TaggingTracer("encoder").trace(lambda x: x + 1)
    >>> [node.tag for node in graph.nodes]
    ['encoder', 'encoder', 'encoder']
    """

    def __init__(self, tag: Any = "foo") -> None:  # step 2
        raise NotImplementedError("custom_tracers: TaggingTracer.__init__")

    def create_node(self, *args: Any, **kwargs: Any) -> Node:  # step 2
        """Create a node as ``Tracer`` does, with the tag on it.

        In torch: ``torch.fx.proxy.TracerBase.create_node``.
        """
        raise NotImplementedError("custom_tracers: TaggingTracer.create_node")


class ModulePathTracer(Tracer):
    """Records which module each node came from.

    A graph is a flat list of operations. This tracer keeps the link back to the tree of modules.
    The innermost module counts: the node of a leaf's call belongs to the leaf, and ``x + 1`` to the
    module whose ``forward`` contains it. The tracer can trace more than once.

    Attributes:
        current_module_qualified_name: The path of the module whose call is in progress; ``""``
            for the root.
        node_to_originating_module: Maps each node that ``create_proxy`` made to a path: inputs,
            operations, and parameters that are read. The output has no entry. Each tracer has its
            own dict.

    In torch: ``node.meta["nn_module_stack"]`` holds all modules that are running, outermost first.

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

    def __init__(self) -> None:  # step 3
        raise NotImplementedError("custom_tracers: ModulePathTracer.__init__")

    def call_module(
        self,
        m: nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:  # step 3
        """Call ``m`` as ``Tracer`` does, while its path is the current one.

        In ``self.child(x) + 1``, the addition is recorded after ``child`` has returned, so it
        belongs to the caller again, even if ``child`` raised an error that the caller caught.

        If a module has several names, its path is the one that ``path_of_module`` returns.

        In torch: ``torch.fx.Tracer.call_module``.
        """
        raise NotImplementedError("custom_tracers: ModulePathTracer.call_module")

    def create_proxy(self, *args: Any, **kwargs: Any) -> Proxy:  # step 3
        """Create a proxy as ``Tracer`` does, and note where its node, ``proxy.node``, came from.

        In torch: ``torch.fx.proxy.TracerBase.create_proxy``.
        """
        raise NotImplementedError("custom_tracers: ModulePathTracer.create_proxy")
