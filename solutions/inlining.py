"""Replace a call by the callee's nodes.

A graph calls modules and functions by name. To inline a call, run the callee again with proxies in
the place of the arguments: it records its operations, right in front of the call. What it returns
takes the call's place.

    for each call:  record what the callee does, in front of the call
    for each call:  let its users use the result, and erase it
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest.mock import patch

from torch import nn
from torch.fx import GraphModule, Node
from torch.fx.node import Argument, map_arg
from torch.fx.proxy import TraceError

from .tracer import Tracer


class Call(NamedTuple):
    """A node to replace, and what to run in its place."""

    node: Node
    callee: Callable[..., Any]


class CallRecorder(Tracer):
    """A tracer that runs callees instead of a ``forward``, and records in the graph that exists.

    ``trace`` makes a graph and placeholders, runs a function, and makes an output of what that
    returns. Here the graph is there already, and the function runs the callees, one after the
    other.

    Args:
        gm: the module whose graph has the calls.
        calls: what to record, in the graph's order.
        is_leaf: whether a module may be recorded as one call, where the tracer would do so.
    """

    # A buffer that a callee changes is to be changed by the graph, and not now.
    proxy_buffer_attributes = True

    def __init__(  # given
        self, gm: GraphModule, calls: list[Call], is_leaf: Callable[[nn.Module], bool]
    ) -> None:
        super().__init__()
        self.gm = gm
        self.calls = calls
        self.is_leaf = is_leaf

    def create_args_for_root(self, *_: Any) -> tuple[Callable[[], None], list[Any]]:  # given
        """Say what the trace is to run, and with which arguments."""
        self.graph = self.gm.graph
        return self.record_calls, []

    def record_calls(self) -> None:  # given
        """Record each callee in front of its call."""
        self.results = [self.record_call(call) for call in self.calls]

    def create_node(self, kind: str, *args: Any, **kwargs: Any) -> Node:  # given
        """Create a node, except the output: the graph has one."""
        if kind == "output":
            return self.graph.output_node()
        return super().create_node(kind, *args, **kwargs)

    def record(self) -> list[Argument]:
        """Record all callees, or, if one of them fails, none.

        ``trace`` does the work. Whatever it raises, the nodes that were added are erased before the
        error goes on, so that the graph is as it was.

        Returns:
            What each call gives, as ``record_call`` returns it.
        """
        before = set(self.gm.graph.nodes)
        try:
            self.trace(self.gm)
        except BaseException:
            for node in reversed(self.gm.graph.nodes):
                if node not in before:
                    node.graph.erase_node(node)
            raise
        return self.results

    def record_call(self, call: Call) -> Argument:
        """Run one callee with the arguments of its node, and record in front of that node.

        A proxy takes the place of each node among the arguments, also inside lists and by keyword;
        other values stay what they are.

        Args:
            call: what to record.

        Returns:
            What the callee returns, as an argument for other nodes, made by ``create_arg``.

        Raises:
            TraceError: the callee failed, as a rule because it needs a value that isn't known
                before it runs. The error names the callee (a function's name, a module's class),
                the node, and what was raised.
        """
        node, callee = call
        with self.graph.inserting_before(node):
            args, kwargs = map_arg((node.args, node.kwargs), self.proxy)  # type: ignore[arg-type, misc]
            try:
                return self.create_arg(callee(*args, **kwargs))
            except Exception as error:
                name = getattr(callee, "__name__", type(callee).__name__)
                raise TraceError(
                    f"cannot inline {name} at node {node.name!r}: {error!r}. While it is recorded, "
                    "values are proxies: its code must not branch on, loop over or convert them"
                ) from error

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Decide whether ``m`` is recorded as one call: if ``is_leaf`` allows it, and the tracer.

        Args:
            m: the module that is called.
            module_qualified_name: its path.

        Returns:
            Whether it is a leaf.
        """
        return self.is_leaf(m) and super().is_leaf_module(m, module_qualified_name)

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """Call ``m`` as every tracer does, without its check of the input's shape.

        Norm layers call their method ``_check_input_dim`` first. It branches on a number of
        dimensions, which a proxy doesn't have, and computes nothing. During the call, and not
        afterwards, it does nothing.

        Args:
            m: the module that is called.
            forward: runs it.
            args: its positional arguments.
            kwargs: its keyword arguments.

        Returns:
            What the call returns.
        """
        with patch.object(m, "_check_input_dim", lambda _: None, create=True):
            return super().call_module(m, forward, args, kwargs)


def replace(call: Node, result: Any) -> None:
    """Let the users of a node use the result instead, and erase the node.

    A user may pick an element: ``operator.getitem`` with the node and an index. If the result has
    that element, the user is replaced by it, in the same way. All other users get the result
    in the place of the node, wherever it is among their arguments.

    Args:
        call: the node to erase.
        result: an argument for its users: a node, a constant, or a structure of both.

    >>> from torch.fx import symbolic_trace
    >>> gm = symbolic_trace(lambda x: x.max(dim=0)[1] + 1)
    >>> x, largest, *_ = gm.graph.nodes
    >>> replace(largest, (7, x))
    >>> print([(node.name, node.args) for node in gm.graph.nodes][1:])
    [('add', (x, 1)), ('output', (add,))]
    """
    for user in list(call.users):
        if user.target is operator.getitem and _has(result, user.args[1]) and user.args[0] is call:
            replace(user, result[user.args[1]])
        else:
            user.args, user.kwargs = map_arg(
                (user.args, user.kwargs), lambda node: result if node is call else node
            )
    call.graph.erase_node(call)


