"""Step 1: read the module calls off the flat graph.

Export writes on every node which modules were running when it was recorded. A call of a module
is therefore a slice of the flat graph, and the calls inside it are slices of that slice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count, groupby
from typing import NamedTuple

from torch.fx import Graph, Node

from .calls import NO_MODULE, Level, ModuleCall, is_below


def outline(graph: Graph) -> ModuleCall:
    """Read the tree of module calls off a flat graph.

    Every node but the placeholders belongs to the innermost call on its ``nn_module_stack``.
    Neighbours whose stacks agree up to some depth lie in one call at that depth.

    Args:
        graph: a flat graph, as ``torch.export`` makes it. It isn't changed.

    Returns:
        The root's call. Its body ends with the ``output`` node.

    Raises:
        RuntimeError: a node has no module stack.

    Where torch does this: ``_ModuleFrame.run_from`` in ``torch/export/unflatten.py``.

    Example:
        >>> import torch
        >>> program = torch.export.export(torch.nn.Sequential(torch.nn.ReLU()), (torch.ones(1),))
        >>> root = outline(program.graph)
        >>> [call.name for call in root.calls], [node.name for node in root.calls[0].body]
        (['0'], ['relu'])
    """
    stacked = _with_stacks([node for node in graph.nodes if node.op != "placeholder"])
    root = _call(Level("", 0, _root_type(stacked)), stacked, depth=0)
    _number_reopened_calls(root)
    return root


class _Stacked(NamedTuple):
    """A node and the calls that it was recorded in, outermost first."""

    node: Node
    stack: tuple[Level, ...]


def _call(level: Level, stacked: Sequence[_Stacked], depth: int) -> ModuleCall:
    return ModuleCall(*level, first=stacked[0].node, body=_body(stacked, depth))


def _body(stacked: Sequence[_Stacked], depth: int) -> list[Node | ModuleCall]:
    """Group the nodes of a slice by the next level of their stacks."""
    body: list[Node | ModuleCall] = []
    for level, group in groupby(stacked, lambda item: item.stack[depth : depth + 1]):
        if level:
            body.append(_call(level[0], list(group), depth + 1))
        else:
            body.extend(item.node for item in group)
    return body


def _with_stacks(nodes: Sequence[Node]) -> list[_Stacked]:
    """Pair each node with its stack; what passes inserted without one joins its neighbour."""
    stacked: list[_Stacked] = []
    for node in nodes:
        entries = node.meta.get("nn_module_stack")
        if node.op == "output":
            stack: tuple[Level, ...] = ()
        elif not entries:
            raise RuntimeError(
                f"node {node.name!r} of the exported graph has no nn_module_stack, so nobody knows "
                "which module it belongs to; keep the metadata of nodes in passes over the graph"
            )
        elif NO_MODULE in entries:
            stack = stacked[-1].stack if stacked else ()
        else:
            stack = _levels(entries)
        stacked.append(_Stacked(node, stack))
    return stacked


def _levels(entries: dict[str, tuple[str, str]]) -> tuple[Level, ...]:
    """The calls below the root on a module stack, as long as each lies below the one before.

    Strict export may write the name of another registration of a shared module, which leads
    elsewhere; such a call is part of its caller.
    """
    levels: list[Level] = []
    for key, (name, type_name) in entries.items():
        path = name.partition("@")[0]
        if not path:
            continue
        if levels and not is_below(path, levels[-1].path):
            break
        index = key.rpartition("@")[2] if "@" in key else 0
        levels.append(Level(path, int(index), type_name))
    return tuple(levels)


def _root_type(stacked: Sequence[_Stacked]) -> str | None:
    for node, _ in stacked:
        for path, type_name in node.meta.get("nn_module_stack", {}).values():
            if not path:
                return str(type_name)
    return None


def _number_reopened_calls(root: ModuleCall) -> None:
    """Give a call that another one interrupts a number of its own for each of its parts."""
    taken = {(call.path, call.index) for call in root.walk()}
    seen: Counter[tuple[str, int]] = Counter()
    for call in root.walk():
        seen[call.path, call.index] += 1
        if seen[call.path, call.index] > 1:
            call.index = next(n for n in count() if (call.path, n) not in taken)
            taken.add((call.path, call.index))
