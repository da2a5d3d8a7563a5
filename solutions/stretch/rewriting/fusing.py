"""Unlike the core: more kinds of layers, and options. The core's pattern is a table of types."""

from __future__ import annotations

import copy

from torch import nn
from torch.fx import GraphModule, Node
from torch.nn.utils import fuse_conv_bn_eval

from given.rewriting import can_fuse, uses_of_modules

from ...rewriting import module_of
from ..tracer import symbolic_trace

NORM_OF: dict[type[nn.Module], type[nn.Module]] = {
    nn.Conv1d: nn.BatchNorm1d,
    nn.Conv2d: nn.BatchNorm2d,
    nn.Conv3d: nn.BatchNorm3d,
    nn.Linear: nn.BatchNorm1d,
}


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> GraphModule:
    """Fuse each convolution or linear layer with the batch norm that follows it.

    A pair is left alone as in the core. A batch norm after a linear layer is assumed to get an
    input of two dimensions.

    Args:
        model: A model in eval mode.
        inplace: Whether the result shares the model's other parameters; else they are copied.
        no_trace: Whether a ``GraphModule`` is taken as it is; its graph isn't changed.

    >>> model = nn.Sequential(nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6)).eval()
    >>> list(fuse(model).state_dict())
    ['0.weight', '0.bias']
    """
    model = model if inplace else copy.deepcopy(model)
    if no_trace and isinstance(model, GraphModule):
        gm = GraphModule(model, copy.deepcopy(model.graph))
    else:
        gm = symbolic_trace(model)
    uses = uses_of_modules(gm)
    for bn in gm.graph.find_nodes(op="call_module"):
        conv = next(iter(bn.all_input_nodes), bn)
        if not is_pair(conv, bn):
            continue
        layer, norm = module_of(conv), module_of(bn)
        if uses[id(layer)] <= 1 and can_fuse(layer, norm):
            gm.set_submodule(str(conv.target), fuse_conv_bn_eval(layer, norm))
            bn.replace_all_uses_with(conv)
            gm.graph.erase_node(bn)
    return GraphModule(gm, gm.graph)


def is_pair(conv: Node, bn: Node) -> bool:
    """Return whether these are a layer, and the batch norm that alone uses its result."""
    return (
        conv.op == "call_module"
        and len(conv.users) == 1
        and NORM_OF.get(type(module_of(conv))) is type(module_of(bn))
    )
