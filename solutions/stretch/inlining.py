"""Unlike the core: nothing unused is left on the module, and new nodes know where they are from.

- Submodules that nothing uses any more, and that hold no state, are dropped.
- ``node.meta["nn_module_stack"]`` of a new node begins with the modules around the call.
- An unknown target is a ``NameError`` that lists similar names.
- The recorder derives from the stretch's tracer, so wrapped functions stay calls.
"""

from __future__ import annotations

import difflib
from collections import OrderedDict
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from torch import nn
from torch.fx import GraphModule, Node
from torch.fx.node import Argument

from .. import inlining as core
from ..inlining import Call, call_in, inline, module_calls
from .tracer import Tracer


class CallRecorder(core.CallRecorder, Tracer):
    """The core's recorder; the nodes it adds know the modules around the call."""

    def record_call(self, call: Call) -> Argument:
        """Run one callee, inside the modules that its call is in; return what it returns."""
        self.module_stack = OrderedDict(call.node.meta.get("nn_module_stack", {}))
        if self.module_stack and isinstance(call.callee, nn.Module):
            self.module_stack.popitem()  # the callee, which is called again
        return super().record_call(call)


def _inline(recorder: CallRecorder) -> GraphModule:
    """Replace all calls of a recorder; if some were of modules, drop those that nothing uses."""
    gm = inline(recorder)
    if any(call.node.op == "call_module" for call in recorder.calls):
        drop_unused_modules(gm)
    return gm


def drop_unused_modules(gm: GraphModule) -> None:
    """Delete the submodules that no node refers to and that hold no state.

    State is what is in the ``state_dict``: its keys and their order don't change. ``gm`` shares
    submodules with the model that was traced, and these aren't changed. So a module is deleted only
    from ``gm`` itself, or from a container that ``gm`` has made to hold others: a plain
    ``nn.Module`` that no node refers to.

    >>> from torch.fx import symbolic_trace
    >>> gm = symbolic_trace(nn.Sequential(nn.ReLU(), nn.Linear(2, 2)))
    >>> core.replace(gm.graph.find_nodes(op="call_module", target="0")[0], 1)
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
    """Replace one node with the operations that ``fn`` performs on its arguments; see the core.

    >>> from torch.fx import symbolic_trace
    >>> gm = symbolic_trace(nn.Sequential(nn.ReLU()))
    >>> relu = gm.graph.find_nodes(op="call_module")[0]
    >>> clamp = inline_function(gm, relu, lambda x: x.clamp(min=0)).graph.output_node().prev
    >>> list(clamp.meta["nn_module_stack"])
    ['0']
    """
    return _inline(CallRecorder(gm, [call_in(gm, node, fn)], lambda module: True))


def inline_module(gm: GraphModule, target: str) -> GraphModule:
    """Replace every call of one submodule with the operations in its ``forward``; see the core.

    Raises:
        NameError: ``gm`` has no submodule of that name. The error lists similar names.

    >>> from torch.fx import symbolic_trace
    >>> gm = inline_module(symbolic_trace(nn.Sequential(nn.Hardtanh())), "0")
    >>> [node.name for node in gm.graph.nodes], hasattr(gm, "0")
    (['input_1', 'hardtanh', 'output'], False)
    """
    modules = dict(gm.named_modules(remove_duplicate=False))
    if target not in modules:
        names = difflib.get_close_matches(target, modules, cutoff=0.4)
        raise NameError(f"there is no submodule {target!r}; similar names: {names}")
    callee, calls = modules[target], module_calls(gm, target)
    return _inline(CallRecorder(gm, calls, lambda module: module is not callee))


def inline_all(gm: GraphModule) -> GraphModule:
    """Replace every call of every submodule, until none is left; see the core."""
    return _inline(CallRecorder(gm, module_calls(gm), lambda module: False))
