"""Step 6 (stretch): autocast and gradient switches act beyond the partition they are in."""

from dataclasses import dataclass, field

import torch
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.fx import Graph, Node

from .partition import Partition, partition_of_node

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
    home = partition_of_node(partitions)
    _refuse_falling_numbers(graph, home)
    autocasts, gradients = _find_regions(graph, home)
    for region in (*autocasts, *gradients):
        for partition in region.partitions[1:]:
            partition.resumed.append(region.enter)
        if region.leave is not None:
            for partition in region.partitions[:-1]:
                partition.suspended.append(region.leave)


@dataclass
class _Region:
    """The stretch of the graph behind a switch, and the partitions that have a node inside."""

    enter: Node
    leave: Node | None = None
    partitions: list[Partition] = field(default_factory=list)

    def reach(self, partition: Partition) -> None:
        if partition not in self.partitions[-1:]:
            self.partitions.append(partition)


def _find_regions(graph: Graph, home: dict[Node, Partition]) -> tuple[list[_Region], list[_Region]]:
    """List the autocast regions and the gradient regions, each kind in the graph's order."""
    autocasts: list[_Region] = []
    gradients: list[_Region] = []
    inside: dict[Node, _Region] = {}
    for node in filter(home.__contains__, graph.nodes):
        if _calls(node, ENTER_AUTOCAST):
            autocasts.append(_open(node))
            inside[node] = autocasts[-1]
        elif _calls(node, SET_GRAD):
            gradients.append(_open(node))
        for region in (*inside.values(), *gradients[-1:]):
            region.reach(home[node])
        if _calls(node, EXIT_AUTOCAST):
            _close(node, inside)
    for enter in inside:
        raise RuntimeError(
            f"autocast is entered at `{enter}` and never left: add the call of _exit_autocast"
        )
    return autocasts, gradients


def _calls(node: Node, switch: object) -> bool:
    return node.op == "call_function" and node.target is switch


def _open(switch: Node) -> _Region:
    """Start the region behind a switch; each partition repeats the call, so it must be constant."""
    if switch.all_input_nodes:
        raise RuntimeError(
            f"the setting of `{switch}` is computed by the graph ({switch.all_input_nodes}): "
            "write it as a constant, so that every partition can repeat the call"
        )
    return _Region(switch)


def _close(leave: Node, inside: dict[Node, _Region]) -> None:
    enter = leave.args[0] if leave.args else None
    if not isinstance(enter, Node) or enter not in inside:
        raise RuntimeError(
            f"`{leave}` leaves an autocast that is not active ({enter}): "
            "every _exit_autocast needs a _enter_autocast of its own before it"
        )
    inside.pop(enter).leave = leave


def _refuse_falling_numbers(graph: Graph, home: dict[Node, Partition]) -> None:
    """A switch acts on what runs later, so no node may move in front of one."""
    highest: Partition | None = None
    for node in filter(home.__contains__, graph.nodes):
        partition = home[node]
        if highest is not None and partition.number < highest.number:
            raise RuntimeError(
                f"node `{node}` goes to {partition.submod_name} after the graph has reached "
                f"{highest.submod_name}: where autocast or gradients are switched, "
                "partition numbers must not go down along the graph"
            )
        highest = partition
