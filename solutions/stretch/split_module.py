"""Unlike the core: splits everything that torch splits, and more, and refuses the rest clearly.

- Autocast and gradients may be switched in the graph: each partition switches for itself what it
  needs (``propagate_regions``).
- A tensor with symbolic sizes brings these along, and a module that the graph hands to a function
  is read where it is used (``collect_crossings``).
- Of several partitions that could run next, the first in the graph runs first
  (``order_partitions``); torch takes the one that became ready last.
- ``keep_original_input_name``, ``partition_affix``, ``tuple_return``, and modules that generate
  their code late, where a compiler asks for it.
- Paths that look alike once they are flat stay apart; targets that are gone and orders that can't
  run are errors that say what to do.
- The code of each submodule is generated once, and not once more for the outer module: with many
  partitions that is nearly half of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from itertools import count, filterfalse, pairwise
from operator import attrgetter
from typing import Any

import torch
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.fx import Graph, GraphModule, Node
from torch.fx._lazy_graph_module import _get_graph_module_cls, _LazyGraphModule

from .. import split_module as core

SET_GRAD = torch._C._set_grad_enabled


@dataclass(eq=False, repr=False)
class Partition(core.Partition):
    """Unlike the core's: it knows its options, and the modes in which its nodes have to run.

    Attributes:
        reentered: The mode changes to repeat at the start (``propagate_regions``).
        exited_early: The exits to add at the end, the outermost first (the same step).
        attributes: The ``get_attr`` nodes of modules, read inside instead of passed in; a dict,
            because it keeps the order (``collect_crossings``).
        affix, keep_original_input_name, tuple_return: As for ``split_module``.
        paths: The path that each flat name stands for.
    """

    reentered: list[Node] = field(default_factory=list)
    exited_early: list[Node] = field(default_factory=list)
    attributes: dict[Node, None] = field(default_factory=dict)
    affix: str | None = None
    keep_original_input_name: bool = True
    tuple_return: bool = False
    paths: dict[str, str] = field(default_factory=dict)

    @property
    def submod_name(self) -> str:
        if self.affix is None:
            return super().submod_name
        return f"submod_{self.affix}_{self.name}"

    @property
    def input_names(self) -> list[str]:
        if self.keep_original_input_name:
            return super().input_names
        return [f"arg_{position}" for position in range(len(self.inputs))]

    @property
    def returns_single(self) -> bool:
        return super().returns_single and not self.tuple_return

    def flat_name(self, path: str) -> str:
        """The second path of a flat name gets ``_1``, the third ``_2``."""
        name, numbers = super().flat_name(path), count(1)
        free = name
        while self.paths.setdefault(free, path) != path:
            free = f"{name}_{next(numbers)}"
        return free


def split_module(
    m: GraphModule,
    root_m: torch.nn.Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool = False,
    keep_original_node_name: bool = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """Cut a traced model into submodules, and return the model that calls them in turn.

    Args:
        m: The model to cut.
        root_m: The model that ``m`` was traced from. It is not used; torch's signature has it.
        split_callback: The partition number of a node; it is asked once per call, in the order of
            the graph, also if the graph switches modes.
        qualname_map: A dict to fill with the old path of every module called in the result.
        keep_original_order: Call the submodules in the order in which the graph reaches them, and
            read parameters where they are needed.
        keep_original_node_name: Nodes of the submodules have the names of the original's.
        keep_original_input_name: Inputs of the submodules have the names of the values they take;
            otherwise ``arg_0``, ``arg_1``, ....
        partition_affix: Goes before the number: ``submod_<affix>_<number>``.
        tuple_return: Submodules return a tuple also where there is one value.

    Returns:
        The model of submodules; ``meta["partition_names"]`` is the set of their names.

    Raises:
        RuntimeError: Partitions wait for each other in a circle; ``keep_original_order`` is asked
            for where a partition would run too early; an autocast region has no end or no start;
            partition numbers go down where autocast or gradients are switched.
        AttributeError: A node refers to something that the model does not have.

    In torch: ``torch.fx.passes.split_module.split_module``.
    """
    _refuse_lost_targets(m)
    partitions = assign_nodes(m.graph, split_callback)
    for partition in partitions:
        partition.affix = partition_affix
        partition.keep_original_input_name = keep_original_input_name
        partition.tuple_return = tuple_return
    propagate_regions(m.graph, partitions)
    collect_crossings(m, partitions)
    ordered = order_partitions(partitions, keep_original_order)
    submodules = {
        partition: build_submodule(partition, m, keep_original_node_name) for partition in ordered
    }
    if qualname_map is not None:
        qualname_map.update(core.old_paths(ordered))
    return stitch_graph(m, submodules, keep_original_order, keep_original_node_name)


def _refuse_lost_targets(m: GraphModule) -> None:
    for node in m.graph.nodes:
        if node.op in ("call_module", "get_attr"):
            try:
                attrgetter(node.target)(m)
            except AttributeError as error:
                raise AttributeError(
                    f"the graph refers to `{node.target}`, but {error}: "
                    "put the attribute back, or trace the model again"
                ) from None


# --- Step 1


def assign_nodes(graph: Graph, split_callback: Callable[[Node], int]) -> list[Partition]:
    """Unlike the core's: the partitions are those of the stretch."""
    partitions = core.assign_nodes(graph, split_callback)
    return [Partition(partition.name, partition.nodes) for partition in partitions]


