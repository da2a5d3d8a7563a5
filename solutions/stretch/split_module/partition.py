"""What the steps hand on to each other: the partition, and a few questions about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node


@dataclass(eq=False, repr=False)
class Partition:  # given
    """The nodes that become one submodule, and everything the steps find out about them.

    ``name`` is the callback's answer as text, after the affix if there is one. The submodule is
    called ``submod_<name>``. The steps fill in the rest:

    - ``number``, ``nodes``: the callback's answer itself, and the nodes it was given for
      (``assign_nodes``);
    - ``resumed``, ``suspended``: the switches to repeat at the start, the exits to add at the end
      (``follow_regions``);
    - ``inputs``: every value that comes in, and the partition that makes it; ``None`` for what the
      graph itself provides, a placeholder or a parameter (``collect_crossings``);
    - ``outputs``: every value that goes out, and the partitions that use it; an empty list where
      only the graph's output does (``collect_crossings``);
    - ``attributes``: the ``get_attr`` nodes of modules, read inside instead of passed in
      (``collect_crossings``);
    - ``graph``, ``environment``, ``targets``: the submodule's graph, the new node of every old one,
      and the old path of every new target (``build_submodule``).

    In torch: the class of the same name in ``torch.fx.passes.split_module``.

    >>> Partition("0").submod_name
    'submod_0'
    """

    name: str
    number: Any = None
    nodes: list[Node] = field(default_factory=list)
    resumed: list[Node] = field(default_factory=list)
    suspended: list[Node] = field(default_factory=list)
    inputs: dict[Node, Partition | None] = field(default_factory=dict)
    outputs: dict[Node, list[Partition]] = field(default_factory=dict)
    attributes: dict[Node, None] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    environment: dict[Node, Node] = field(default_factory=dict)
    targets: dict[str, str] = field(default_factory=dict)

    @property
    def submod_name(self) -> str:
        """The name of the submodule that this partition becomes."""
        return f"submod_{self.name}"

    @property
    def node_names(self) -> list[str]:
        """The names of the nodes, in the graph's order."""
        return [node.name for node in self.nodes]

    @property
    def dependencies(self) -> dict[str, None]:
        """The names of the partitions that must run before this one."""
        return {maker.name: None for maker in self.inputs.values() if maker is not None}

    @property
    def dependents(self) -> dict[str, None]:
        """The names of the partitions that wait for this one."""
        return {user.name: None for users in self.outputs.values() for user in users}

    def __repr__(self) -> str:
        rows = {
            "nodes": self.nodes,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "partitions depended on": self.dependencies,
            "partition dependents": self.dependents,
        }
        lines = [f"  {label}: {', '.join(map(str, row)) or '-'}" for label, row in rows.items()]
        return "\n".join([f"name: {self.name}", *lines])


def partition_of_node(partitions: Iterable[Partition]) -> dict[Node, Partition]:  # given
    """Tell in which partition each node lives; placeholders and parameters live in none."""
    return {node: partition for partition in partitions for node in partition.nodes}


def returns_bare(partition: Partition, tuple_return: bool) -> bool:  # given
    """Tell whether the submodule returns its value as it is, and not in a tuple.

    One value travels bare, several travel as a tuple, unless the caller wants tuples always.
    The submodule that returns and the graph that unpacks both ask here.
    """
    return len(partition.outputs) == 1 and not tuple_return


def attribute_of(m: GraphModule, path: str) -> Any:  # given
    """Look up what a ``call_module`` or ``get_attr`` node refers to, by its dotted path."""
    value: Any = m
    for name in path.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            raise AttributeError(
                f"the graph refers to `{path}`, but there is no `{name}` in "
                f"{type(value).__name__}: put the attribute back, or trace the model again"
            ) from None
    return value


def is_module(m: GraphModule, node: Node) -> bool:  # given
    """Tell whether a node reads a module, and not a tensor, from the model."""
    return node.op == "get_attr" and isinstance(attribute_of(m, str(node.target)), torch.nn.Module)
