"""Unlike the core: no functionalization. Each write becomes a value here, by hand.

The core runs the model below torch's functionalization, so it never sees a write. This is what
functionalization does, in another way: the recorder keeps one node for the value of each *memory*,
and reads a view of it again after a write. ``as_strided`` reads any view, and
``as_strided_scatter`` writes it.

The graphs compute what the model does, but they aren't for training: the derivative of
``as_strided_scatter`` is wrong in torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from given.capture import CaptureError, prepared

from ... import capture as core

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch._ops import OpOverload
    from torch.fx import Node

aten = torch.ops.aten


def storage_id(tensor: Tensor) -> int:
    """Return a number for a tensor's memory; tensors that share memory have the same number."""
    return tensor.untyped_storage()._cdata


def window(tensor: Tensor) -> tuple[Any, ...]:
    """Return the part of its memory that a tensor covers: its shape, its strides and its offset.

    >>> window(torch.zeros(4, 6)[1:, ::2])
    ([3, 3], [6, 2], 6)
    """
    return list(tensor.shape), list(tensor.stride()), tensor.storage_offset()


@dataclass(eq=False)
class Memory:
    """A piece of memory that tensors share.

    Attributes:
        base: The first tensor that used the memory. The graph has its value; views read from it.
        writes: How often the model has written to it.
    """

    base: Tensor
    writes: int = 0


@dataclass(eq=False)
class Value:
    """A tensor's memory, and the value of ``memory.writes`` when its node was up to date."""

    memory: Memory
    writes: int


