"""Unlike the core: splits graphs that switch autocast or gradients, or have symbolic sizes.

- Each partition switches autocast and gradients for itself (``propagate_regions``).
- A partition that takes a tensor with symbolic sizes takes these sizes too, and a module that the
  graph passes to a function is read where it is used (``collect_crossings``).
- There are torch's options ``keep_original_input_name``, ``partition_affix`` and ``tuple_return``.
- Two paths that become equal when flattened stay apart, and a target that isn't there is named
  (``build_submodule``).
- The split model takes and returns the structures that the model does, and the code of each
  submodule is generated once (``stitch_graph``).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count, filterfalse, pairwise
from operator import attrgetter
from typing import Any

import torch
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.fx import Graph, GraphModule, Node

from .. import split_module as core

SET_GRAD = torch._C._set_grad_enabled


@dataclass(eq=False, repr=False)
class Partition(core.Partition):
    """Unlike the core's: it knows the modes in which its nodes run.

    Attributes:
        reentered: The mode changes to repeat at the start (``propagate_regions``).
        exited_early: The exits to add at the end, the outermost first (``propagate_regions``).
        attributes: The ``get_attr`` nodes of modules, read inside instead of passed in; a dict as
            an ordered set (``collect_crossings``).
        tuple_return: As for ``split_module``.
    """

    reentered: list[Node] = field(default_factory=list)
    exited_early: list[Node] = field(default_factory=list)
    attributes: dict[Node, None] = field(default_factory=dict)
    tuple_return: bool = False

    @property
    def returns_single(self) -> bool:
        return super().returns_single and not self.tuple_return


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
    """Split a traced model into submodules, as the core does, with torch's other options.

    Args:
        m: The model to split; for the next five arguments, see the core.
        root_m: Unused, as in torch.
        split_callback: Returns the number of a call.
        qualname_map: A dict that gets the old paths of the modules.
        keep_original_order: Read parameters and buffers right before their first use.
        keep_original_node_name: Keep the names of nodes and arguments.
        keep_original_input_name: Name the submodules' inputs after the values that they take;
            otherwise ``arg_0``, ``arg_1``, ....
        partition_affix: A word for the names of the submodules: ``submod_<affix>_<number>``.
        tuple_return: Let submodules return a tuple even for a single value.

    Raises:
        RuntimeError: Partitions depend on each other in a cycle; partition numbers go down in a
            graph that switches autocast or gradients; an autocast is entered and never exited.
        AttributeError: The model doesn't have what a node names.

    In torch: ``torch.fx.passes.split_module.split_module``.
    """
    affix = f"{partition_affix}_" if partition_affix is not None else ""
    partitions = assign_nodes(m.graph, lambda node: f"{affix}{split_callback(node)}")
    for partition in partitions:
        partition.tuple_return = tuple_return
    propagate_regions(m.graph, partitions)
    collect_crossings(m, partitions)
    submodules = {
        partition: build_submodule(partition, m, keep_original_node_name, keep_original_input_name)
        for partition in core.order_partitions(partitions)
    }
    if qualname_map is not None:
        for partition in partitions:
            qualname_map.update(partition.old_paths)
    return stitch_graph(m, submodules, keep_original_order, keep_original_node_name)


# --- Step 1


def assign_nodes(
    graph: Graph, split_callback: Callable[[Node], Any], kind: Any = Partition
) -> list[Any]:
    """Unlike the core's: the partitions are those of the stretch."""
    return core.assign_nodes(graph, split_callback, kind)


# --- Step 2


def collect_crossings(m: GraphModule, partitions: list[Partition]) -> None:
    """Unlike the core's: modules and mode changes aren't passed, and symbolic sizes are.

    - A partition that uses the ``get_attr`` of a module reads the module itself: the node goes to
      its ``attributes``, not to its ``inputs``.
    - If a tensor's ``meta["example_value"]`` has symbolic sizes, the partition takes these, too:
      for each free symbol, sorted by name, the first node that holds it, right after the tensor.
      A node that comes later in the graph, or is in the partition itself, isn't taken.
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
                _record_use(needed, partition_of.get(needed), user)
        _bind_symbol(node, binders)


def _partition_of(partitions: list[Partition]) -> dict[Node, Partition]:
    return {node: partition for partition in partitions for node in partition.nodes}


def _record_use(value: Node, maker: Partition | None, user: Partition | None) -> None:
    if maker is user:
        return
    if user is not None:
        user.inputs[value] = maker
    if maker is not None:
        maker.outputs[value] = None


def _is_module(m: GraphModule, node: Node) -> bool:
    return node.op == "get_attr" and isinstance(_found(m, node), torch.nn.Module)


def _found(m: GraphModule, node: Node) -> object:
    """Return what the model has where a ``get_attr`` or ``call_module`` node looks."""
    try:
        return attrgetter(str(node.target))(m)
    except AttributeError:
        raise AttributeError(
            f"`{node}` names `{node.target}`, but the model has nothing at that path: "
            "install it there, or erase the node"
        ) from None


def _bind_symbol(node: Node, binders: dict[Any, Node]) -> None:
    """Remember a node as the holder of a symbol, if it is the first."""
    value = node.meta.get("example_value")
    if isinstance(value, torch.SymInt | torch.SymFloat) and value.node.expr.is_Symbol:
        binders.setdefault(value.node.expr, node)


def _sizes(value: Node, binders: dict[Any, Node]) -> list[Node]:
    """Return the nodes that hold the symbolic sizes of a value."""
    if not binders:
        return []
    # Imported late: it imports sympy, which takes long, and few graphs need it.
    from torch.fx.experimental.symbolic_shapes import free_symbols

    symbols = free_symbols(value.meta.get("example_value"))
    return [binders[symbol] for symbol in sorted(symbols, key=str) if symbol in binders]


# --- Step 4


def build_graph(
    partition: Partition,
    keep_original_node_name: bool = False,
    keep_original_input_name: bool = True,
) -> Graph:
    """Unlike the core's: it enters the open regions first, and exits them at the end."""
    graph = type(partition.nodes[0].graph)()
    environment: dict[Node, Node] = {}
    core.copy_nodes(partition.reentered, graph, environment)
    for position, value in enumerate(partition.inputs):
        name = value.name if keep_original_input_name else f"arg_{position}"
        environment[value] = graph.placeholder(name, value.type)
        environment[value].meta.update(value.meta)
    nodes = [*partition.attributes, *partition.nodes, *reversed(partition.exited_early)]
    core.copy_nodes(nodes, graph, environment, keep_original_node_name)
    values = tuple(environment[value] for value in partition.outputs)
    graph.output(values[0] if partition.returns_single else values)
    partition.graph, partition.environment = graph, environment
    return graph


