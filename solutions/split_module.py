"""Split a graph into submodules, and build the graph that calls them in turn.

A callback returns a partition number for every call in the graph. Five steps do the rest: group the
nodes by partition, collect the values that are passed between partitions, sort the partitions by
their dependencies, build a submodule from each, and build the outer graph that calls the
submodules.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from typing import Any, TypeVar

import torch

from .code import GraphModule, graph_module_class
from .graph import Graph, Node, map_arg


@dataclass(eq=False)
class Partition:  # given
    """The nodes that become one submodule, and the data that the steps below fill in.

    Attributes:
        name: The partition number that the callback returned, as a string.
        nodes: The calls in this partition, in the graph's order (set by ``assign_nodes``).
        inputs: Maps each value that the partition uses but doesn't compute to the partition that
            computes it, or to ``None`` for a placeholder or ``get_attr`` node
            (``collect_crossings``).
        outputs: The values that are used outside; a dict as an ordered set (``collect_crossings``).
        graph: The submodule's graph (``build_submodule``).
        environment: Maps each original node to its copy in ``graph`` (``build_submodule``).

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
    def input_names(self) -> list[str]:
        """The names of the submodule's placeholders: those of the original nodes."""
        return [value.name for value in self.inputs]

    def flat_name(self, path: str) -> str:
        """The attribute of the submodule that holds the module at ``path`` in the model."""
        return path.replace(".", "_")

    @property
    def returns_single(self) -> bool:
        """Return whether the submodule returns a single value instead of a tuple."""
        return len(self.outputs) == 1


# A partition, or a subclass of it: a kernel, a stage, a module's call.
Part = TypeVar("Part", bound=Partition)


def split_module(
    m: GraphModule,
    root_m: torch.nn.Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool = False,
    keep_original_node_name: bool = False,
) -> GraphModule:
    """Split a traced model into submodules, and return the model that calls them in turn.

    Every call in the graph belongs to the partition whose number the callback returns for it. Each
    partition becomes a submodule, ``submod_<number>``. The result computes the same as ``m``, with
    the same modules and parameters, and ``m`` itself isn't changed.

    This function calls the five steps below in order. Write it last.

    Args:
        m: The model to split.
        root_m: The model that ``m`` was traced from. Unused; kept for compatibility with torch.
        split_callback: Returns the partition number of a node; called once for each call node, in
            the order of the graph.
        qualname_map: A dict to fill with the old path of every module called in the result:
            ``{"submod_0.layer1_0_conv1": "layer1.0.conv1"}``. Existing entries are kept.
        keep_original_order: Call the submodules in the order in which the graph reaches them, and
            read parameters where they are needed.
        keep_original_node_name: Give the nodes of the submodules the names of the original nodes.

    Returns:
        The model of submodules; ``meta["partition_names"]`` is the set of their names.

    Raises:
        RuntimeError: Partitions depend on each other in a cycle.

    In torch: ``torch.fx.passes.split_module.split_module``.

    >>> from solutions.tracer import symbolic_trace
    >>> class TwoViews(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.scale = torch.nn.Parameter(torch.ones(4))
    ...         self.encoder = torch.nn.Linear(4, 2)
    ...
    ...     def forward(self, left, right):
    ...         first = self.encoder(left * self.scale).softmax(dim=-1)
    ...         second = self.encoder(right).softmax(dim=-1)
    ...         return torch.maximum(first, second)
    >>> model = TwoViews()
    >>> first = {"mul", "encoder", "encoder_1"}  # encode both views, then compare them
    >>> split = split_module(symbolic_trace(model), model, lambda node: int(node.name not in first))
    >>> print(split.code.strip())
    def forward(self, left, right):
        scale = self.scale
        submod_0 = self.submod_0(left, scale, right);  left = scale = right = None
        getitem = submod_0[0]
        getitem_1 = submod_0[1];  submod_0 = None
        submod_1 = self.submod_1(getitem, getitem_1);  getitem = getitem_1 = None
        return submod_1
    """
    partitions = assign_nodes(m.graph, split_callback)
    collect_crossings(m, partitions)
    ordered = order_partitions(partitions, keep_original_order)
    submodules = {
        partition: build_submodule(partition, m, keep_original_node_name) for partition in ordered
    }
    if qualname_map is not None:
        qualname_map.update(old_paths(ordered))
    return stitch_graph(m, submodules, keep_original_order, keep_original_node_name)