# --- Step 2


def collect_crossings(m: GraphModule, partitions: list[Partition]) -> None:
    """Unlike the core's: not every value that is used has to be passed, and some bring others.

    - A module is not a value. A partition that uses the ``get_attr`` of a module reads the module
      itself: the node goes to its ``attributes``, not to its ``inputs``.
    - Mode changes pass nothing on; see ``propagate_regions``.
    - A tensor whose ``meta["example_value"]`` has a symbolic size brings that size along. For each
      free symbol (sorted by name) the node that bound it first comes in as well, right after the
      tensor, if a node earlier in the graph bound it outside this partition.
    """
    partition_of = _partition_of(partitions)
    binders: dict[Any, Node] = {}
    for node in filterfalse(is_mode_change, m.graph.nodes):
        user = partition_of.get(node)
        for value in node.all_input_nodes:
            if user is not None and _is_module(m, value):
                user.attributes[value] = None
                continue
            crosses = user not in (None, partition_of.get(value))
            for needed in (value, *_sizes(value, binders)) if crosses else (value,):
                core.record_use(needed, partition_of.get(needed), user)
        _bind_symbol(node, binders)


def _partition_of(partitions: list[Partition]) -> dict[Node, Partition]:
    return {node: partition for partition in partitions for node in partition.nodes}


def _is_module(m: GraphModule, node: Node) -> bool:
    return node.op == "get_attr" and isinstance(attrgetter(str(node.target))(m), torch.nn.Module)


def _bind_symbol(node: Node, binders: dict[Any, Node]) -> None:
    """Remember the first node whose value is a symbolic size."""
    value = node.meta.get("example_value")
    if isinstance(value, torch.SymInt | torch.SymFloat) and value.node.expr.is_Symbol:
        binders.setdefault(value.node.expr, node)


def _sizes(value: Node, binders: dict[Any, Node]) -> list[Node]:
    """The nodes that hold the symbolic sizes of a value."""
    if not binders:
        return []
    # Imported late: it brings sympy along, which takes long and few graphs need.
    from torch.fx.experimental.symbolic_shapes import free_symbols

    symbols = free_symbols(value.meta.get("example_value"))
    return [binders[symbol] for symbol in sorted(symbols, key=str) if symbol in binders]


# --- Step 3


def order_partitions(
    partitions: list[Partition], keep_original_order: bool = False
) -> list[Partition]:
    """Unlike the core's: of several that could run next, the one that the graph reaches first.

    So a cut that needs no reordering brings none. Where the original order is asked for, it is
    checked.

    Raises:
        RuntimeError: Also where the original order is asked for, but a partition would run before
            one it depends on.
    """
    core.order_partitions([*partitions])
    if keep_original_order:
        _refuse_late_makers(partitions)
        return partitions
    return list(_first_ready_first(partitions))


def _first_ready_first(partitions: list[Partition]) -> Iterator[Partition]:
    position: dict[core.Partition, int] = {partition: at for at, partition in enumerate(partitions)}
    sorter = TopologicalSorter({partition: partition.dependencies for partition in partitions})
    sorter.prepare()
    ready: list[int] = []
    while sorter.is_active():
        for partition in sorter.get_ready():
            heappush(ready, position[partition])
        first = partitions[heappop(ready)]
        sorter.done(first)
        yield first


def _refuse_late_makers(partitions: list[Partition]) -> None:
    late = set[core.Partition](partitions)
    for user in partitions:
        late.remove(user)
        for maker in filter(late.__contains__, user.dependencies):
            need = core.describe_need(user, maker)
            raise RuntimeError(
                f"keep_original_order: {need}, which comes later in the graph. "
                "Leave keep_original_order out, or change where the callback cuts"
            )


# --- Step 4


def build_submodule(
    partition: Partition, m: GraphModule, keep_original_node_name: bool = False
) -> GraphModule:
    """Unlike the core's: its nodes stand between the regions to enter again and to leave early."""
    partition.graph = type(m.graph)()
    for enter in partition.reentered:
        core.copy_node(enter, partition.graph, partition.environment, enter.target)
    partition.nodes = [*partition.attributes, *partition.nodes, *reversed(partition.exited_early)]
    return _late(core.build_submodule(partition, m, keep_original_node_name))


def _late(module: GraphModule) -> GraphModule:
    """A compiler that wraps us may have asked for modules that generate their code late."""
    if _get_graph_module_cls() is GraphModule:
        return module
    late = _LazyGraphModule.from_graphmodule(module)
    late.meta.update(module.meta)
    return late


# --- Step 5