def build_submodule(
    partition: Partition,
    m: GraphModule,
    keep_original_node_name: bool = False,
    keep_original_input_name: bool = True,
) -> GraphModule:
    """Unlike the core's: of two paths that would be equal when flattened, one gets a number."""
    graph = build_graph(partition, keep_original_node_name, keep_original_input_name)
    modules = {str(node.target): _found(m, node) for node in partition.attributes}
    paths: dict[str, str] = {}
    for node in partition.nodes:
        if node.op == "call_module":
            path = _flat(str(node.target), paths)
            partition.environment[node].target = path
            modules[path] = _found(m, node)
    return core.graph_module_class(m)(modules, graph)  # type: ignore[attr-defined]


def _flat(path: str, paths: dict[str, str]) -> str:
    """Return a path without dots, followed by ``_1``, ``_2``, ... if another path has it."""
    name, numbers = path.replace(".", "_"), count(1)
    free = name
    while paths.setdefault(free, path) != path:
        free = f"{name}_{next(numbers)}"
    return free


# --- Step 5


def stitch_graph(
    m: GraphModule,
    submodules: Mapping[Partition, GraphModule],
    keep_original_order: bool = False,
    keep_original_node_name: bool = False,
) -> GraphModule:
    """Unlike the core's: the code of the submodules isn't generated again.

    When a ``GraphModule`` generates its code, the graph modules inside generate theirs again. So
    an empty module replaces the submodules until the outer code exists. A submodule stays if the
    outer graph reads an attribute of that name, such as the ``weight`` of the model's ``submod_0``.
    """
    empty = torch.nn.Module()
    shared = {str(node.target).partition(".")[0] for node in m.graph.find_nodes(op="get_attr")}
    stand_ins: dict[core.Partition, torch.nn.Module] = {
        partition: submodule if partition.submod_name in shared else empty
        for partition, submodule in submodules.items()
    }
    split = core.stitch_graph(m, stand_ins, keep_original_order, keep_original_node_name)
    codegen: Any = getattr(m.graph, "_codegen", None)
    # `torch.distributed.pipelining` cuts exported models, and expects the flat results.
    if hasattr(codegen, "pytree_info") and not _is_exported(codegen.pytree_info.in_spec):
        split.graph.set_codegen(copy.copy(codegen))  # type: ignore[attr-defined]
        split.recompile()
    for partition, submodule in submodules.items():
        split.add_module(partition.submod_name, submodule)
    return split


def _is_exported(spec: Any) -> bool:
    """Return whether a structure of arguments is ``(args, kwargs)``, as export writes it."""
    types = [spec.child(each).type for each in range(spec.num_children)]
    return spec.type is tuple and types == [tuple, dict]


# --- Step 6: autocast and gradient switches affect later partitions


def is_mode_change(node: Node) -> bool:
    """Return whether a node switches autocast or gradients on or off."""
    return node.target in (_enter_autocast, _exit_autocast, SET_GRAD)


def propagate_regions(graph: Graph, partitions: list[Partition]) -> None:
    """Find the regions that each partition must enter again, and those that it must exit early.

    A mode change is a call that changes how all later calls run. If the cut separates it from some
    of them, each partition has to make the change for itself:

    - Autocast has an enter and an exit. If a region began in an earlier partition, this one enters
      it again at its start (``reentered``). If it ends in a later one, this one exits it at its end
      (``exited_early``). Regions may be nested, or end in any order.
    - A switch of gradients holds until the next one. If it came in an earlier partition, this one
      repeats it at its start (``reentered``), after the autocasts. There is nothing to exit.

    Raises:
        RuntimeError: Partition numbers go down: code from before a change could run after it. Or
            an autocast is never exited.

    In torch: ``autocast_regions`` and ``grad_regions`` inside ``split_module``.
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


def _exits(calls: list[Node]) -> dict[Any, Node]:
    """Map each call that enters an autocast to the one that exits it."""
    exits = {node.args[0]: node for node in calls if node.target is _exit_autocast}
    for node in calls:
        if node.target is _enter_autocast and node not in exits:
            raise RuntimeError(
                f"autocast is entered at `{node}` and never exited: add a call of _exit_autocast"
            )
    return exits


def _refuse_falling_numbers(here: Partition, there: Partition, node: Node) -> None:
    """Refuse an order in which a node could move to the other side of a mode change."""
    numbers = [int(each.name.rpartition("_")[2]) for each in (here, there)]
    if numbers[1] < numbers[0]:
        raise RuntimeError(
            f"node `{node}` goes to {there.submod_name} after the graph has reached "
            f"{here.submod_name}: where autocast or gradients are switched, "
            "partition numbers must not go down along the graph"
        )
