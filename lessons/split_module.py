"""Cut a graph into partitions, and build the graph that calls them.

A partition is some of a graph's nodes, together with the values that enter it and those that leave
it. Once you know these values, something else can run in place of the nodes: a submodule, as in
this lesson, or later the call of a module, a fused kernel, a stage on another machine.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from given.code import keep_persistence
from given.split_module import read_late, rename_arguments

from .code import GraphModule
from .graph import Graph, Node


@dataclass(eq=False)
class Partition:  # given
    """Some nodes of a graph, the values that enter and leave, and a graph of these nodes.

    Attributes:
        name: The callback's answer for its nodes, as text.
        nodes: Its calls, in the graph's order (set by ``assign_nodes``).
        inputs: The values that it uses but doesn't compute. Each is mapped to the partition that
            computes it, or to ``None`` if no partition does (``collect_crossings``).
        outputs: Its values that are used elsewhere: a dict as an ordered set
            (``collect_crossings``).
        graph: Its nodes as a graph of their own (``build_graph``).
        environment: Maps its inputs and nodes to their copies in ``graph`` (``build_graph``).

    In torch: ``torch.fx.passes.split_module.Partition``.
    """

    name: str
    nodes: list[Node] = field(default_factory=list)
    inputs: dict[Node, Partition | None] = field(default_factory=dict, repr=False)
    outputs: dict[Node, None] = field(default_factory=dict, repr=False)
    graph: Any = field(default=None, repr=False)
    environment: dict[Node, Node] = field(default_factory=dict, repr=False)

    @property
    def submod_name(self) -> str:
        """The name of the submodule that this partition becomes."""
        return f"submod_{self.name}"

    @property
    def dependencies(self) -> list[Partition]:
        """The partitions that must run before this one."""
        return list(dict.fromkeys(filter(None, self.inputs.values())))

    @property
    def returns_single(self) -> bool:
        """Whether a call of it returns the one output itself, and not a tuple of all outputs."""
        return len(self.outputs) == 1

    @property
    def old_paths(self) -> dict[str, str]:
        """Where the result has each module that its nodes call, and where the model has it."""
        return {
            f"{self.submod_name}.{self.environment[node].target}": str(node.target)
            for node in self.nodes
            if node.op == "call_module"
        }


# A partition, or a subclass of it: a module's call, a kernel, a stage.
Part = TypeVar("Part", bound=Partition)


def split_module(
    m: GraphModule,
    root_m: torch.nn.Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool = False,
    keep_original_node_name: bool = False,
) -> GraphModule:  # step 6
    """Cut a traced model into submodules, and return the model that calls them in turn.

    The callback returns a number for each call in the graph. Calls with the number 3 become the
    submodule ``submod_3``. The result computes the same as ``m``, with the same modules and
    parameters, and ``m`` doesn't change.

    Args:
        m: The model to cut.
        root_m: The model that ``m`` was traced from. Unused, as in torch.
        split_callback: Returns the number of a call.
        qualname_map: A dict to which you add the ``old_paths`` of each partition, for example
            ``{"submod_0.layer1_0_conv1": "layer1.0.conv1"}``.
        keep_original_order: As for ``stitch_graph``. It doesn't change the order of the submodules:
            ``order_partitions`` already keeps the graph's order where that order can run.
        keep_original_node_name: Keep the names of nodes and of the arguments of ``forward``.

    In torch: ``torch.fx.passes.split_module.split_module``.
    """
    raise NotImplementedError("split_module: split_module")


def assign_nodes(
    graph: Graph, split_callback: Callable[[Node], Any], kind: Any = Partition
) -> list[Any]:  # step 1
    """Group the calls of a graph by the text of the callback's answers: 7 and "7" are the same.

    A call computes something: it is a ``call_function``, ``call_method`` or ``call_module`` node.
    The other nodes are in no partition, and the callback isn't asked about them. Ask it once per
    call: a callback may count its calls, and then its second answer is another one.

    Args:
        graph: The graph; it is only read.
        split_callback: Returns a number for a call, or anything else whose text becomes a name.
        kind: The class of the partitions. Later lessons have their own, such as ``Kernel``.

    Returns:
        The partitions, in the order in which the graph reaches them.

    In torch: ``instantiate_node_partition_mapping`` inside ``split_module``.

    >>> from lessons.tracer import symbolic_trace
    >>> graph = symbolic_trace(lambda x: (torch.relu(x) + 1).relu()).graph
    >>> assign_nodes(graph, lambda node: 7 if "relu" in node.name else 3)
    [Partition(name='7', nodes=[relu, relu_1]), Partition(name='3', nodes=[add])]
    """
    raise NotImplementedError("split_module: assign_nodes")


def collect_crossings(m: GraphModule, partitions: Iterable[Partition]) -> None:  # step 2
    """Find the values that enter each partition, and those that leave it.

    Below, ``first`` computes ``mul``, and ``second`` uses it. So ``mul`` is an output of ``first``
    and an input of ``second``. The graph returns ``add``, so ``add`` is an output, although no
    other partition uses it. ``y`` enters too, but no partition computes it.

    Fill in ``inputs`` and ``outputs`` in the order in which the graph's nodes first use the values.

    In torch: ``record_cross_partition_use`` inside ``split_module``.

    >>> from lessons.tracer import symbolic_trace
    >>> m = symbolic_trace(lambda x, y: x * 2 + y)
    >>> x, y, mul, add, output = m.graph.nodes
    >>> first, second = Partition("0", nodes=[mul]), Partition("1", nodes=[add])
    >>> collect_crossings(m, [first, second])
    >>> first.inputs, list(first.outputs)
    ({x: None}, [mul])
    >>> second.inputs, list(second.outputs)
    ({mul: Partition(name='0', nodes=[mul]), y: None}, [add])
    """
    raise NotImplementedError("split_module: collect_crossings")


def order_partitions(partitions: list[Part]) -> list[Part]:  # step 3
    """Sort partitions so that each runs after those it depends on.

    Of several that could run next, take the one that is first in the list. So if you cut a model
    from front to back, it stays in that order.

    If two partitions need values from each other, no order works. In a model of a thousand nodes
    you want to know which two: the error has the ``submod_name`` of each partition in the cycle,
    and of no others.

    Raises:
        RuntimeError: Partitions depend on each other in a cycle.

    In torch: the loop over ``root_partitions`` inside ``split_module``. It takes the partition that
    became ready last, and its error doesn't name any.

    >>> from lessons.tracer import symbolic_trace
    >>> x, relu, add, output = symbolic_trace(lambda x: torch.relu(x) + 1).graph.nodes
    >>> first = Partition("7", nodes=[relu])
    >>> second = Partition("3", nodes=[add], inputs={relu: first})
    >>> [partition.name for partition in order_partitions([second, first, Partition("5")])]
    ['7', '3', '5']
    """
    raise NotImplementedError("split_module: order_partitions")


def copy_nodes(
    nodes: Iterable[Node],
    graph: Graph,
    environment: dict[Node, Node],
    keep_original_node_name: bool = False,
) -> None:  # step 4
    """Add copies of nodes to a graph.

    If you copied ``add`` below with its own arguments, the copy would use ``y`` of the old graph.
    It has to use the new ``y``, and ``environment`` knows which one that is.

    Args:
        nodes: The nodes, in the order in which to copy them. The copies have their types, and
            copies of their ``meta``.
        graph: The graph in which to create the copies.
        environment: Maps old nodes to new ones. It has all values that ``nodes`` use and don't
            compute; each copy is added to it.
        keep_original_node_name: Keep the names. Otherwise ``create_node`` chooses them as usual, so
            in a new graph, the first ``relu`` is ``relu``, even if it was ``relu_5``.

    >>> old, new = Graph(), Graph()
    >>> y = old.placeholder("y")
    >>> add = old.call_method("add", (y, 1))
    >>> environment = {y: new.placeholder("taken")}
    >>> copy_nodes([add], new, environment)
    >>> print(new)
    graph():
        taken = placeholder taken () {}
        add = call_method add (taken, 1) {}
    >>> environment
    {y: taken, add: add}
    """
    raise NotImplementedError("split_module: copy_nodes")


def build_graph(partition: Partition, keep_original_node_name: bool = False) -> Graph:  # step 4
    """Build the graph of a partition, as if it were a function.

    Its inputs are the parameters: placeholders with the names and types of the values, copies of
    their ``meta``, and no defaults. Its outputs are the result. If ``returns_single``, that is the
    value itself, and otherwise a tuple, which may be empty.

    Returns:
        The graph, of the class of the graph that the nodes are from, yours or torch's. It is also
        ``partition.graph``, and the dict of copies is ``partition.environment``.

    >>> from lessons.tracer import symbolic_trace
    >>> x, relu, tanh, output = symbolic_trace(lambda x: x.relu().tanh()).graph.nodes
    >>> part = Partition("0", nodes=[tanh], inputs={relu: None}, outputs={tanh: None})
    >>> print(build_graph(part))
    graph():
        relu = placeholder relu () {}
        tanh = call_method tanh (relu,) {}
        output = output output (tanh,) {}
    >>> part.environment[relu] is relu
    False
    """
    raise NotImplementedError("split_module: build_graph")


def build_submodule(
    partition: Partition, m: GraphModule, keep_original_node_name: bool = False
) -> GraphModule:  # step 4
    """Build a module that runs the graph of a partition.

    The module is flat. If the model calls ``layers.first``, the submodule has the same module as
    ``layers_first``: that very object, not a copy, and no module that it doesn't call.

    Args:
        partition: A partition, after ``collect_crossings``.
        m: The traced model, which has the modules; it is only read.
        keep_original_node_name: As for ``copy_nodes``.

    Returns:
        The submodule. Its class is ``graph_module_class(m)`` of the lesson ``code``.

    In torch: three loops inside ``split_module``, over partitions, nodes and partitions again.
    """
    raise NotImplementedError("split_module: build_submodule")


def values_of(call: Node, partition: Partition) -> dict[Node, Node]:  # given
    """Return, for each output of a partition, the node that has it after a call of the partition.

    Several outputs are taken out of the tuple that the call returns.
    """
    if partition.returns_single:
        return dict.fromkeys(partition.outputs, call)
    return {
        value: call.graph.call_function(operator.getitem, (call, position))
        for position, value in enumerate(partition.outputs)
    }


def with_calls(
    graph: Graph, partitions: Iterable[Part], call: Callable[[Graph, Part, Any], Node | None]
) -> Graph:  # step 5
    """Copy a graph, with calls in place of some of its partitions.

    Below, the partition of ``add`` and ``neg`` becomes a call. Each node that isn't replaced is in
    a partition of its own, so that one order covers all nodes. ``values_of`` returns the nodes that
    have a partition's outputs after its call.

    Args:
        graph: The graph; it is only read. Each of its calls is in one of the partitions.
        partitions: The partitions, in an order in which they can run.
        call: Takes the new graph, a partition, and a tuple of the partition's inputs in the new
            graph. Adds the node of a call, and returns it; or returns ``None`` if the partition's
            nodes are to be copied.

    Returns:
        The new graph, of the same class. All placeholders and ``get_attr`` nodes come first. Nodes
        keep their names; the output has no type.

    >>> from lessons.tracer import symbolic_trace
    >>> m = symbolic_trace(lambda x: (torch.relu(x) + 1).neg() * torch.relu(x))
    >>> fused = {"add", "neg"}
    >>> parts = assign_nodes(m.graph, lambda each: "fused" if each.name in fused else each.name)
    >>> collect_crossings(m, parts)
    >>> def call(graph, part, inputs):
    ...     return graph.call_module("fused", inputs) if part.name == "fused" else None
    >>> print(with_calls(m.graph, order_partitions(parts), call))
    graph():
        x = placeholder x () {}
        relu = call_function relu (x,) {}
        fused = call_module fused (relu,) {}
        relu_1 = call_function relu (x,) {}
        mul = call_function mul (fused, relu_1) {}
        output = output output (mul,) {}
    """
    raise NotImplementedError("split_module: with_calls")


def stitch_graph(
    m: GraphModule,
    submodules: Mapping[Part, torch.nn.Module],
    keep_original_order: bool = False,
    keep_original_node_name: bool = False,
) -> GraphModule:  # step 5
    """Build the outer model: it calls each submodule, even if nothing uses the result.

    Args:
        m: The traced model; it is only read. Its parameters and buffers that the graph reads go
            into the result: the objects themselves, under the same paths. Buffers are persistent
            if they were before (``keep_persistence(split, m)``, which is given).
        submodules: Maps each partition to its submodule, in the order in which to call them.
        keep_original_order: Apply ``read_late`` to the new graph.
        keep_original_node_name: Apply ``rename_arguments`` to the new graph.

    Returns:
        The model, of the class of ``m``. Each submodule has the ``submod_name`` of its partition,
        and ``meta["partition_names"]`` is the set of these names.

    In torch: ``construct_graph`` and the last two loops inside ``split_module``.
    """
    raise NotImplementedError("split_module: stitch_graph")
