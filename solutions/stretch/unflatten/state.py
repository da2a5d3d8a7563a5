"""Step 4: restore the parameters, buffers and constants of the eager model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec


class Kind(Enum):  # given
    """What a module calls the thing it owns."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"


@dataclass(frozen=True)
class Attribute:  # given
    """What one name of the eager model's state held.

    Attributes:
        kind: how it was registered.
        value: our copy: a tensor, or a custom object, which isn't copied.
        persistent: whether a buffer belongs to the ``state_dict``.
    """

    kind: Kind
    value: Any
    persistent: bool = True

    def register(self, module: nn.Module, name: str) -> None:
        """Put it on a module under ``name``."""
        if self.kind is Kind.PARAMETER:
            module.register_parameter(name, self.value)
        elif self.kind is Kind.BUFFER:
            module.register_buffer(name, self.value, persistent=self.persistent)
        else:
            setattr(module, name, self.value)


def identity(value: Any) -> Hashable:  # given
    """What two names for one thing have in common: for tensors the same memory, read alike.

    >>> weight = torch.ones(2, 3)
    >>> identity(weight) == identity(weight.detach()), identity(weight) == identity(weight.t())
    (True, False)
    """
    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
        storage = value.untyped_storage()
        return storage, value.dtype, value.shape, value.stride(), value.storage_offset()
    return id(value)


def values_by_name(program: ExportedProgram) -> dict[str, Any]:  # given
    """Everything the eager model owned, by its fully qualified name, in the model's order."""
    return {**program.state_dict, **program.constants}


_STATE_KINDS = (
    InputKind.PARAMETER,
    InputKind.BUFFER,
    InputKind.CONSTANT_TENSOR,
    InputKind.CUSTOM_OBJ,
)


def state_inputs(signature: ExportGraphSignature) -> dict[str, InputSpec]:  # given
    """The inputs of the flat graph that the eager model owned, by the name of what was lifted."""
    specs = (spec for spec in signature.input_specs if spec.kind in _STATE_KINDS)
    return {str(spec.target): spec for spec in specs}


def state_names(program: ExportedProgram) -> dict[str, list[str]]:  # given
    """For each placeholder that is state all names of its tensor, the one it was lifted by first.

    Export lifts a tensor once, under one of its names; the others are found by ``identity``.

    >>> tied = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    >>> tied[1].weight = tied[0].weight
    >>> program = torch.export.export(tied, (torch.ones(1, 2),))
    >>> sorted(state_names(program)["p_0_weight"])
    ['0.weight', '1.weight']
    """
    values = values_by_name(program)
    names: dict[Hashable, list[str]] = defaultdict(list)
    for name, value in values.items():
        names[identity(value)].append(name)
    return {
        spec.arg.name: list(dict.fromkeys([name, *names[identity(values[name])]]))
        for name, spec in state_inputs(program.graph_signature).items()
    }


def restore_state(program: ExportedProgram) -> dict[str, Attribute]:
    """Copy everything the eager model owned, so that what was one tensor still is one.

    Every name of ``values_by_name`` is restored, used or not. The copies share no memory with
    the program, but whatever shares memory among themselves shares it among the copies: the names
    of one tensor hold one tensor, and two views of one storage are views of one storage.
    Parameters and buffers keep ``requires_grad``. Custom objects are handed on as they are.

    Args:
        program: the exported program. It isn't changed.

    Returns:
        For each fully qualified name what its module is to own, in the model's order. A name
        that the signature lists is of the kind it says there. Of the others (strict export lists
        one name of a tied tensor) an ``nn.Parameter`` is a parameter, and any other tensor is a
        buffer if it comes from the ``state_dict``, a constant if not.

    Where torch does this: in the middle of ``UnflattenedModule.__init__``, which copies views
    and aliased constants one by one, so that they no longer see each other's mutations.

    Example:
        >>> linear = torch.nn.Linear(2, 2, bias=False).requires_grad_(False)
        >>> program = torch.export.export(linear, (torch.ones(1, 2),))
        >>> weight = restore_state(program)["weight"]
        >>> weight.kind.value, weight.value.requires_grad, weight.value is linear.weight
        ('parameter', False, False)
    """
    listed = state_inputs(program.graph_signature)
    originals = {
        name: _as_registered(value, listed.get(name), name in program.state_dict)
        for name, value in values_by_name(program).items()
    }
    copies = _Copies(originals.values())
    return {
        name: replace(original, value=copies.of(original)) for name, original in originals.items()
    }


def _as_registered(value: Any, spec: InputSpec | None, in_state_dict: bool) -> Attribute:
    """The attribute as the eager model had it, not yet copied."""
    if spec is not None:
        kind = _KINDS.get(spec.kind, Kind.CONSTANT)
        return Attribute(kind, value, persistent=kind is not Kind.BUFFER or bool(spec.persistent))
    if isinstance(value, nn.Parameter):
        return Attribute(Kind.PARAMETER, value)
    return Attribute(Kind.BUFFER if in_state_dict else Kind.CONSTANT, value)


_KINDS = {InputKind.PARAMETER: Kind.PARAMETER, InputKind.BUFFER: Kind.BUFFER}


class _Copies:
    """Copies a tensor once for all its names, and a storage once for all tensors that view it."""

    def __init__(self, originals: Iterable[Attribute]) -> None:
        self._copies: dict[Hashable, Any] = {}
        self._storages: dict[torch.UntypedStorage, torch.UntypedStorage] = {}
        self._views: dict[torch.UntypedStorage, set[Hashable]] = defaultdict(set)
        for original in originals:
            if _has_plain_storage(original.value):
                self._views[original.value.untyped_storage()].add(self._key(original))

    def of(self, original: Attribute) -> Any:
        if not isinstance(original.value, torch.Tensor):
            return original.value
        key = self._key(original)
        if key not in self._copies:
            self._copies[key] = self._copy(original.value, original.kind)
        return self._copies[key]

    @staticmethod
    def _key(original: Attribute) -> Hashable:
        """A parameter is a tensor of its own, even where a buffer is the same memory."""
        return identity(original.value), original.kind is Kind.PARAMETER

    def _copy(self, tensor: torch.Tensor, kind: Kind) -> torch.Tensor:
        shares = _has_plain_storage(tensor) and len(self._views[tensor.untyped_storage()]) > 1
        data = self._view(tensor) if shares else tensor.detach().clone()
        if kind is Kind.PARAMETER:
            return nn.Parameter(data, requires_grad=tensor.requires_grad)
        return data.requires_grad_(tensor.requires_grad)

    def _view(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same view, of a copy of the tensor's storage."""
        storage = tensor.untyped_storage()
        if storage not in self._storages:
            self._storages[storage] = storage.clone()
        return tensor.new_empty(()).set_(
            self._storages[storage], tensor.storage_offset(), tensor.shape, tensor.stride()
        )


def _has_plain_storage(value: Any) -> bool:
    return type(value) in (torch.Tensor, nn.Parameter) and value.layout is torch.strided
