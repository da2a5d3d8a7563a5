"""Step 4: a partition becomes a module of its own."""

from torch.fx import GraphModule

from .partition import Partition


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
    raise NotImplementedError(
        "split_module: copy the nodes of a partition into its own graph, between its inputs and its outputs"
    )
