"""Unlike the core: more kinds of layers, options, and pairs that are left alone.

The core's pattern becomes a table of types. A pattern can't say that a layer isn't called
elsewhere, that its parameters aren't read, or that it has no hooks. That is checked here.
"""

from __future__ import annotations

import copy
from collections import Counter

from torch import nn
from torch.fx import GraphModule, Node
from torch.nn.utils import fuse_conv_bn_eval

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

    A pair is left alone if one layer wouldn't compute the same: the convolution is called twice,
    its parameters are read elsewhere, one of the two has hooks, or the batch norm has no running
    statistics. A batch norm after a linear layer is assumed to get an input of two dimensions.

    Args:
        model: A model in eval mode.
        inplace: Whether the result shares the model's other parameters; else they are copied.
        no_trace: Whether a ``GraphModule`` is taken as it is; its graph isn't changed.

    Returns:
        A module that computes the same with fewer nodes.

    Raises:
        RuntimeError: One of a pair is in training mode; the message names it.

    In torch: ``torch.fx.experimental.optimization.fuse``.

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
        if is_pair(conv, bn) and uses[id(module_of(conv))] <= 1 and can_fuse(conv, bn):
            fused = fuse_conv_bn_eval(module_of(conv), module_of(bn))
            gm.set_submodule(str(conv.target), fused)
            bn.replace_all_uses_with(conv)
            gm.graph.erase_node(bn)
    return GraphModule(gm, gm.graph)


def uses_of_modules(gm: GraphModule) -> Counter[int]:
    """Return for each module, by ``id``, how often it is called or one of its attributes read."""
    called = [str(node.target) for node in gm.graph.find_nodes(op="call_module")]
    read = [str(node.target).rpartition(".")[0] for node in gm.graph.find_nodes(op="get_attr")]
    return Counter(id(gm.get_submodule(path)) for path in [*called, *read])


def is_pair(conv: Node, bn: Node) -> bool:
    """Return whether these are a layer, and the batch norm that alone uses its result."""
    return (
        conv.op == "call_module"
        and len(conv.users) == 1
        and NORM_OF.get(type(module_of(conv))) is type(module_of(bn))
    )


def can_fuse(conv: Node, bn: Node) -> bool:
    """Return whether one layer computes what the two of a pair do.

    Raises:
        RuntimeError: One of them is in training mode.
    """
    for each in (conv, bn):
        if module_of(each).training:
            raise RuntimeError(f"`{each.target}` is in training mode: call `model.eval()` first")
    layer, norm = module_of(conv), module_of(bn)
    hooks = [each._forward_pre_hooks or each._forward_hooks for each in (layer, norm)]
    return not any(hooks) and norm.running_mean is not None
