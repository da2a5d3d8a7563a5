"""Replace a call by the callee's nodes.

A graph calls modules and functions by name. To inline one, call it again, and give it proxies of
the arguments that the node has: it then records its operations where the call stands. What it
returns takes the call's place.

    calls = the nodes to replace
    for each call:  record what the callee does, in front of the call
    for each call:  let its users use the result, and erase it

The tracer of lesson ``tracer`` can do the recording, once it is told to write into the graph that
exists, and not into a new one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.fx import GraphModule, Node

from ._record import Call, record
from ._replace import drop_unused_modules, replace


def inline_module(gm: GraphModule, target: str) -> GraphModule:
    """Replace every call of one submodule by the operations that its ``forward`` does.

    The callee is inlined one level deep: a leaf module that it calls is recorded as a
    ``call_module`` node with its full path. Parameters and buffers are read by ``get_attr`` nodes,
    so they stay where they are. Submodules that nothing uses any more, and that hold no state, are
    dropped: ``state_dict`` keeps its keys and their order. A target that is never called changes
    nothing. If the callee can't be recorded, the graph is left as it was.

    What depends on ``training`` is fixed as it is now, as in any trace.

    torch has no function for this; its documentation inlines by hand with ``torch.fx.Proxy``.

    Args:
        gm: the module to edit.
        target: the path of the submodule, as in ``node.target``.

    Returns:
        ``gm`` itself, edited and recompiled.

    Raises:
        NameError: ``gm`` has no submodule of that name. The error lists near names: a shared module
            has several, and the last name of a path is near the path.
        TraceError: the callee's ``forward`` needs a value that isn't known before it runs. The
            error names the callee's class and the node.

    >>> from torch.fx import symbolic_trace
    >>> gm = symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.Hardtanh()))
    >>> [node.name for node in gm.graph.nodes]
    ['input_1', '_0', '_1', 'output']
    >>> [node.name for node in inline_module(gm, "0").graph.nodes]
    ['input_1', '_0_weight', '_0_bias', 'linear', '_1', 'output']
    """
    callee = _submodule(gm, target)
    calls = [Call(node, callee) for node in _calls(gm) if node.target == target]
    return _inline(gm, calls, is_leaf=lambda module: module is not callee)


def inline_all(gm: GraphModule) -> GraphModule:
    """Replace every call of a submodule, all the way down to functions and parameters.

    It does for each leaf what ``inline_module`` does, and for the leaves inside it too.

    torch has no function for this.

    Args:
        gm: the module to edit.

    Returns:
        ``gm`` itself, edited and recompiled: no ``call_module`` node is left.

    Raises:
        TraceError: some module's ``forward`` needs a value that isn't known before it runs. The
            error names the module's class and the node.

    >>> from torch.fx import symbolic_trace
    >>> gm = inline_all(symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.Sigmoid())))
    >>> [node.name for node in gm.graph.nodes]
    ['input_1', '_0_weight', '_0_bias', 'linear', 'sigmoid', 'output']
    """
    calls = [Call(node, _submodule(gm, str(node.target))) for node in _calls(gm)]
    return _inline(gm, calls, is_leaf=lambda module: False)


def inline_function(gm: GraphModule, node: Node, fn: Callable[..., Any]) -> GraphModule:
    """Replace one node by what ``fn`` does with the node's arguments.

    ``fn`` gets a proxy for each node among the arguments, and other values as they are. It may read
    parameters of ``gm`` and call its submodules. Leaf modules that it calls are recorded as one
    call each.

    torch has no function for this; its documentation inlines by hand with ``torch.fx.Proxy``.

    Args:
        gm: the module to edit.
        node: the call to replace; a ``call_function``, ``call_method`` or ``call_module`` node.
        fn: takes what the node takes.

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
    return _inline(gm, [Call(node, fn)], is_leaf=lambda module: True)


def _inline(
    gm: GraphModule, calls: list[Call], is_leaf: Callable[[nn.Module], bool]
) -> GraphModule:
    """Replace all calls, or, if one of them can't be recorded, none."""
    if not calls:
        return gm
    results = record(gm, calls, is_leaf)
    # Backwards, for the result of a call may be an earlier call.
    for call in reversed(calls):
        replace(call.node, results.pop())
    drop_unused_modules(gm)
    gm.recompile()
    return gm


def _calls(gm: GraphModule) -> list[Node]:
    return list(gm.graph.find_nodes(op="call_module"))


def _submodule(gm: GraphModule, target: str) -> nn.Module:
    try:
        return gm.get_submodule(target)
    except AttributeError:
        paths = dict(gm.named_modules(remove_duplicate=False))
        near = difflib.get_close_matches(target, paths, cutoff=0.4)
        names = ", ".join(map(repr, near)) or "there are none"
        raise NameError(f"there is no submodule {target!r}; near names: {names}") from None
