"""Unlike the core: nothing unused is left on the module, and nothing at all by a refused call.

- Submodules that nothing uses any more, and that hold no state, are dropped.
- When a callee can't be recorded, the names of the nodes that were erased are free again, and the
  constants that were stored on the module are gone.
- ``node.meta["nn_module_stack"]`` tells of a new node where the call was.
- An unknown target is a ``NameError`` that lists near names.
- The recorder derives from the stretch's tracer, so wrapped functions stay calls.
"""

from __future__ import annotations

import difflib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from itertools import accumulate
from typing import Any

from torch import nn
from torch.fx import GraphModule, Node
from torch.fx.node import Argument

from .. import inlining as core
from ..inlining import Call, call_in, inline, module_calls, replace
from .proxy import TraceError
from .tracer import Tracer

__all__ = ["TraceError", "inline_all", "inline_function", "inline_module", "replace"]


class CallRecorder(core.CallRecorder, Tracer):
    """Records callees in the graph that exists, and where their nodes belong."""

    def record(self) -> list[Argument]:
        """Record all callees; if one of them fails, leave graph and module as they were.

        Returns:
            What each call gives.
        """
        namespace, attributes = vars(self.gm.graph._graph_namespace), set(vars(self.gm))
        names = {name: copy(value) for name, value in namespace.items()}
        try:
            return super().record()
        except BaseException:
            namespace.update(names)
            for name in set(vars(self.gm)) - attributes:
                delattr(self.gm, name)
            raise

    def record_call(self, call: Call) -> Argument:
        """Run one callee, inside the modules that its call is in.

        Args:
            call: What to record.

        Returns:
            What the callee returns.
        """
        self.module_stack = OrderedDict(call.node.meta.get("nn_module_stack", {}))
        if self.module_stack and isinstance(call.callee, nn.Module):
            self.module_stack.popitem()  # the callee, which is called again
        return super().record_call(call)


@contextmanager
def _unused_modules_dropped(gm: GraphModule) -> Iterator[None]:
    """Drop what nothing uses after the block, if there are calls of modules that have gone."""
    before = gm.graph.find_nodes(op="call_module")
    yield
    if gm.graph.find_nodes(op="call_module") != before:
        drop_unused_modules(gm)


def drop_unused_modules(gm: GraphModule) -> None:
    """Delete the submodules that no node refers to and that hold no state.

    State is what is in the ``state_dict``: its keys and their order don't change. ``gm`` shares
    submodules with the model that was traced, and these aren't changed: a module is deleted from
    ``gm`` itself, or from a container that ``gm`` has made to hold others, a plain ``nn.Module``
    that no node refers to.

    Args:
        gm: The module.

    >>> from torch.fx import symbolic_trace
    >>> gm = symbolic_trace(nn.Sequential(nn.ReLU(), nn.Linear(2, 2)))
    >>> replace(gm.graph.find_nodes(op="call_module", target="0")[0], 1)
    >>> drop_unused_modules(gm)
    >>> [name for name, _ in gm.named_children()]
    ['1']
    """
    nodes = [node for node in gm.graph.nodes if node.op in ("call_module", "get_attr")]
    referred = {str(node.target) for node in nodes}
    paths = [path.split(".") for path in (*referred, *gm.state_dict())]
    needed = {prefix for path in paths for prefix in accumulate(path, "{}.{}".format)}

    def drop_below(module: nn.Module, prefix: str) -> None:
        # Not `named_children`, which compares modules with `==`
        for name, child in list(module._modules.items()):
            path = prefix + name
            if path not in needed:
                delattr(module, name)
            elif type(child) is nn.Module and path not in referred:
                drop_below(child, f"{path}.")

    drop_below(gm, "")


def inline_function(gm: GraphModule, node: Node, fn: Callable[..., Any]) -> GraphModule:
    """Replace one node by what ``fn`` does with the node's arguments; the core says more.

    Args:
        gm: The module to edit.
        node: The call to replace.
        fn: Takes what the node takes.

    Returns:
        ``gm`` itself, edited and recompiled.

    >>> from torch.fx import symbolic_trace
    >>> gm = symbolic_trace(nn.Sequential(nn.ReLU()))
    >>> relu = gm.graph.find_nodes(op="call_module")[0]
    >>> clamp = inline_function(gm, relu, lambda x: x.clamp(min=0)).graph.output_node().prev
    >>> list(clamp.meta["nn_module_stack"])
    ['0']
    """
    with _unused_modules_dropped(gm):
        calls = [call_in(gm, node, fn)]
        return inline(CallRecorder(gm, calls, lambda module: True))


def inline_module(gm: GraphModule, target: str) -> GraphModule:
    """Replace every call of one submodule by what it does; the core says more.

    Args:
        gm: The module to edit.
        target: The path of the submodule, as in ``node.target``.

    Returns:
        ``gm`` itself, edited and recompiled.

    Raises:
        NameError: ``gm`` has no submodule of that name. The error lists near names: a shared module
            has several, and the last name of a path is near the path.

    >>> from torch.fx import symbolic_trace
    >>> gm = inline_module(symbolic_trace(nn.Sequential(nn.Hardtanh())), "0")
    >>> [node.name for node in gm.graph.nodes], hasattr(gm, "0")
    (['input_1', 'hardtanh', 'output'], False)
    """
    paths = dict(gm.named_modules(remove_duplicate=False))
    if target not in paths:
        near = difflib.get_close_matches(target, paths, cutoff=0.4)
        names = ", ".join(map(repr, near)) or "there are none"
        raise NameError(f"there is no submodule {target!r}; near names: {names}")
    with _unused_modules_dropped(gm):
        callee, calls = paths[target], module_calls(gm, target)
        return inline(CallRecorder(gm, calls, lambda module: module is not callee))


def inline_all(gm: GraphModule) -> GraphModule:
    """Replace every call of a submodule, all the way down; the core says more.

    Args:
        gm: The module to edit.

    Returns:
        ``gm`` itself, edited and recompiled; no ``call_module`` node is left.

    >>> from torch.fx import symbolic_trace
    >>> gm = inline_all(symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.Sigmoid())))
    >>> [node.name for node in gm.graph.nodes]
    ['input_1', '_0_weight', '_0_bias', 'linear', 'sigmoid', 'output']
    """
    with _unused_modules_dropped(gm):
        return inline(CallRecorder(gm, module_calls(gm), lambda module: False))
