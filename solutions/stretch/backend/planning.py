"""A plan for the memory: when each value of a graph is needed, and where it is.

``plan`` gives each value a place in one block of memory, the *arena*. Values that aren't needed at
the same time share bytes. torch's allocator decides this at run time, for each tensor alone, but a
compiler knows the whole graph. ``Plan.least`` is a lower bound, so you can see how good a plan is.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import getitem
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from .. import _aliasing

ALIGNMENT = 64  # bytes: a value begins where a line of the processor's cache does


class Life(NamedTuple):
    """The time in which a value is needed, and its size.

    Attributes:
        node: The node that makes it.
        begin: The node's position in the graph.
        end: The position of the last node that reads it, or a view of it.
        size: Its bytes, rounded up to ``ALIGNMENT``.
    """

    node: Any
    begin: int
    end: int
    size: int

    def meets(self, other: Life) -> bool:
        """Return whether both are needed at the same time."""
        return self.begin <= other.end and other.begin <= self.end


@dataclass
class Plan:
    """The place of each value of a graph.

    Attributes:
        places: Maps each life to the byte of the arena at which the value begins.
    """

    places: dict[Life, int]

    @property
    def size(self) -> int:
        """The bytes of the arena."""
        return max((place + life.size for life, place in self.places.items()), default=0)

    @property
    def least(self) -> int:
        """The most bytes that are needed at the same time: no plan has a smaller arena."""
        at_once = (
            sum(each.size for each in self.places if each.begin <= life.begin <= each.end)
            for life in self.places
        )
        return max(at_once, default=0)


def plan(graph: Any) -> Plan:
    """Return a place for each value that a graph makes and doesn't return.

    The largest values choose first. Each takes the lowest bytes that are free during its whole
    life.

    In torch: ``torch._inductor.codegen.memory_planning``.

    >>> from solutions.capture import capture
    >>> import torch
    >>> flat = capture(lambda x: x.sin().cos().sin().cos(), (torch.ones(1000),))
    >>> found = plan(flat.graph)
    >>> sum(life.size for life in found.places), found.size, found.least
    (12096, 8064, 8064)
    """
    places: dict[Life, int] = {}
    for life in sorted(lives(graph), key=lambda each: -each.size):
        place = 0
        near = sorted((at, each.size) for each, at in places.items() if each.meets(life))
        for at, size in near:
            if at >= place + life.size:
                break
            place = max(place, at + size)
        places[life] = place
    return Plan(places)


def lives(graph: Any) -> list[Life]:
    """Return the lives of the values that a graph makes and doesn't return."""
    nodes = list(graph.nodes)
    owners: dict[Any, Any] = {}
    last: dict[Any, int] = {}
    for position, node in enumerate(nodes):
        owners[node] = owners[node.all_input_nodes[0]] if shows_its_input(node) else node
        for each in node.all_input_nodes:
            last[owners[each]] = position
    returned = {owners[each] for node in nodes if keeps(node) for each in node.all_input_nodes}
    return [
        Life(node, position, last.get(node, position), size_of(node))
        for position, node in enumerate(nodes)
        if node.op == "call_function" and owners[node] is node and node not in returned
    ]


def shows_its_input(node: Any) -> bool:
    """Return whether a node has no memory of its own: it is a view, or an item of a tuple."""
    if node.op != "call_function" or not node.all_input_nodes:
        return False
    return node.target is getitem or _aliasing.shows_its_input(node.target)


def keeps(node: Any) -> bool:
    """Return whether the values that a node reads may be needed after it.

    It is the output, or it calls a function that nothing is known about.
    """
    if not node.op.startswith("call_"):
        return bool(node.op == "output")
    is_operator = isinstance(node.target, torch._ops.OpOverload)
    returns_new = getattr(node.target, "returns_new", False)
    return not (is_operator or returns_new or node.target is getitem)


def size_of(node: Any) -> int:
    """Return the bytes of a node's result, which may be several tensors."""
    tensors = [each for each in tree_leaves(node.meta.get("val")) if isinstance(each, Tensor)]
    bytes_of = (each.numel() * each.element_size() for each in tensors)
    return sum(-(-each // ALIGNMENT) * ALIGNMENT for each in bytes_of)