def old_paths(partitions: Iterable[Partition]) -> dict[str, str]:  # reference only
    """Map the path of every module called in the result to its path in the original."""
    return {
        f"{partition.submod_name}.{partition.environment[node].target}": str(node.target)
        for partition in partitions
        for node in partition.nodes
        if node.op == "call_module"
    }


# --- Step 1: every call gets its partition


def assign_nodes(
    graph: Graph, split_callback: Callable[[Node], Any], kind: Any = Partition
) -> list[Any]:
    """Call the callback once for every call node, and group the nodes by its answers.

    A call is a node that computes something: ``call_function``, ``call_method`` or ``call_module``.
    Placeholders, ``get_attr`` nodes and the output belong to no partition; the callback is not
    called for them. Call it exactly once per node: it may keep a count or use random numbers, so
    a second call may return something else.

    Args:
        graph: The graph to split; not modified.
        split_callback: Returns the partition number of a node, or any other name for a group.
        kind: The class of the partitions: later lessons have their own, such as ``Kernel``.

    Returns:
        The partitions, in the order in which the graph first reaches them. Each has its ``name``
        (the number as text) and its ``nodes``, in the graph's order. A graph without calls has no
        partitions.

    In torch: ``instantiate_node_partition_mapping`` inside ``split_module``.

    >>> from solutions.tracer import symbolic_trace
    >>> def f(x):
    ...     return torch.relu(x) + 1
    >>> graph = symbolic_trace(f).graph
    >>> assign_nodes(graph, lambda node: len(node.name) % 2)
    [Partition(name='0', nodes=[relu]), Partition(name='1', nodes=[add])]
    """
    partitions: dict[str, Any] = {}
    for node in graph.nodes:
        if node.op not in ("placeholder", "get_attr", "output"):
            name = str(split_callback(node))
            partitions.setdefault(name, kind(name)).nodes.append(node)
    return list(partitions.values())


# --- Step 2: values that are made in one partition and used in another


def collect_crossings(m: GraphModule, partitions: Iterable[Partition]) -> None:
    """Fill in the inputs and outputs of each partition.

    If a node uses a value that another partition computes, the value is an input of the node's
    partition and an output of the other one. Placeholders and ``get_attr`` nodes are inputs too,
    but belong to no partition. A value that the graph returns is an output of its partition, even
    if no other partition uses it.

    Args:
        m: The traced model; it is only read.
        partitions: The result of ``assign_nodes``. Their ``inputs`` and ``outputs`` are filled in,
            in the order of first use.

    Hint: ``node.all_input_nodes`` lists the nodes in a node's arguments, also nested ones.

    In torch: ``record_cross_partition_use`` inside ``split_module``.

    >>> from solutions.tracer import symbolic_trace
    >>> def f(x, y):
    ...     doubled = x * 2
    ...     return doubled + y, doubled
    >>> m = symbolic_trace(f)
    >>> x, y, mul, add, output = m.graph.nodes
    >>> first, second = Partition("0", nodes=[mul]), Partition("1", nodes=[add])
    >>> collect_crossings(m, [first, second])
    >>> list(first.inputs), list(first.outputs)
    ([x], [mul])
    >>> list(second.inputs), list(second.outputs), second.dependencies
    ([mul, y], [add], [Partition(name='0', nodes=[mul])])
    """
    partition_of = {node: partition for partition in partitions for node in partition.nodes}
    for node in m.graph.nodes:
        for value in node.all_input_nodes:
            record_use(value, partition_of.get(value), partition_of.get(node))


def record_use(
    value: Node, maker: Partition | None, user: Partition | None
) -> None:  # reference only
    """Record one use of a value; a node that belongs to no partition has ``None``."""
    if maker is user:
        return
    if maker is not None:
        maker.outputs[value] = None
    if user is not None:
        user.inputs[value] = maker


