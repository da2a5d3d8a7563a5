"""Step 3: in which order the partitions run."""

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

from torch.fx import Node

from .partition import Partition


def order_partitions(
    partitions: list[Partition], keep_original_order: bool = False
) -> list[Partition]:
    """Sort the partitions so that each runs after all those it depends on.

    Often several could run next. Then the one that the graph reaches first goes first, so that a
    cut that needs no reordering brings none. With ``keep_original_order`` nothing is reordered at
    all.

    Args:
        partitions: what ``assign_nodes`` returned, after ``collect_crossings``.
        keep_original_order: leave them in the order in which the graph reaches them.

    Returns:
        The same partitions, in the order in which to run them.

    Raises:
        RuntimeError: two partitions wait for each other, directly or around a circle. The message
            names them as submodules, and one value that goes between two of them. Also: the
            original order is asked for, but a partition would run before one it depends on.

    Of use: ``graphlib.TopologicalSorter`` of the standard library, and ``Partition.dependencies``.

    In torch: the loop over ``root_partitions`` inside ``split_module``. It takes the partition that
    became ready last, and says only that there is a cycle.

    >>> import torch
    >>> def f(x):
    ...     return torch.relu(x) + 1
    >>> x, relu, add, output = torch.fx.symbolic_trace(f).graph.nodes
    >>> first = Partition("7", nodes=[relu])
    >>> second = Partition("3", nodes=[add], inputs={relu: first})
    >>> [partition.submod_name for partition in order_partitions([second, first])]
    ['submod_7', 'submod_3']
    """
    ordered = list(_first_ready_first(partitions))
    if keep_original_order:
        _refuse_late_makers(partitions)
        return partitions
    return ordered


def _first_ready_first(partitions: list[Partition]) -> Iterator[Partition]:
    """Yield the partitions in dependency order, of several ready ones the first in the list."""
    position = {partition.name: at for at, partition in enumerate(partitions)}
    sorter = TopologicalSorter({p.name: p.dependencies for p in partitions})
    try:
        sorter.prepare()
    except CycleError as error:
        raise _cycle({p.name: p for p in partitions}, error.args[1]) from None
    ready: list[int] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heappush(ready, position[name])
        partition = partitions[heappop(ready)]
        sorter.done(partition.name)
        yield partition


def _cycle(partitions: dict[str, Partition], names: list[str]) -> RuntimeError:
    """Describe a cycle; each of the names makes something that the next one needs."""
    circle = " -> ".join(partitions[name].submod_name for name in names)
    maker, user = partitions[names[0]], partitions[names[1]]
    return RuntimeError(
        f"cycle exists between partitions: {circle}. For example, {user.submod_name} needs "
        f"`{_value_between(maker, user)}` from {maker.submod_name}. Put the nodes of the cycle "
        "into one partition, or change where the callback cuts"
    )


def _value_between(maker: Partition, user: Partition) -> Node:
    return next(value for value, origin in user.inputs.items() if origin is maker)


def _refuse_late_makers(partitions: list[Partition]) -> None:
    seen: set[str] = set()
    for user in partitions:
        seen.add(user.name)
        for value, maker in user.inputs.items():
            if maker is not None and maker.name not in seen:
                raise RuntimeError(
                    f"keep_original_order: {user.submod_name} comes first in the graph, but needs "
                    f"`{value}` from {maker.submod_name}. Leave keep_original_order out, or "
                    "change where the callback cuts"
                )
