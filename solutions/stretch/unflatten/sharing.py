"""Step 6: let calls that do the same share one module."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from torch import nn
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from .tree import Body


def share_equal_bodies(root: nn.Module, bodies: Sequence[Body]) -> None:
    """Let the calls of one module whose bodies are equal be done by one of them.

    Two bodies are equal if their graphs do the same: node for node the same operation, function,
    attribute or submodule, with the same arguments. Names of nodes and metadata don't count. The
    earliest body stays; the others leave the tree, and their call sites call it. The calls inside
    a module come first, so that bodies which differed only in those become equal, too.

    Args:
        root: the tree that the bodies are in.
        bodies: callees before callers. Those that are dropped get the module and the name of the
            one that stays.

    Where torch does this: ``_deduplicate_modules`` in ``torch/export/unflatten.py``, which takes
    calls of different submodules for the same, and compares every body with all before it.
    """
    called_again = {body.call.path for body in bodies if body.name != body.call.path}
    kept: dict[str, dict[Hashable, Body]] = defaultdict(dict)
    for body in bodies:
        if body.call.path not in called_again:
            continue
        twin = kept[body.call.path].setdefault(_doings(body.module.graph), body)
        if twin is not body:
            parent, _, name = body.name.rpartition(".")
            delattr(root.get_submodule(parent), name)
            body.module = twin.module
            body.redirect(twin.name)


class _Result(NamedTuple):
    """The result of the node with this number, whatever its name."""

    number: int


def _doings(graph: Graph) -> Hashable:
    """What a graph does, in a form that is equal for graphs that do the same."""
    results = {node: _Result(number) for number, node in enumerate(graph.nodes)}
    return tuple(_doing(node, results) for node in graph.nodes)


def _doing(node: Node, results: dict[Node, _Result]) -> Hashable:
    # As text: 1, 1.0 and True are equal, but not the same argument.
    arguments = repr(map_arg((node.args, node.kwargs), results.__getitem__))
    return node.op, None if node.op == "placeholder" else node.target, arguments
