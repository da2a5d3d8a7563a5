"""Step 5: the graph that calls the submodules."""

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx._lazy_graph_module import _make_graph_module
from torch.fx.graph_module import _assign_attr
from torch.fx.node import map_arg

from .._nodes import add_node
from .partition import Partition, attribute_of, returns_bare


def stitch_graph(
    m: GraphModule,
    submodules: Mapping[Partition, GraphModule],
    keep_original_order: bool = False,
    keep_original_node_name: bool = False,
    tuple_return: bool = False,
) -> GraphModule:
    """Write the graph that takes the model's inputs, calls the submodules, returns its output.

    The graph holds, in this order:

    1. the placeholders of the original, with their defaults and annotations, and a ``get_attr`` for
       each of the original's. With ``keep_original_order`` the placeholders only: a ``get_attr``
       waits until right before the first partition that takes it, or before the output;
    2. a call of each submodule with its partition's inputs, and one ``getitem`` for every output,
       where the submodule returns a tuple: see ``returns_bare``;
    3. the original's output, of the same structure.

    Placeholders and ``get_attr`` nodes have a copy of the original's ``meta``. Parameters and
    buffers are the original ones, not copies.

    Args:
        m: the traced model; it is only read.
        submodules: what ``build_submodule`` returned for each partition, in the order in which to
            call them.
        keep_original_order: read a parameter where it is first needed, not at the start.
        keep_original_node_name: call the arguments of ``forward`` as the nodes are called, where a
            placeholder's name differs from its target.
        tuple_return: every submodule returns a tuple.

    Returns:
        The model after the split; ``meta["partition_names"]`` is the set of the submodules' names.

    Raises:
        AttributeError: a node refers to something that the model does not have.
        RuntimeError: the graph reads an attribute that has the name of a submodule.

    Of use: ``torch.fx.node.map_arg``; and from ``partition.py``: ``attribute_of``,
    ``returns_bare``.

    In torch: ``construct_graph`` and the last two loops inside ``split_module``.

    >>> import torch
    >>> m = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()))
    >>> x, linear, relu, output = m.graph.nodes
    >>> partition = Partition("0", nodes=[linear, relu], inputs={x: None}, outputs={relu: []})
    >>> print(stitch_graph(m, {partition: m}).code.strip())
    def forward(self, input):
        input_1 = input
        submod_0 = self.submod_0(input_1);  input_1 = None
        return submod_0
    """
    frame = _Frame(m)
    for node in m.graph.nodes:
        if node.op == "placeholder":
            frame.take(node, keep_original_node_name)
        elif node.op == "get_attr" and not keep_original_order:
            frame.read(node)
    for partition in submodules:
        frame.call(partition, tuple_return)
    for node in m.graph.find_nodes(op="output"):
        frame.give(node)
    return frame.module_around(submodules)


class _Frame:
    """The outer graph while it grows, and the new node of every old value it has got so far."""

    def __init__(self, m: GraphModule) -> None:
        self.m = m
        self.graph = Graph()
        self.values: dict[Node, Node] = {}
        self.attributes: dict[str, Any] = {}

    def take(self, node: Node, keep_original_node_name: bool) -> None:
        target = str(node.target)
        if keep_original_node_name:
            # The stars of *args and **kwargs belong to the target, not to the name.
            target = "*" * target.count("*") + node.name
        new = self.graph.create_node("placeholder", target, node.args, type_expr=node.type)
        self._add(node, new)

    def read(self, node: Node) -> None:
        path = str(node.target)
        self.attributes[path] = attribute_of(self.m, path)
        self._add(node, self.graph.get_attr(path))

    def _add(self, node: Node, new: Node) -> None:
        new.meta.update(node.meta)
        self.values[node] = new

    def call(self, partition: Partition, tuple_return: bool) -> None:
        arguments = tuple(self.new_of(value) for value in partition.inputs)
        call = add_node(self.graph, "call_module", partition.submod_name, arguments)
        if returns_bare(partition, tuple_return):
            self.values.update(dict.fromkeys(partition.outputs, call))
            return
        for position, value in enumerate(partition.outputs):
            item = add_node(self.graph, "call_function", operator.getitem, (call, position))
            self.values[value] = item

    def give(self, output: Node) -> None:
        self.graph.output(map_arg(output.args[0], self.new_of))

    def new_of(self, value: Node) -> Node:
        """Find the new node of an old one; a parameter is read when it is first asked for."""
        if value.op == "get_attr" and value not in self.values:
            self.read(value)
        return self.values[value]

    def module_around(self, submodules: Mapping[Partition, GraphModule]) -> GraphModule:
        """Make the module of the graph, and put the submodules into it.

        A module generates the code of the modules inside it whenever it generates its own. The
        submodules have theirs, so an empty module keeps their seats meanwhile.
        """
        names = [partition.submod_name for partition in submodules]
        self._refuse_taken(names)
        below = {path: path.partition(".")[0] for path in self.attributes}
        seats = dict.fromkeys(names, torch.nn.Module())
        # Where the original has something below such a name, it would be put on the common seat.
        seats |= {name: torch.nn.Module() for name in below.values() if name in seats}
        module = _make_graph_module({**self.attributes, **seats}, self.graph)
        for partition, submodule in submodules.items():
            module.add_submodule(partition.submod_name, submodule)
        for path in (path for path, name in below.items() if name in seats):
            _assign_attr(self.attributes[path], module, path)
        module.meta["partition_names"] = set(names)
        return module

    def _refuse_taken(self, names: Iterable[str]) -> None:
        for name in self.attributes.keys() & names:
            raise RuntimeError(
                f"the graph reads an attribute called `{name}`, and a partition would become "
                f"a submodule of that name: pass another partition_affix"
            )
