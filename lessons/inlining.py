"""Replace a call with the operations of its callee.

A call is a ``call_module``, ``call_function`` or ``call_method`` node; its callee is the module or
function to run in its place. To inline a call, trace the callee into the same graph: run it with
proxies of the node's arguments, so that its operations are added right before the call. Then
replace all uses of the call with what the callee returned, and erase the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn

from .code import GraphModule
from .graph import Node
from .tracer import Tracer


class Call(NamedTuple):
    """A node to replace, and what to run in its place."""

    node: Node
    callee: Callable[..., Any]


class CallRecorder(Tracer):
    """A tracer that runs the callees of given calls and records them in an existing graph.

    ``Tracer.trace`` creates a graph. Here ``root`` and ``graph`` already exist, so you never call
    it. All you need of a trace is the block of ``self.patched_modules()``.

    Args:
        gm: The module whose graph has the calls: one of yours, or one of torch's.
        calls: The calls to record, in the graph's order.
        is_leaf: Returns whether a module may be a leaf; ``Tracer.is_leaf_module`` has to agree.
    """

    # Record buffer reads as nodes. Otherwise an in-place update of a buffer would run right now.
    proxy_buffer_attributes = True

    def __init__(  # given
        self, gm: GraphModule, calls: list[Call], is_leaf: Callable[[nn.Module], bool]
    ) -> None:
        super().__init__()
        self.root, self.graph = gm, gm.graph
        self.gm = gm
        self.calls = calls
        self.is_leaf = is_leaf

    def record(self) -> list[Any]:  # step 2
        """Record all callees; if one fails, leave the graph as it was.

        Suppose that the third of five callees branches on a proxy. The operations of the first two
        are in the graph already. So all nodes that were added have to go, whatever was raised
        (``KeyboardInterrupt`` too), before it is raised again.

        Returns:
            The result of ``record_call`` for each call, in order.

        >>> import torch
        >>> from lessons.tracer import symbolic_trace
        >>> gm = symbolic_trace(lambda x: torch.exp(x) + torch.log(x))
        >>> x, exp, log, add, output = gm.graph.nodes
        >>> calls = [Call(exp, lambda x: 2**x), Call(log, lambda x: x - 1)]
        >>> CallRecorder(gm, calls, lambda module: True).record()
        [pow_1, sub]
        >>> list(gm.graph.nodes)
        [x, pow_1, exp, sub, log, add, output]
        """
        raise NotImplementedError("inlining: CallRecorder.record")

    def record_call(self, call: Call) -> Any:  # step 2
        """Run one callee with proxies of its node's arguments; add its operations before the node.

        ``torch.cat([x, y], dim=0)`` has two nodes in a list, and a number. Nodes become proxies
        wherever they are, and other values are passed as they are, so ``if dim == 0`` works in the
        callee. ``self.proxy(node)`` makes a proxy, and ``map_arg`` reaches every node.

        Returns:
            The result of the callee, converted to a node argument by ``create_arg``.

        Raises:
            TraceError: The callee raised an ``Exception``, usually because it needs the value of a
                proxy. The message contains the callee (a function's name, a module's class), the
                node, and the error with its class: of ``KeyError('x')``, the text is only ``'x'``.
        """
        raise NotImplementedError("inlining: CallRecorder.record_call")

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:  # step 2
        """Return whether ``m`` is a leaf: both ``self.is_leaf`` and ``Tracer`` have to say so."""
        raise NotImplementedError("inlining: CallRecorder.is_leaf_module")

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> Any:  # step 2
        """Record a call of ``m`` as ``Tracer`` does, without its check of the input's dimensions.

        The ``forward`` of a batch norm begins with ``self._check_input_dim(input)``, which asks for
        a number of dimensions, and a proxy has none. The check computes nothing. So during the
        call, ``m._check_input_dim`` does nothing either; afterwards it is the original again.
        Modules without such a method are recorded as usual.
        """
        raise NotImplementedError("inlining: CallRecorder.call_module")


def replace(call: Node, result: Any) -> None:  # step 1
    """Put a result in place of a call in all its users, and erase the call.

    In ``torch.cat([exp, x])`` and ``torch.add(x, other=exp)``, the call ``exp`` is inside the
    arguments; the result has to go there too. If the result is a tuple or a dict, its users are
    often ``operator.getitem(call, index)``. Their value is known now, so no ``getitem`` remains:
    such a user is itself replaced with ``result[index]``, which may be a tuple again.

    ``result`` is an argument for the users: a node, a constant, or a structure of both.

    >>> from lessons.tracer import symbolic_trace
    >>> gm = symbolic_trace(lambda x: x.max(dim=0)[1] + 1)
    >>> x, largest, *_ = gm.graph.nodes
    >>> replace(largest, (7, x))
    >>> print([(node.name, node.args) for node in gm.graph.nodes][1:])
    [('add', (x, 1)), ('output', (add,))]
    """
    raise NotImplementedError("inlining: replace")


def call_in(gm: GraphModule, node: Node, fn: Callable[..., Any]) -> Call:  # given
    """Return a ``Call`` that puts ``fn`` in place of a node.

    Raises:
        ValueError: ``node`` isn't a call, or isn't in the graph of ``gm``; the error names it.
    """
    if node.graph is not gm.graph or not node.op.startswith("call_"):
        raise ValueError(
            f"cannot replace node {node.name!r} ({node.op}): "
            "choose a call_function, call_method or call_module node of this module's graph"
        )
    return Call(node, fn)


def module_calls(gm: GraphModule, target: str | None = None) -> list[Call]:  # given
    """Return the calls of one submodule, or of all of them."""
    nodes = gm.graph.find_nodes(op="call_module", target=target)
    return [Call(node, gm.get_submodule(node.target)) for node in nodes]


def inline(recorder: CallRecorder) -> GraphModule:  # step 3
    """Record the calls of a recorder, put the results in their places, and recompile its module.

    Which call do you replace first? In ``second(first(x))``, suppose that ``second`` returns its
    argument. Then its result *is* the node of ``first``. If you replaced ``first`` before it, the
    result would be a node that was erased.

    Returns:
        The recorder's module.
    """
    raise NotImplementedError("inlining: inline")


def inline_function(gm: GraphModule, node: Node, fn: Callable[..., Any]) -> GraphModule:  # step 3
    """Replace one node with the operations that ``fn`` performs on the node's arguments.

    ``fn`` receives a proxy for each node in the arguments, and other values unchanged. It may read
    parameters of ``gm`` and call its submodules; a call of a leaf module becomes one node, as in
    any trace. If ``fn`` raises an error, the graph is left unchanged.

    Returns:
        ``gm`` itself, edited and recompiled.

    Raises:
        ValueError: ``node`` isn't a call, or isn't in the graph of ``gm``: ``call_in`` says so.
        TraceError: ``fn`` needs a value that isn't known until the graph runs. The error names
            ``fn`` and the node.

    In torch: no such function; its documentation inlines by hand with ``torch.fx.Proxy``.

    >>> import torch
    >>> from lessons.tracer import symbolic_trace
    >>> gm = symbolic_trace(lambda x: torch.square(x) + 1)
    >>> square = gm.graph.find_nodes(op="call_function", target=torch.square)[0]
    >>> [node.name for node in inline_function(gm, square, lambda x: x * x).graph.nodes]
    ['x', 'mul', 'add', 'output']
    """
    raise NotImplementedError("inlining: inline_function")


def inline_module(gm: GraphModule, target: str) -> GraphModule:  # step 4
    """Replace every call of one submodule with the operations in its ``forward``.

    The submodule is traced as a root would be: leaf modules inside it become ``call_module`` nodes
    with their full path, and other modules inside it are inlined. The submodule itself is never a
    leaf, even if it is an ``nn.Linear``. Parameters and buffers are read by ``get_attr`` nodes and
    are not moved, so ``state_dict`` keeps its keys.

    The graph is edited in place, and its other nodes are kept. If it never calls the target,
    nothing changes. If the callee raises an error, the graph is left unchanged.

    Returns:
        ``gm`` itself, edited and recompiled.

    Raises:
        AttributeError: ``gm`` has no submodule of that name.
        TraceError: The callee's ``forward`` needs a value that isn't known until the graph runs.
            The error names the callee's class and the node.

    In torch: no such function.

    >>> from lessons.tracer import symbolic_trace
    >>> gm = symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.Hardtanh()))
    >>> [node.name for node in gm.graph.nodes]
    ['input_1', '_0', '_1', 'output']
    >>> [node.name for node in inline_module(gm, "0").graph.nodes]
    ['input_1', '_0_weight', '_0_bias', 'linear', '_1', 'output']
    """
    raise NotImplementedError("inlining: inline_module")


def inline_all(gm: GraphModule) -> GraphModule:  # step 5
    """Replace every call of every submodule, all the way down.

    If one of the callees raises an error, the graph is left unchanged.

    Returns:
        ``gm`` itself, edited and recompiled; no ``call_module`` node is left.

    Raises:
        TraceError: As in ``inline_module``.

    In torch: no such function.

    >>> from lessons.tracer import symbolic_trace
    >>> gm = inline_all(symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.Sigmoid())))
    >>> [node.name for node in gm.graph.nodes]
    ['input_1', '_0_weight', '_0_bias', 'linear', 'sigmoid', 'output']
    """
    raise NotImplementedError("inlining: inline_all")
