"""Step 2: settle where each call gets its values from, before any graph is built.

The flat graph hands every parameter to every operation as an argument of the whole program. In
the eager model a module reads its own parameters and is called with nothing but activations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch.fx import Node

from .calls import ModuleCall, is_below, relative_to


def settle_inputs(root: ModuleCall, names: Mapping[str, Sequence[str]]) -> None:
    """Decide for each call what it reads from its module and what its caller hands in.

    A call needs the values that its nodes and the calls inside it use, and that were made before
    it. Such a value is *state* if the module owns it: if one of its names lies below the call's
    path. Otherwise it is an *input*, in the order of first use, and the caller needs it as well.
    The root owns all state. Its inputs are the program's own, used or not, in their order.

    Args:
        root: the outline. ``inputs`` and ``state`` of every call are filled in; a name in
            ``state`` is relative to the call's path.
        names: for the placeholder of a parameter, buffer or constant (by its name) the fully
            qualified names of that tensor. Tied and aliased tensors have several; where more than
            one lies below a call, the first is taken.

    Where torch does this: ``_sink_params`` in ``torch/export/unflatten.py``, which first passes
    all state through all calls, and then takes it out of the finished graphs again.

    Example:
        >>> import torch
        >>> from .outlines import outline
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2))
        >>> root = outline(torch.export.export(model, (torch.ones(1, 2),)).graph)
        >>> settle_inputs(root, {"p_0_weight": ["0.weight"], "p_0_bias": ["0.bias"]})
        >>> root.calls[0].inputs, list(root.calls[0].state.values()), root.inputs
        ([input], ['weight', 'bias'], [input])
    """
    for call in root.walk():
        handed_in = set(call.arguments)
        for value in dict.fromkeys(_values_used(call)):
            if value in handed_in or not value < call.first:
                continue
            owned = _name_below(call.path, names.get(value.name, ()))
            if owned is None:
                call.inputs.append(value)
            else:
                call.state[value] = owned
    root.inputs = [value for value in _placeholders(root) if value.name not in names]


def _values_used(call: ModuleCall) -> Iterator[Node]:
    """Yield what a call's nodes, the calls that it makes, and its result are made of."""
    for item in call.body:
        if isinstance(item, ModuleCall):
            yield from item.inputs + item.arguments
        else:
            yield from item.all_input_nodes
    yield from call.results


def _name_below(path: str, names: Sequence[str]) -> str | None:
    """The first of the names that lies below ``path``, as seen from there."""
    return next((relative_to(path, name) for name in names if is_below(name, path)), None)


def _placeholders(root: ModuleCall) -> Sequence[Node]:
    return root.first.graph.find_nodes(op="placeholder")