class WriteRecorder(core.Recorder):
    """Records each operator, and a write as the operator that returns the new value.

    Attributes:
        memories: The ``Memory`` of each storage, by the ``storage_id`` of its tensors.
        values: The ``Value`` of each tensor, by the tensor's ``id``.
    """

    def __init__(self, table: Mapping[OpOverload, Callable[..., Any]]) -> None:
        super().__init__(table)
        self.memories: dict[int, Memory] = {}
        self.values: dict[int, Value] = {}

    def run(self, model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a model on fake tensors with the mode on, and without functionalization."""
        inputs = self.lift_state(model), *self.lift_arguments(args, kwargs)
        with prepared(model, self.constants), self.fake_mode, self, self.module_stacks(model):
            return self.call(model, *inputs)

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Turn a write into a value; leave the rest to the core."""
        if not func._schema.is_mutable or func in self.table:
            return super().__torch_dispatch__(func, types, args, kwargs)
        args, kwargs = tree_map_only(Tensor, self.known, (args, kwargs or {}))
        return self.write(func, args, kwargs)

    def bind(self, result: Any, node: Node) -> Any:
        """Bind a result to its node, and a tensor to its memory: the one known, or a new one."""
        if isinstance(result, Tensor):
            memory = self.memories.setdefault(storage_id(result), Memory(result))
            self.values[id(result)] = Value(memory, memory.writes)
        super().bind(result, node)
        # Here, the model has the result itself, and may change its shape, by ``t_`` for example.
        node.meta["val"] = tree_map_only(Tensor, Tensor.detach, result)
        return result

    def node_of(self, tensor: Tensor) -> Node:
        """Return the node that has a tensor's current value."""
        tensor = self.known(tensor)
        value = self.values[id(tensor)]
        if value.writes != value.memory.writes:
            self.read_again(tensor)
        return super().node_of(tensor)

    def refresh(self, tensor: Tensor, node: Node) -> None:
        """Note the node of a tensor's current value."""
        value = self.values[id(tensor)]
        self.nodes[id(tensor)], value.writes = (tensor, node), value.memory.writes

    def write(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        """Record a call's write to its first argument as a new value; return that argument.

        The value is computed with the mode on, because the table may have a rule for the operator.
        ``func`` itself runs unrecorded, and refuses any write that eager refuses. An operator such
        as ``t_`` doesn't write: it changes which part of its memory a tensor covers.

        >>> recorder = WriteRecorder({})
        >>> with recorder.fake_mode, recorder:
        ...     y = torch.zeros(2).add_(1).relu_()
        >>> recorder.node_of(y), [str(node.target) for node in recorder.graph.nodes]
        (relu, ['aten.zeros.default', 'aten.add.Tensor', 'aten.relu.default'])
        """
        pure = self.functional(func)
        with self:
            value = pure(*args, **defaults(func, args, kwargs), **kwargs)
        func(*args, **kwargs)
        if torch.Tag.inplace_view in func.tags:
            return self.bind(args[0], self.node_of(value))
        self.store(args[0], value)
        return args[0]

    def functional(self, func: OpOverload) -> OpOverload:
        """Return the operator that returns the value which ``func`` writes to its first argument.

        It has the same name without the ``_`` at the end, writes nothing, and ``takes`` the same.

        Raises:
            CaptureError: There is none.

        >>> str(WriteRecorder({}).functional(aten.transpose_.default))
        'aten.transpose.int'
        """
        space = getattr(torch.ops, func.namespace)
        packet = getattr(space, func.overloadpacket.__name__.removesuffix("_"), None)
        for name in packet.overloads() if packet else ():
            pure = getattr(packet, name)
            if not pure._schema.is_mutable and takes(pure) == takes(func):
                return pure
        raise CaptureError(f"writes by {func}: call the operator that returns the result instead")

    def store(self, target: Tensor, value: Tensor) -> None:
        """Write a value into the part of memory that a tensor covers.

        It is converted to the target's dtype first, as in eager. Unless target, value and base have
        the same ``window``, ``aten.as_strided_scatter`` puts it into the base's value.
        """
        base = self.base_of(target)
        if value.dtype != target.dtype:
            value = self.record(aten._to_copy.default, value, dtype=target.dtype)
        if not window(target) == window(value) == window(base):
            value = self.record(aten.as_strided_scatter.default, base, value, *window(target))
        node = self.node_of(value)
        self.values[id(base)].memory.writes += 1
        self.refresh(base, node)

    def read_again(self, tensor: Tensor) -> None:
        """Refresh a tensor with the node that has its current value, after a write to its memory.

        >>> recorder = WriteRecorder({})
        >>> with recorder.fake_mode, recorder:
        ...     x = torch.zeros(2, 3)
        ...     row = x[1]
        ...     x = x.add_(1)
        >>> recorder.node_of(row), recorder.node_of(row).args
        (as_strided, (add, [3], [1], 3))
        """
        base = self.base_of(tensor)
        shown = base
        if window(tensor) != window(base):
            shown = self.record(aten.as_strided.default, base, *window(tensor))
        self.refresh(tensor, self.node_of(shown))

    def base_of(self, tensor: Tensor) -> Tensor:
        """Return the base of a tensor's memory.

        Raises:
            CaptureError: The tensor and its base read the bytes of the memory differently, so
                ``as_strided`` of the base isn't the tensor. Their dtypes differ, or only one of
                them has the conjugate bit or the negative bit (``is_conj()``, ``is_neg()``).
        """
        base = self.values[id(tensor)].memory.base
        ways = {(each.dtype, each.is_conj(), each.is_neg()) for each in (tensor, base)}
        if len(ways) > 1:
            raise CaptureError("writes memory that is read in two dtypes: clone the tensor first")
        return base


def takes(func: OpOverload) -> list[Any]:
    """Return the names and types of an operator's arguments, and its number of results."""
    arguments = [(each.name, str(each.type)) for each in func._schema.arguments]
    return [*arguments, len(func._schema.returns)]


def defaults(func: OpOverload, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return an operator's defaults for the arguments that a call leaves out, by name.

    The dispatcher leaves out an argument that has its default value, but the operator that returns
    the result may have no default for it.

    >>> defaults(aten.bernoulli_.float, (torch.ones(2),), {"generator": None})
    {'p': 0.5}
    """
    left_out = [each for each in func._schema.arguments[len(args) :] if each.name not in kwargs]
    return {each.name: each.default_value for each in left_out if each.has_default_value()}


def capture_writes(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    table: Mapping[OpOverload, Callable[..., Any]] | None = None,
) -> nn.Module:
    """Return the operators that a call of a model runs, with each write turned into a value here.

    The arguments are those of ``capture``.

    >>> def write(x):
    ...     y = x * 2
    ...     y[0].add_(1)
    ...     return y
    >>> graph = capture_writes(write, (torch.ones(2, 3),)).graph
    >>> [node.name for node in graph.nodes]
    ['input_0', 'mul', 'select', 'add', 'as_strided_scatter', 'output']
    """
    recorder = WriteRecorder(table or {})
    recorder.finish(recorder.run(model, args, kwargs or {}))
    return core.as_module(recorder)
