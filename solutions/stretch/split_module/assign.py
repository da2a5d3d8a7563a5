"""Step 1: every call in the graph gets its partition."""

from collections.abc import Callable

from torch.fx import Graph, Node

from .partition import Partition

NOT_CALLS = ("placeholder", "get_attr", "output")


def assign_nodes(
    graph: Graph, split_callback: Callable[[Node], int], partition_affix: str | None = None
) -> list[Partition]:
    """Ask the callback once for every call in the graph, and gather the nodes by its answers.

    A call is a node that computes something: ``call_function``, ``call_method`` or ``call_module``.
    Placeholders, ``get_attr`` nodes and the output belong to no partition; the callback never sees
    them. The callback may count, or draw lots: a second question could bring a second answer.

    Args:
        graph: the graph to cut; it is only read.
        split_callback: the partition number of a node.
        partition_affix: goes before the number in the partition's name: ``pp`` makes ``pp_0``.

    Returns:
        The partitions, in the order in which the graph first reaches them. Each has its ``name``,
        its ``number`` (the callback's first answer for it) and its ``nodes``, in the graph's order.

    In torch: ``instantiate_node_partition_mapping`` inside ``split_module``. It asks again whenever
    it needs the answer once more, up to four times a node.

    >>> import torch
    >>> def f(x):
    ...     return torch.relu(x) + 1
    >>> graph = torch.fx.symbolic_trace(f).graph
    >>> for partition in assign_nodes(graph, lambda node: len(node.name) % 2):
    ...     print(partition.submod_name, partition.node_names)
    submod_0 ['relu']
    submod_1 ['add']
    """
    partitions: dict[str, Partition] = {}
    for node in graph.nodes:
        if node.op in NOT_CALLS:
            continue
        number = split_callback(node)
        name = str(number) if partition_affix is None else f"{partition_affix}_{number}"
        if name not in partitions:
            partitions[name] = Partition(name, number)
        partitions[name].nodes.append(node)
    return list(partitions.values())
