"""Step 5: the graph that calls the submodules."""

from collections.abc import Mapping

from torch.fx import GraphModule

from .partition import Partition


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
    raise NotImplementedError(
        "split_module: write the graph that takes the model's inputs, calls the submodules, returns its output"
    )
