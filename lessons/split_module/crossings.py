"""Step 2: find every value that is made in one partition and used in another."""

from torch.fx import GraphModule

from .partition import Partition


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
    raise NotImplementedError(
        "split_module: write down for each partition what comes in, what goes out, and from and to whom"
    )
