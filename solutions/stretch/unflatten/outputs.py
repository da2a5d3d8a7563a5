"""Step 3: settle what each call returns."""

from __future__ import annotations

from collections import defaultdict

from torch.fx import Node

from .calls import ModuleCall


def settle_outputs(root: ModuleCall) -> None:
    """Decide for each call which of the values made in it are needed after it.

    A call returns the values, made by its own nodes or returned by the calls inside it, that a
    node after the call's last one uses, in the order in which they were made. One value travels
    bare, several as a list. A value that only the call itself uses stays inside. A preserved
    signature counts as a use, even if the module ignores the argument, or its caller the result.

    Args:
        root: the outline. ``outputs`` of every call below the root are filled in; the root
            returns what the flat graph's ``output`` node returns.

    Where torch does this: ``_ModuleFrame.finalize_outputs`` in ``torch/export/unflatten.py``.

    Example:
        >>> import torch
        >>> from .outlines import outline
        >>> program = torch.export.export(torch.nn.Sequential(torch.nn.ReLU()), (torch.ones(1),))
        >>> root = outline(program.graph)
        >>> settle_outputs(root)
        >>> root.calls[0].outputs
        [relu]
    """
    named = _named_by_signatures(root)
    for call in root.walk():
        made = dict.fromkeys(value for item in call.body for value in _values_made(item))
        call.outputs = [value for value in made if _is_for_others(call, value, named[value])]


def _named_by_signatures(root: ModuleCall) -> dict[Node, list[ModuleCall]]:
    """For each value the calls whose preserved signature names it."""
    named = defaultdict(list)
    for call in root.walk():
        for value in call.arguments + call.results:
            named[value].append(call)
    return named


def _values_made(item: Node | ModuleCall) -> list[Node]:
    """What a call has at hand after a node, or after a call that it makes."""
    return item.outputs + item.results if isinstance(item, ModuleCall) else [item]


def _is_for_others(call: ModuleCall, value: Node, named_by: list[ModuleCall]) -> bool:
    if value < call.first:
        return False
    used_later = any(user > call.last for user in value.users)
    return used_later or any(_is_beyond(call, other) for other in named_by)


def _is_beyond(call: ModuleCall, other: ModuleCall) -> bool:
    """Whether the other call comes after this one, or makes it."""
    return other.first > call.last or (other is not call and call in other.walk())
