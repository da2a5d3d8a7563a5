"""Step 6 (stretch): autocast and gradient switches act beyond the partition they are in."""

import torch
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.fx import Graph, Node

from .partition import Partition

ENTER_AUTOCAST = _enter_autocast
EXIT_AUTOCAST = _exit_autocast
SET_GRAD = torch._C._set_grad_enabled


def is_switch(node: Node) -> bool:  # given
    """Tell whether a node turns autocast or gradients on or off."""
    return node.op == "call_function" and node.target in (ENTER_AUTOCAST, EXIT_AUTOCAST, SET_GRAD)


def follow_regions(graph: Graph, partitions: list[Partition]) -> None:
    """Note for each partition the regions it must enter again, and those it must leave early.

    A switch is a call that changes how everything after it runs. When the cut goes through the
    region behind it, each partition has to turn the switch for itself:

    - Autocast has an enter and an exit. A partition that the region reaches from an earlier one
      enters it again at its start (``resumed``). One that the region leaves towards a later one
      exits at its end (``suspended``). Regions may be nested.
    - Gradients have one call, which holds until the next one. A partition that such a region
      reaches from an earlier one repeats the call at its start (``resumed``). Nothing is undone.

    ``resumed`` lists autocast regions before gradient regions, each kind in the order of the graph;
    ``suspended`` lists the outermost region first.

    Args:
        graph: the graph to cut; it is only read.
        partitions: what ``assign_nodes`` returned. Their ``resumed`` and ``suspended`` are filled
            in.

    Raises:
        RuntimeError: an autocast that is never left, or left without being entered; a switch whose
            setting is computed by the graph; partition numbers that go down, in a graph that has
            switches: the code before a switch would come to run after it.

    Of use from ``partition.py``: ``partition_of_node``.

    In torch: the ``autocast_regions`` and ``grad_regions`` inside ``split_module``.

    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> off = graph.call_function(torch._C._set_grad_enabled, (False,))
    >>> relu = graph.call_function(torch.relu, (x,))
    >>> first, second = Partition("0", 0, [off]), Partition("1", 1, [relu])
    >>> follow_regions(graph, [first, second])
    >>> second.resumed
    [_set_grad_enabled]
    """
    raise NotImplementedError(
        "split_module: note for each partition the regions it must enter again, and those it must leave early"
    )
