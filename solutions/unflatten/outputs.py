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
        call.outputs = [
            value
            for value in made
            if value >= call.first
            and (_is_used_after(call, value) or _is_named_beyond(call, named[value]))
        ]


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


def _is_used_after(call: ModuleCall, value: Node) -> bool:
    return any(user > call.last for user in value.users)


def _is_named_beyond(call: ModuleCall, by: list[ModuleCall]) -> bool:
    """Whether one of the calls takes the value after ``call``, or returns it around ``call``."""
    return any(
        other.first > call.last or (other is not call and call in other.walk()) for other in by
    )
