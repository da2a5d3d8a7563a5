"""What the lesson ``graph`` gives you."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import torch
from torch import nn
from torch._library.utils import is_impure
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return the text of a table, with a line under its head, as the package ``tabulate`` does.

    Args:
        head: The names of the columns.
        rows: The cells of each row.

    >>> print(table(("name", "args"), [("relu", ("x",)), ("output", ())]))
    name    args
    ------  ------
    relu    ('x',)
    output  ()
    """
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [len(name) + 2 for name in head]  # no column of `tabulate` is narrower
    for row in cells:
        widths = [max(width, len(cell)) for width, cell in zip(widths, row, strict=True)]
    lines = (head, ["-" * width for width in widths], *cells)
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


# --- effects

# Methods and functions that write or do something, although their name doesn't end with `_`. For
# `x += 1`, a graph may call `operator.iadd` or the method `__iadd__`.
EFFECTS = {"setitem", "delitem", "setattr", "delattr", "print", "next", "gumbel_softmax"}
EFFECTS |= {"backward", "register_hook", "register_post_accumulate_grad_hook"}
EFFECTS |= {name.strip("_") for name in vars(operator) if name.startswith("__i")}
EFFECTS -= {"invert", "index", "indexOf", "inv"}
# Arguments that make a function write: to its input, or to running statistics.
FLAGS = ("inplace", "training", "train", "use_input_stats")
DRAWING = nn.RReLU, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d


def has_effect(node: Any, random: bool = True) -> bool:
    """Return whether a node may do more than return a value: then it is needed even if unused.

    A call has an effect if it writes to a tensor (``x.add_(1)``, ``inplace=True``, ``out=``), draws
    random numbers, or returns nothing, such as an assertion. Code that is neither Python's nor
    torch's may do anything.

    Args:
        node: A node, yours or torch's.
        random: Whether drawing random numbers counts.

    In torch: ``Node.is_impure``, which knows only some of these.

    >>> from torch import fx
    >>> graph = fx.symbolic_trace(lambda x: (x.add_(1), x.add(1), torch.relu(x))).graph
    >>> [node.name for node in graph.nodes if has_effect(node)]
    ['add_']
    """
    if node.op == "call_module":
        owner = node.graph.owning_module
        return owner is None or module_has_effect(owner.get_submodule(node.target))
    if node.op == "call_method":
        return not hasattr(torch.Tensor, node.target) or call_has_effect(node, random)
    return node.op == "call_function" and (
        is_impure(node.target, args=node.args, kwargs=node.kwargs, impure_random=random)
        or function_has_effect(node, random)
    )


def function_has_effect(node: Any, random: bool) -> bool:
    """Return whether a ``call_function`` node may do more than return a value."""
    if isinstance(node.target, HigherOrderOperator):
        owner = node.graph.owning_module
        read = [each.target for each in node.all_input_nodes if each.op == "get_attr"]
        values = [operator.attrgetter(path)(owner) for path in read]
        return any(module_has_effect(each) for each in values if isinstance(each, nn.Module))
    if isinstance(node.target, type):
        return False
    home = (getattr(node.target, "__module__", None) or "torch").partition(".")[0]
    is_known = home in ("torch", "_operator", "builtins", "math")
    return not is_known or call_has_effect(node, random)


def call_has_effect(node: Any, random: bool) -> bool:
    """Return whether the name, the operator or an argument of a call shows an effect."""
    name = getattr(node.target, "__name__", str(node.target))
    if getattr(node.target, "__module__", "") == "_operator":
        return name in EFFECTS
    if name.strip("_") in EFFECTS or (name.endswith("_") and not name.endswith("__")):
        return True
    operators = operators_of(node.target if isinstance(node.target, OpOverload) else name)
    if random and any(torch.Tag.nondeterministic_seeded in each.tags for each in operators):
        return True
    arguments = arguments_of(node, operators)
    flags = [arguments.get(flag) for flag in FLAGS]
    returns_nothing = operators and not operators[0]._schema.returns
    return bool(returns_nothing or any(flags) or arguments.get("out") is not None)


@cache
def operators_of(target: OpOverload | str) -> list[OpOverload]:
    """Return torch's operators of a name, such as ``add``; an operator is its own only one."""
    if isinstance(target, OpOverload):
        return [target]
    packet: Any = getattr(torch.ops.aten, target, None)
    is_packet = isinstance(packet, OpOverloadPacket)
    return [getattr(packet, name) for name in packet.overloads()] if is_packet else []


def arguments_of(node: Any, operators: list[OpOverload]) -> dict[str, Any]:
    """Return the arguments of a call by name, and its defaults, as far as they are known."""
    if inspect.isfunction(node.target):
        bound = inspect.signature(node.target).bind_partial(*node.args, **node.kwargs)
        bound.apply_defaults()
        return bound.arguments
    names = [each.name for each in operators[0]._schema.arguments] if operators else []
    return dict(zip(names, node.args, strict=False)) | node.kwargs


def module_has_effect(module: nn.Module) -> bool:
    """Return whether a call of a module may do more than return a value."""
    graph: Any = getattr(module, "graph", None)
    if hasattr(graph, "owning_module"):
        return any(has_effect(node) for node in graph.nodes)
    is_known = type(module).__module__.startswith("torch.nn.")
    if not is_known or module._forward_hooks or module._forward_pre_hooks:
        return True
    if getattr(module, "_is_impure", False) or getattr(module, "inplace", False):
        return True
    options = module._buffers, getattr(module, "p", 0), getattr(module, "dropout", 0)
    writes = module.training and any(options)
    return (
        bool(writes)
        or isinstance(module, DRAWING)
        or any(map(module_has_effect, module.children()))
    )