def stitch_graph(
    m: GraphModule,
    submodules: Mapping[Partition, GraphModule],
    keep_original_order: bool = False,
    keep_original_node_name: bool = False,
) -> GraphModule:
    """Unlike the core's: the code of the submodules isn't generated again.

    A ``GraphModule`` that generates its code makes those inside generate theirs. So plain modules
    take the place of the submodules until the code of the outer module exists, except for those
    that get an attribute of the original, such as the ``weight`` of its own ``submod_0``.
    """
    shared = {str(node.target).partition(".")[0] for node in m.graph.find_nodes(op="get_attr")}
    stand_ins: dict[core.Partition, torch.nn.Module] = {
        partition: submodule if partition.submod_name in shared else torch.nn.Module()
        for partition, submodule in submodules.items()
    }
    split = core.stitch_graph(m, stand_ins, keep_original_order, keep_original_node_name)
    for partition, submodule in submodules.items():
        split.add_module(partition.submod_name, submodule)
    return _late(split)


# --- Step 6: autocast and gradient switches act beyond the partition they are in


def is_mode_change(node: Node) -> bool:
    """Tell whether a node turns autocast or gradients on or off."""
    return node.target in (_enter_autocast, _exit_autocast, SET_GRAD)


def propagate_regions(graph: Graph, partitions: list[Partition]) -> None:
    """Note for each partition the regions it must enter again, and those it must leave early.

    A mode change is a call that changes how everything after it runs. When the cut goes through
    the region after it, each partition has to make the change for itself:

    - Autocast has an enter and an exit. A partition that the region reaches from an earlier one
      enters it again at its start (``reentered``). One that the region leaves towards a later one
      exits at its end (``exited_early``). Regions may be nested.
    - Gradients have one call, which holds until the next one. A partition that such a region
      reaches from an earlier one repeats the call at its start (``reentered``). Nothing is undone.

    ``reentered`` lists autocast regions before gradient regions, each kind in the order of the
    graph; ``exited_early`` lists the outermost region first.

    Args:
        graph: The graph to cut; it is only read.
        partitions: What ``assign_nodes`` returned. Their ``reentered`` and ``exited_early`` are
            filled in.

    Raises:
        RuntimeError: An autocast that is never left, or left without being entered; a mode that is
            computed by the graph; partition numbers that go down, in a graph that changes modes:
            the code before a change would come to run after it.

    In torch: the ``autocast_regions`` and ``grad_regions`` inside ``split_module``.

    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> off = graph.call_function(torch._C._set_grad_enabled, (False,))
    >>> relu = graph.call_function(torch.relu, (x,))
    >>> first, second = Partition("0", [off]), Partition("1", [relu])
    >>> propagate_regions(graph, [first, second])
    >>> second.reentered
    [_set_grad_enabled]
    """
    partition_of = _partition_of(partitions)
    calls = [node for node in graph.nodes if node in partition_of]
    if not any(map(is_mode_change, calls)):
        return
    exits = _exits(calls)
    autocasts: list[Node] = []
    gradients: list[Node] = []
    for node, following in pairwise(calls):
        if node.target is _enter_autocast:
            autocasts.append(node)
        elif node.target is _exit_autocast:
            autocasts.remove(node.args[0])
        elif node.target is SET_GRAD:
            gradients = [node]
        here, there = partition_of[node], partition_of[following]
        if here is not there:
            _refuse_falling_numbers(here, there, following)
            here.exited_early = [exits[enter] for enter in autocasts]
            # A partition that begins with a change of the gradients needs no earlier one.
            there.reentered = autocasts + gradients * (following.target is not SET_GRAD)


def _exits(calls: list[Node]) -> dict[Node, Node]:
    """Find the exit of each autocast that is entered."""
    exits: dict[Any, Any] = {}
    for node in filter(is_mode_change, calls):
        if node.target is _exit_autocast:
            (enter,) = node.args or (None,)
            if exits.get(enter, node):
                raise RuntimeError(
                    f"`{node}` leaves an autocast that is not active ({enter}): "
                    "every _exit_autocast needs a _enter_autocast of its own before it"
                )
            exits[enter] = node
        elif node.all_input_nodes:
            raise RuntimeError(
                f"the setting of `{node}` is computed by the graph ({node.all_input_nodes}): "
                "write it as a constant, so that every partition can repeat the call"
            )
        elif node.target is _enter_autocast:
            exits[node] = None
    for enter, leave in exits.items():
        if leave is None:
            raise RuntimeError(
                f"autocast is entered at `{enter}` and never left: add the call of _exit_autocast"
            )
    return exits


def _refuse_falling_numbers(here: Partition, there: Partition, node: Node) -> None:
    """A mode change acts on all later operations, so no node may move before one."""
    if int(there.name) < int(here.name):
        raise RuntimeError(
            f"node `{node}` goes to {there.submod_name} after the graph has reached "
            f"{here.submod_name}: where autocast or gradients are switched, "
            "partition numbers must not go down along the graph"
        )
