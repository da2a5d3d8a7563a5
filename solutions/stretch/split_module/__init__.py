"""Cut one graph into a pipeline of smaller ones.

The pipeline below is given. Each of its steps is a module of this package, and an exercise with
tests of its own: assign, collect the crossings, order, build, stitch; and, for the stretch, follow
the regions in which autocast or gradients are switched.
"""

from collections.abc import Callable

import torch
from torch.fx import GraphModule, Node

from .assign import assign_nodes
from .build import build_submodule
from .crossings import collect_crossings
from .order import order_partitions
from .partition import Partition
from .regions import follow_regions, is_switch
from .stitch import stitch_graph

__all__ = [
    "Partition",
    "assign_nodes",
    "build_submodule",
    "collect_crossings",
    "follow_regions",
    "order_partitions",
    "split_module",
    "stitch_graph",
]


def split_module(  # given
    m: GraphModule,
    root_m: torch.nn.Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """Cut a traced model into submodules, and return the model that calls them in turn.

    Every call in the graph goes to the partition that the callback names for it. Each partition
    becomes a submodule, ``submod_<number>``. The result computes what ``m`` computes, with the same
    parameters, and ``m`` itself stays as it is.

    Args:
        m: the model to cut.
        root_m: the model that ``m`` was traced from. It is not used; torch's signature has it.
        split_callback: the partition number of a node; it is asked once a node, in the order of the
            graph.
        qualname_map: a dict to fill with the old path of every module called in the result:
            ``{"submod_0.layer1_0_conv1": "layer1.0.conv1"}``.
        keep_original_order: call the submodules in the order in which the graph reaches them, and
            read parameters where they are needed.
        keep_original_node_name: nodes of the submodules have the names of the original's.
        keep_original_input_name: inputs of the submodules have the names of the values they take;
            otherwise ``arg_0``, ``arg_1``, ....
        partition_affix: goes before the number: ``submod_<affix>_<number>``.
        tuple_return: submodules return a tuple also where there is one value.

    Returns:
        The model of submodules; ``meta["partition_names"]`` is the set of their names.

    Raises:
        RuntimeError: partitions wait for each other in a circle; ``keep_original_order`` is asked
            for where a partition would run too early; an autocast region has no end or no start;
            partition numbers go down where autocast or gradients are switched.
        AttributeError: a node refers to something that the model does not have.

    In torch: ``torch.fx.passes.split_module.split_module``.

    >>> import itertools
    >>> class MyModule(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.param = torch.nn.Parameter(torch.rand(3, 4))
    ...         self.linear = torch.nn.Linear(4, 5)
    ...     def forward(self, x, y):
    ...         z = self.linear(x + self.param).clamp(min=0.0, max=1.0)
    ...         w = self.linear(y).clamp(min=0.0, max=1.0)
    ...         return z + w
    >>> model = MyModule()
    >>> round_robin = itertools.cycle([0, 1, 2])
    >>> split = split_module(torch.fx.symbolic_trace(model), model, lambda node: next(round_robin))
    >>> print(split.code.strip())
    def forward(self, x, y):
        param = self.param
        submod_0 = self.submod_0(x, param, y);  x = param = y = None
        getitem = submod_0[0]
        getitem_1 = submod_0[1];  submod_0 = None
        submod_1 = self.submod_1(getitem, getitem_1);  getitem = getitem_1 = None
        getitem_2 = submod_1[0]
        getitem_3 = submod_1[1];  submod_1 = None
        submod_2 = self.submod_2(getitem_2, getitem_3);  getitem_2 = getitem_3 = None
        return submod_2
    """
    partitions = assign_nodes(m.graph, split_callback, partition_affix)
    if any(is_switch(node) for node in m.graph.nodes):
        follow_regions(m.graph, partitions)
    collect_crossings(m, partitions)
    ordered = order_partitions(partitions, bool(keep_original_order))
    submodules = {
        partition: build_submodule(
            partition, m, bool(keep_original_node_name), keep_original_input_name, tuple_return
        )
        for partition in ordered
    }
    if qualname_map is not None:
        qualname_map.update(_qualnames(ordered))
    return stitch_graph(
        m, submodules, bool(keep_original_order), bool(keep_original_node_name), tuple_return
    )


def _qualnames(partitions: list[Partition]) -> dict[str, str]:  # given
    """Map the path of every module called in the result to its path in the original."""
    return {
        f"{partition.submod_name}.{partition.environment[node].target}": str(node.target)
        for partition in partitions
        for node in partition.nodes
        if node.op == "call_module"
    }
