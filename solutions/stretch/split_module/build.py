"""Step 4: a partition becomes a module of its own."""

from torch.fx import GraphModule, Node
from torch.fx._lazy_graph_module import _make_graph_module
from torch.fx.node import map_arg

from .._nodes import add_node
from .partition import Partition, attribute_of, returns_bare


def build_submodule(
    partition: Partition,
    m: GraphModule,
    keep_original_node_name: bool = False,
    keep_original_input_name: bool = True,
    tuple_return: bool = False,
) -> GraphModule:
    """Copy the nodes of a partition into its own graph, between its inputs and its outputs.

    The new graph holds, in this order:

    1. the regions to enter again (``partition.resumed``);
    2. a placeholder for each of ``partition.inputs``, named like the node whose value it takes, or
       ``arg_0``, ``arg_1``, ... where ``keep_original_input_name`` is off;
    3. a ``get_attr`` for each of ``partition.attributes``;
    4. the nodes. The arguments point to the new graph's nodes. The submodule is flat, so the module
       called at ``a.b.c`` becomes ``a_b_c``;
    5. the exits of the regions that go on elsewhere (``partition.suspended``), innermost first;
    6. the output, in the order of ``partition.outputs``: see ``returns_bare``.

    Every copy has the type and a copy of the ``meta`` of its original. The modules are the original
    ones, not copies. Where ``a.b_c`` and ``a_b.c`` are both called in one partition, the second
    becomes ``a_b_c_1``.

    Args:
        partition: a partition that the steps before are done with. Its ``graph``, ``environment``
            (the new node of every old one) and ``targets`` (the old path of every new target) are
            filled in.
        m: the traced model, for the modules it holds.
        keep_original_node_name: give the copies the names of their originals. Otherwise the new
            graph names them itself.
        keep_original_input_name: name the placeholders after the values they take.
        tuple_return: return a tuple also where there is one value.

    Returns:
        The submodule.

    Raises:
        AttributeError: a node refers to something that the model does not have.

    Of use: ``torch.fx.node.map_arg``, which replaces the nodes in an argument of any depth; and
    from ``partition.py``: ``attribute_of``, ``returns_bare``.

    In torch: three loops inside ``split_module``, over partitions, nodes and partitions again.

    >>> import torch
    >>> mlp = torch.nn.Sequential()
    >>> mlp.layers = torch.nn.Sequential()
    >>> mlp.layers.first = torch.nn.Linear(3, 4)
    >>> m = torch.fx.symbolic_trace(mlp)
    >>> x, linear, output = m.graph.nodes
    >>> partition = Partition("0", nodes=[linear], inputs={x: None}, outputs={linear: []})
    >>> print(build_submodule(partition, m).code.strip())
    def forward(self, input_1):
        layers_first = self.layers_first(input_1);  input_1 = None
        return layers_first
    """
    for switch in partition.resumed:
        _copy(partition, switch)
    _add_placeholders(partition, keep_original_input_name)
    for node in partition.attributes:
        _copy(partition, node, target=_new_target(partition, node))
    for node in partition.nodes:
        target = _new_target(partition, node) if node.op == "call_module" else None
        _copy(partition, node, target, name=node.name if keep_original_node_name else None)
    for leave in reversed(partition.suspended):
        _copy(partition, leave)
    _add_output(partition, tuple_return)
    modules = {new: attribute_of(m, old) for new, old in partition.targets.items()}
    # A GraphModule, or a lazy one where a compiler that wraps us has asked for that.
    return _make_graph_module(modules, partition.graph)


def _add_placeholders(partition: Partition, keep_original_input_name: bool) -> None:
    for position, value in enumerate(partition.inputs):
        name = value.name if keep_original_input_name else f"arg_{position}"
        placeholder = partition.graph.placeholder(name, type_expr=value.type)
        placeholder.meta.update(value.meta)
        partition.environment[value] = placeholder


def _copy(
    partition: Partition, node: Node, target: str | None = None, name: str | None = None
) -> None:
    new_of = partition.environment.__getitem__
    copy = add_node(
        partition.graph,
        node.op,
        node.target if target is None else target,
        map_arg(node.args, new_of),
        map_arg(node.kwargs, new_of),
        name,
        node.type,
    )
    copy.meta.update(node.meta)
    partition.environment[node] = copy


def _new_target(partition: Partition, node: Node) -> str:
    """Name a module inside the submodule, and note which one the name stands for."""
    path = str(node.target)
    flat = path if node.op == "get_attr" else path.replace(".", "_")
    new, taken = flat, 0
    while partition.targets.setdefault(new, path) != path:
        taken += 1
        new = f"{flat}_{taken}"
    return new


def _add_output(partition: Partition, tuple_return: bool) -> None:
    values = tuple(partition.environment[value] for value in partition.outputs)
    partition.graph.output(values[0] if returns_bare(partition, tuple_return) else values)
