"""Step 3: in which order the partitions run."""

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
    raise NotImplementedError(
        "split_module: sort the partitions so that each runs after all those it depends on"
    )
