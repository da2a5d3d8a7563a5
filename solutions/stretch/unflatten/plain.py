"""After step 2: a first unflattener, for plain models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.export import ExportedProgram
from torch.fx import GraphModule

from .calls import ModuleCall, relative_to
from .graphs import CallGraph
from .inputs import settle_inputs
from .outlines import outline
from .state import state_inputs, values_by_name


def unflatten_plain(program: ExportedProgram) -> GraphModule:  # given
    """Make a tree of graph modules of a plain program, with the first two steps alone.

    It stands on guesses that the other steps replace. A module is called once and returns its
    last value. A tensor has one name. Nothing is mutated.

    Args:
        program: the exported program. The tree shares its tensors.

    Returns:
        The tree. It takes the leaves of the arguments, and returns a tuple of the leaves.

    Example:
        >>> import torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        >>> plain = unflatten_plain(torch.export.export(model, (torch.ones(1, 2),)))
        >>> torch.equal(plain(torch.ones(1, 2))[0], model(torch.ones(1, 2)))
        True
    """
    root = outline(program.graph)
    lifted = state_inputs(program.graph_signature)
    settle_inputs(root, {spec.arg.name: [name] for name, spec in lifted.items()})
    for call in root.walk():
        call.outputs = [call.last]
    return _plain_module(root, values_by_name(program))


def _plain_module(call: ModuleCall, values: Mapping[str, Any]) -> GraphModule:  # given
    """The module of one call, and those of the calls inside it."""
    owned = {name: values[f"{call.path}.{name}".lstrip(".")] for name in call.state.values()}
    callees = {relative_to(call.path, callee.name): callee for callee in call.calls}
    modules = {name: _plain_module(callee, values) for name, callee in callees.items()}
    return GraphModule({**owned, **modules}, CallGraph(call, specs={}).graph)