# --- Step 3: in which order the partitions run


def order_partitions(partitions: list[Part], keep_original_order: bool = False) -> list[Part]:
    """Sort the partitions so that each runs after all those it depends on.

    Of several that could run next, the first in the given order runs first. So a cut along the
    graph keeps the graph's order, and partitions of one node each stay as they are.

    Args:
        partitions: The result of ``assign_nodes``, after ``collect_crossings``.
        keep_original_order: Return them in the given order. Only cycles are refused.

    Returns:
        The same partitions, each after those it depends on, unless ``keep_original_order``.

    Raises:
        RuntimeError: Partitions depend on each other in a cycle, even with ``keep_original_order``.
            The message contains the ``submod_name`` of each partition in the cycle, and of no
            others.

    Hint: ``graphlib.TopologicalSorter`` of the standard library: ``prepare`` refuses a cycle, then
    ``get_ready`` and ``done`` let you choose. ``heapq`` keeps the ready ones sorted.

    In torch: the loop over ``root_partitions`` inside ``split_module``. Of several partitions that
    are ready, it runs the one that became ready last. Its error doesn't name the partitions.

    >>> from solutions.tracer import symbolic_trace
    >>> def f(x):
    ...     return torch.relu(x) + 1
    >>> x, relu, add, output = symbolic_trace(f).graph.nodes
    >>> first = Partition("7", nodes=[relu])
    >>> second = Partition("3", nodes=[add], inputs={relu: first})
    >>> [partition.submod_name for partition in order_partitions([second, first])]
    ['submod_7', 'submod_3']
    """
    sorter = TopologicalSorter({partition: partition.dependencies for partition in partitions})
    try:
        sorter.prepare()
    except CycleError as error:
        raise _cycle(error.args[1]) from None
    return partitions if keep_original_order else list(_first_ready_first(sorter, partitions))


def _first_ready_first(sorter: TopologicalSorter[Any], partitions: list[Part]) -> Iterator[Part]:
    """Yield the partitions that a prepared sorter lets run, always the first in the list."""
    position = {partition: at for at, partition in enumerate(partitions)}
    ready: list[int] = []
    while sorter.is_active():
        for partition in sorter.get_ready():
            heappush(ready, position[partition])
        first = partitions[heappop(ready)]
        yield first
        sorter.done(first)


def _cycle(circle: list[Partition]) -> RuntimeError:
    """Describe a cycle; each of the partitions makes something that the next one needs."""
    names = " -> ".join(partition.submod_name for partition in circle)
    maker, user, *_ = circle
    return RuntimeError(
        f"cycle exists between partitions: {names}. For example, {describe_need(user, maker)}. "
        "Put the nodes of the cycle into one partition, or change where the callback cuts"
    )


def describe_need(user: Partition, maker: Partition) -> str:  # reference only
    """Return a sentence that names a value that one partition needs from another."""
    value = next(value for value, origin in user.inputs.items() if origin is maker)
    return f"{user.submod_name} needs `{value}` from {maker.submod_name}"


# --- Step 4: a partition becomes a module of its own


