"""Let the results take the place of the calls, and drop what is unused then."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from torch import nn
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg


def replace(call: Node, result: Any) -> None:
    """Let the users of a node use the result instead, and erase the node.

    Args:
        call: the node to erase.
        result: an argument for its users: a node, a constant, or a structure of both.
    """
    if isinstance(result, Node):
        call.replace_all_uses_with(result)
    for user in list(call.users):
        if _is_element(user, call, result):
            replace(user, result[user.args[1]])
        else:
            user.args = _substituted(user.args, call, result)
            user.kwargs = _substituted(user.kwargs, call, result)
    call.graph.erase_node(call)


def _is_element(user: Node, call: Node, result: Any) -> bool:
    """Whether a node reads one element of the call, and the result has it."""
    if user.target is not operator.getitem or user.args[0] is not call:
        return False
    index = user.args[1]
    if isinstance(result, dict):
        return isinstance(index, str | int) and index in result
    if isinstance(result, tuple | list):
        return isinstance(index, int) and -len(result) <= index < len(result)
    return False


def _substituted(arguments: Any, call: Node, result: Any) -> Any:
    return map_arg(arguments, lambda node: result if node is call else node)


def drop_unused_modules(gm: GraphModule) -> None:
    """Delete the submodules that no node refers to and that hold no state.

    Args:
        gm: the module. Those of its submodules that it shares with the traced model aren't changed.
    """
    referred = {
        str(node.target) for node in gm.graph.nodes if node.op in ("call_module", "get_attr")
    }
    needed = {prefix for path in (*referred, *gm.state_dict()) for prefix in _prefixes(path)}

    def drop_below(module: nn.Module, prefix: str) -> None:
        # Not `named_children`, which compares modules with `==`.
        for name, child in list(module._modules.items()):
            path = prefix + name
            if path not in needed:
                delattr(module, name)
            elif path not in referred and type(child) is nn.Module:  # made by `gm` itself
                drop_below(child, f"{path}.")

    drop_below(gm, "")


def _prefixes(path: str) -> Iterator[str]:
    """The paths of the modules on the way, and the path itself."""
    return accumulate(path.split("."), "{}.{}".format)
