"""Unlike the core: names are compared by memory, and views of one storage stay views of it.

A program that was loaded from a file has one object per name, even where two names are tied. And
views of one storage must see each other's mutations.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from ... import unflatten as core
from ...unflatten import Attribute, as_registered, state_values


def identity(value: Any) -> Hashable:
    """Return a key that all names of a value share: for tensors, their memory and its layout.

    >>> weight = torch.ones(2, 3)
    >>> identity(weight) == identity(weight.detach()), identity(weight) == identity(weight.t())
    (True, False)
    """
    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
        storage = value.untyped_storage()
        return storage, value.dtype, value.shape, value.stride(), value.storage_offset()
    return id(value)


def state_names(program: ExportedProgram) -> dict[str, list[str]]:
    """Return all names of each placeholder that is state; names of one memory go together."""
    values = state_values(program)
    names: dict[Hashable, list[str]] = defaultdict(list)
    for name, value in values.items():
        names[identity(value)].append(name)
    return {
        placeholder: [target, *names[identity(values[target])]]
        for placeholder, (target, *_) in core.state_names(program).items()
    }


def restore_state(program: ExportedProgram) -> dict[str, Attribute]:
    """Copy everything the eager model owned, views and aliases as they were.

    Custom objects are handed on as they are.

    In torch: in the middle of ``UnflattenedModule.__init__``, which copies views and aliased
    constants one by one, so that they no longer see each other's mutations.
    """
    return as_registered(program, _copied(state_values(program)))


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies by name. A parameter and a buffer that share memory are two values."""
    tensors = {_key(value): value for value in values.values() if isinstance(value, torch.Tensor)}
    # One deepcopy for all data: it copies each storage once.
    copies = copy.deepcopy([tensor.detach() for tensor in tensors.values()])
    data = dict(zip(tensors, copies, strict=True))
    for key, tensor in tensors.items():
        if isinstance(tensor, nn.Parameter):
            data[key] = nn.Parameter(data[key], tensor.requires_grad)
        else:
            data[key].requires_grad_(tensor.requires_grad)
    return {name: data.get(_key(value), value) for name, value in values.items()}


def _key(value: Any) -> Hashable:
    return identity(value), isinstance(value, nn.Parameter)