def build_submodule(
    partition: Partition, m: GraphModule, keep_original_node_name: bool = False
) -> GraphModule:
    """Copy the nodes of a partition into its own graph, between its inputs and its outputs.

    The new graph holds, in this order:

    1. a placeholder for each of ``partition.inputs``, named as in ``partition.input_names``. It has
       no default: a submodule is always given all of its inputs;
    2. the nodes. Their arguments are the new graph's nodes. The submodule is flat: the module at
       ``a.b.c`` is called as ``a_b_c``, its ``partition.flat_name``;
    3. the output, in the order of ``partition.outputs``: the value itself if
       ``partition.returns_single``, otherwise a tuple of all values, which may be empty.

    Every new node has the type of its original, and a copy of its ``meta``. The modules are the
    original ones, not copies; the submodule holds those that it calls, and no others.

    Args:
        partition: A partition, after ``collect_crossings``. Its ``graph`` and its
            ``environment`` are filled in.
        m: The traced model, which holds the modules.
        keep_original_node_name: Give the copies the names of their originals. Otherwise the new
            graph names them itself.

    Returns:
        The submodule.

    The new graph and module have the classes of ``m`` and its graph, whether yours or torch's:
    ``type(m.graph)()``, and ``graph_module_class(m)`` of the lesson ``code``.

    Hint: ``map_arg`` of the lesson ``graph``, which replaces nodes in arguments, also nested ones;
    ``Graph.create_node``; a ``GraphModule`` made from a dict, which takes its modules from there.

    In torch: three loops inside ``split_module``, over partitions, nodes and partitions again.

    >>> from solutions.tracer import symbolic_trace
    >>> mlp = torch.nn.Sequential()
    >>> mlp.layers = torch.nn.Sequential()
    >>> mlp.layers.first = torch.nn.Linear(3, 4)
    >>> m = symbolic_trace(mlp)
    >>> x, linear, output = m.graph.nodes
    >>> partition = Partition("0", nodes=[linear], inputs={x: None}, outputs={linear: None})
    >>> print(build_submodule(partition, m).code.strip())
    def forward(self, input_1):
        layers_first = self.layers_first(input_1);  input_1 = None
        return layers_first
    """
    build_graph(partition, keep_original_node_name)
    modules = {
        str(partition.environment[node].target): operator.attrgetter(str(node.target))(m)
        for node in partition.nodes
        if node.op in ("call_module", "get_attr")
    }
    return graph_module_class(m)(modules, partition.graph)


def build_graph(partition: Partition, keep_original_node_name: bool = False) -> Graph:
    """Fill in and return the ``graph`` of a partition: its inputs, its nodes, its outputs."""
    if partition.graph is None:
        partition.graph = type(partition.nodes[0].graph)()
    graph, environment = partition.graph, partition.environment
    for value, name in zip(partition.inputs, partition.input_names, strict=True):
        environment[value] = graph.placeholder(name, type_expr=value.type)
        environment[value].meta.update(value.meta)
    for node in partition.nodes:
        target = node.target
        if node.op == "call_module":
            target = partition.flat_name(str(target))
        copy_node(node, graph, environment, target, node.name if keep_original_node_name else None)
    values = tuple(environment[value] for value in partition.outputs)
    graph.output(values[0] if partition.returns_single else values)
    return graph


def copy_node(
    node: Node,
    graph: Graph,
    environment: dict[Node, Node],
    target: Any,
    name: str | None = None,
) -> None:  # reference only
    """Add a copy of a node to a graph, with its metadata, and note it in ``environment``."""
    args, kwargs = map_arg((node.args, node.kwargs), environment.__getitem__)
    copy = graph.create_node(node.op, target, args, kwargs, name, node.type)
    copy.meta.update(node.meta)
    environment[node] = copy


# --- Step 5: the graph that calls the submodules


