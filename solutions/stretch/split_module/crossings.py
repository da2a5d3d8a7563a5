"""Step 2: find every value that is made in one partition and used in another."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from .partition import Partition, is_module, partition_of_node
from .regions import is_switch


def collect_crossings(m: GraphModule, partitions: list[Partition]) -> None:
    """Write down for each partition what comes in, what goes out, and from and to whom.

    Walk through the graph in order. Wherever a node uses a value that its own partition did not
    make, the value is an input there, and an output of the partition that made it. A placeholder
    or a parameter is an input that nobody makes. What the graph's output uses is an output of its
    partition, even if no other partition wants it.

    Three rules more:

    - A module is not a value. A partition that uses the ``get_attr`` of a module reads the module
      itself: the node goes to its ``attributes``, not to its ``inputs``.
    - The nodes that turn autocast or gradients on and off pass nothing on; see ``follow_regions``.
    - A tensor whose ``meta["example_value"]`` has a symbolic size brings that size along. For each
      free symbol (sorted by name) the node that bound it first comes in as well, right after the
      tensor, if a node earlier in the graph bound it outside this partition.

    Args:
        m: the traced model; it is only read.
        partitions: what ``assign_nodes`` returned. Their ``inputs``, ``outputs`` and ``attributes``
            are filled in, each in the order of first use.

    Of use from ``partition.py`` and ``regions.py``: ``partition_of_node``, ``is_module``,
    ``is_switch``; and ``node.all_input_nodes``, the values a node uses, wherever they stand in its
    arguments.

    In torch: ``record_cross_partition_use`` inside ``split_module``.

    >>> def f(x, y):
    ...     doubled = x * 2
    ...     return doubled + y, doubled
    >>> m = torch.fx.symbolic_trace(f)
    >>> x, y, mul, add, output = m.graph.nodes
    >>> first, second = Partition("0", nodes=[mul]), Partition("1", nodes=[add])
    >>> collect_crossings(m, [first, second])
    >>> list(first.inputs), list(first.outputs)
    ([x], [mul])
    >>> list(second.inputs), list(second.outputs), list(second.dependencies)
    ([mul, y], [add], ['0'])
    """
    home = partition_of_node(partitions)
    binders: dict[Any, Node] = {}
    for node in m.graph.nodes:
        user = home.get(node)
        for value in () if is_switch(node) else node.all_input_nodes:
            if user is None:
                _hand_over(value, home.get(value), None)
            elif is_module(m, value):
                user.attributes[value] = None
            elif home.get(value) is not user:
                for needed in (value, *_sizes(value, binders)):
                    _hand_over(needed, home.get(needed), user)
        _bind_symbol(node, binders)


def _hand_over(value: Node, maker: Partition | None, user: Partition | None) -> None:
    """Record both ends of one crossing; a user of ``None`` is the graph's output."""
    if maker is user or (user is not None and value in user.inputs):
        return
    if user is not None:
        user.inputs[value] = maker
    if maker is not None:
        users = maker.outputs.setdefault(value, [])
        if user is not None:
            users.append(user)


def _bind_symbol(node: Node, binders: dict[Any, Node]) -> None:
    """Remember the first node whose value is a symbolic size."""
    value = node.meta.get("example_value")
    if isinstance(value, torch.SymInt | torch.SymFloat) and value.node.expr.is_Symbol:
        binders.setdefault(value.node.expr, node)


def _sizes(value: Node, binders: dict[Any, Node]) -> Iterator[Node]:
    """Yield the nodes that hold the symbolic sizes of a value."""
    example = value.meta.get("example_value")
    if example is None or not binders:
        return
    # Imported late: it brings sympy along, which takes long and few graphs need.
    from torch.fx.experimental.symbolic_shapes import free_symbols

    yield from (binders[s] for s in sorted(free_symbols(example), key=str) if s in binders)