def _has(result: Any, index: Any) -> bool:
    """Whether a result is a structure that has an element of this index."""
    try:
        result[index]
    except (LookupError, TypeError):
        return False
    return True


def inline_function(
    gm: GraphModule,
    node: Node,
    fn: Callable[..., Any],
    recorder: type[CallRecorder] = CallRecorder,
) -> GraphModule:
    """Replace one node by what ``fn`` does with the node's arguments.

    ``fn`` gets a proxy for each node among the arguments, and other values as they are. It may read
    parameters of ``gm`` and call its submodules. Leaf modules that it calls are recorded as one
    call each. If ``fn`` can't be recorded, the graph is left as it was.

    torch has no function for this; its documentation inlines by hand with ``torch.fx.Proxy``.

    Args:
        gm: the module to edit.
        node: the call to replace; a ``call_function``, ``call_method`` or ``call_module`` node.
        fn: takes what the node takes.
        recorder: what records the callees.

    Returns:
        ``gm`` itself, edited and recompiled.

    Raises:
        ValueError: ``node`` isn't a call, or isn't in the graph of ``gm``; the error names it.
        TraceError: ``fn`` needs a value that isn't known before it runs. The error names ``fn``
            and the node.

    >>> import torch
    >>> gm = torch.fx.symbolic_trace(lambda x: torch.square(x) + 1)
    >>> square = gm.graph.find_nodes(op="call_function", target=torch.square)[0]
    >>> [node.name for node in inline_function(gm, square, lambda x: x * x).graph.nodes]
    ['x', 'mul', 'add', 'output']
    """
    if node.graph is not gm.graph or not node.op.startswith("call_"):
        raise ValueError(
            f"cannot replace node {node.name!r} ({node.op}): "
            "choose a call_function, call_method or call_module node of this module's graph"
        )
    return _inline(recorder(gm, [Call(node, fn)], lambda module: True))


def inline_module(
    gm: GraphModule, target: str, recorder: type[CallRecorder] = CallRecorder
) -> GraphModule:
    """Replace every call of one submodule by the operations that its ``forward`` does.

    The callee is inlined one level deep: a leaf module that it calls is recorded as a
    ``call_module`` node with its full path. Parameters and buffers are read by ``get_attr`` nodes,
    so they stay where they are, and ``state_dict`` keeps its keys. The graph is edited: it stays
    the same object, and so do its other nodes. A target that is never called changes nothing. If
    the callee can't be recorded, the graph is left as it was.

    What depends on ``training`` is fixed as it is now, as in any trace.

    torch has no function for this; its documentation inlines by hand with ``torch.fx.Proxy``.

    Args:
        gm: the module to edit.
        target: the path of the submodule, as in ``node.target``.
        recorder: what records the callees.

    Returns:
        ``gm`` itself, edited and recompiled.

    Raises:
        AttributeError: ``gm`` has no submodule of that name.
        TraceError: the callee's ``forward`` needs a value that isn't known before it runs. The
            error names the callee's class and the node.

    >>> from torch.fx import symbolic_trace
    >>> gm = symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.Hardtanh()))
    >>> [node.name for node in gm.graph.nodes]
    ['input_1', '_0', '_1', 'output']
    >>> [node.name for node in inline_module(gm, "0").graph.nodes]
    ['input_1', '_0_weight', '_0_bias', 'linear', '_1', 'output']
    """
    callee = gm.get_submodule(target)
    calls = [Call(node, callee) for node in gm.graph.find_nodes(op="call_module", target=target)]
    return _inline(recorder(gm, calls, lambda module: module is not callee))


def inline_all(gm: GraphModule, recorder: type[CallRecorder] = CallRecorder) -> GraphModule:
    """Replace every call of a submodule, all the way down to functions and parameters.

    It does for each leaf what ``inline_module`` does, and for the leaves inside it too.

    torch has no function for this.

    Args:
        gm: the module to edit.
        recorder: what records the callees.

    Returns:
        ``gm`` itself, edited and recompiled; no ``call_module`` node is left.

    Raises:
        TraceError: some module's ``forward`` needs a value that isn't known before it runs. The
            error names the module's class and the node.

    >>> from torch.fx import symbolic_trace
    >>> gm = inline_all(symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.Sigmoid())))
    >>> [node.name for node in gm.graph.nodes]
    ['input_1', '_0_weight', '_0_bias', 'linear', 'sigmoid', 'output']
    """
    calls = [
        Call(node, gm.get_submodule(str(node.target)))
        for node in gm.graph.find_nodes(op="call_module")
    ]
    return _inline(recorder(gm, calls, lambda module: False))


def _inline(recorder: CallRecorder) -> GraphModule:
    """Replace all calls, or, if one of them can't be recorded, none."""
    results = recorder.record()
    # Backwards, for the result of a call may be an earlier call.
    for call in reversed(recorder.calls):
        replace(call.node, results.pop())
    recorder.gm.recompile()
    return recorder.gm