def stitch_graph(
    m: GraphModule,
    submodules: Mapping[Part, torch.nn.Module],
    keep_original_order: bool = False,
    keep_original_node_name: bool = False,
) -> GraphModule:
    """Build the outer graph: the model's inputs, the calls of the submodules, the output.

    The graph holds, in this order:

    1. the placeholders of the original, with their defaults and annotations, and then all of its
       ``get_attr`` nodes. With ``keep_original_order`` only the placeholders: each ``get_attr`` is
       placed right before the first submodule call that uses it, or before the output;
    2. a call of each submodule with its partition's inputs, even if its result isn't used;
       and, where it returns a tuple (see ``Partition.returns_single``), one ``operator.getitem``
       for each value in the tuple;
    3. the output, with the structure of the original's but without its type annotation.

    Placeholders and ``get_attr`` nodes have a copy of the original's ``meta``. Parameters and
    buffers are the original ones, not copies.

    Args:
        m: The traced model; it is only read.
        submodules: Maps each partition to its submodule from ``build_submodule``, in the order in
            which to call them.
        keep_original_order: Read a parameter where it is first needed, not at the start.
        keep_original_node_name: Name the arguments of ``forward`` after the placeholder nodes
            (``input_1``), not after their targets (``input``).

    Returns:
        The model after the split; ``meta["partition_names"]`` is the set of the submodules' names.

    In torch: ``construct_graph`` and the last two loops inside ``split_module``.

    >>> from solutions.tracer import symbolic_trace
    >>> m = symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()))
    >>> x, linear, relu, output = m.graph.nodes
    >>> partition = Partition("0", nodes=[linear, relu], inputs={x: None}, outputs={relu: None})
    >>> print(stitch_graph(m, {partition: m}).code.strip())
    def forward(self, input):
        input_1 = input
        submod_0 = self.submod_0(input_1);  input_1 = None
        return submod_0
    """
    graph = type(m.graph)()
    environment: dict[Node, Node] = {}
    for node in m.graph.nodes:
        if node.op == "placeholder":
            target = _argument_name(node) if keep_original_node_name else node.target
            copy_node(node, graph, environment, target)
        elif node.op == "get_attr" and not keep_original_order:
            copy_node(node, graph, environment, node.target)
    for partition in submodules:
        arguments = _new_values(partition.inputs, graph, environment)
        call = graph.call_module(partition.submod_name, arguments)
        environment |= values_of(call, partition)
    for output in m.graph.find_nodes(op="output"):
        _new_values(output.all_input_nodes, graph, environment)
        graph.output(map_arg(output.args[0], environment.__getitem__))
    return _outer_module(m, graph, submodules)


def _argument_name(placeholder: Node) -> str:
    """The placeholder's name, prefixed with the stars of ``*args`` and ``**kwargs``."""
    target = str(placeholder.target)
    return target.replace(target.lstrip("*"), placeholder.name)


def _new_values(
    values: Iterable[Node], graph: Graph, environment: dict[Node, Node]
) -> tuple[Node, ...]:
    """Return the copies of ``values``; create ``get_attr`` nodes that don't exist yet."""
    for value in values:
        if value.op == "get_attr" and value not in environment:
            copy_node(value, graph, environment, value.target)
    return tuple(environment[value] for value in values)


def values_of(call: Node, partition: Partition) -> dict[Node, Node]:
    """Map each output of a partition to its node in the graph that calls it.

    A call that returns a single value is that value itself. Otherwise it returns a sequence: add
    one ``operator.getitem`` for each output, in order.
    """
    if partition.returns_single:
        return dict.fromkeys(partition.outputs, call)
    return {
        value: call.graph.call_function(operator.getitem, (call, position))
        for position, value in enumerate(partition.outputs)
    }


def with_calls(
    graph: Graph, partitions: Iterable[Partition], call: Callable[[Graph, Any, Any], Node | None]
) -> Graph:
    """Copy a graph, and let calls compute some of its partitions.

    Args:
        graph: The graph; each of its calls is in a partition.
        partitions: The partitions, in an order in which they can run.
        call: Takes the new graph, a partition and its inputs in the new graph, and adds the node
            of a call; or returns ``None`` for a partition whose nodes are to be copied.
    """
    result = type(graph)()
    copies: dict[Node, Node] = {}

    def add(nodes: Iterable[Node]) -> None:
        for node in nodes:
            copies[node] = result.node_copy(node, copies.__getitem__)

    add(node for node in graph.nodes if node.op in ("placeholder", "get_attr"))
    for partition in partitions:
        node = call(result, partition, tuple(map(copies.__getitem__, partition.inputs)))
        if node is None:
            add(partition.nodes)
        else:
            copies.update(values_of(node, partition))
    add(graph.find_nodes(op="output"))
    return result


def _outer_module(
    m: GraphModule, graph: Graph, submodules: Mapping[Part, torch.nn.Module]
) -> GraphModule:
    """Build the outer module from its graph, the submodules and the parameters it reads."""
    paths = [str(node.target) for node in graph.find_nodes(op="get_attr")]
    called = {partition.submod_name: submodule for partition, submodule in submodules.items()}
    attributes = {path: operator.attrgetter(path)(m) for path in paths}
    split = graph_module_class(m)(attributes | called, graph)
    split.meta["partition_names"] = set(called)
    return split
