"""Refuse what changes a tensor in place."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from ..tracer import Tracer


class InPlaceError(RuntimeError):
    """An operation changes a tensor in place, and the tracer was asked to refuse that."""


class OutOfPlaceTracer(Tracer):
    """Refuse to record what changes a tensor in place.

    In place are: methods and functions whose name ends in one underscore (``add_``), augmented
    operators (``operator.iadd``, ``operator.setitem``), modules and functions with
    ``inplace=True``, whatever writes to ``out=``, and operators whose schema says so.

    In torch: ``Tracer.check_mutable_operations``, which judges functions by their schemas, and
    doesn't look at methods and modules.

    >>> try:
    ...     OutOfPlaceTracer().trace(lambda x: x.add(1).relu_())
    ... except InPlaceError as error:
    ...     print(error)
    node 'relu_' (call_method relu_) works in place: use the form that returns a new tensor
    """

    def create_node(self, *args: Any, **kwargs: Any) -> Node:
        """Create the node as every tracer does, unless it works in place.

        Args:
            *args: what ``Tracer.create_node`` takes.
            **kwargs: the same, by name.

        Returns:
            The node.

        Raises:
            InPlaceError: the operation works in place; the error names the node and its target.
        """
        node = super().create_node(*args, **kwargs)
        if self._is_in_place(node):
            raise InPlaceError(
                f"node {node.name!r} ({node.op} {_name_of(node.target)}) works in place: "
                "use the form that returns a new tensor"
            )
        return node

    def _is_in_place(self, node: Node) -> bool:
        if node.op == "call_module":
            return bool(getattr(self.root.get_submodule(str(node.target)), "inplace", False))
        if node.op not in ("call_function", "call_method"):
            return False
        writes_to_argument = node.kwargs.get("inplace") or node.kwargs.get("out") is not None
        return bool(writes_to_argument) or _mutates(node.target)


def _mutates(target: Callable[..., Any] | str) -> bool:
    """Whether a function or method changes its argument, by its schema or by its name."""
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.is_mutable
    if target in _AUGMENTED:
        return True
    name = _name_of(target)
    return name.endswith("_") and not name.endswith("__")


def _name_of(target: Any) -> str:
    return target if isinstance(target, str) else target.__name__


_AUGMENTED = frozenset(
    {operator.setitem, operator.delitem, operator.iconcat, operator.iadd, operator.isub}
    | {operator.imul, operator.imatmul, operator.itruediv, operator.ifloordiv, operator.imod}
    | {
        operator.ipow,
        operator.iand,
        operator.ior,
        operator.ixor,
        operator.ilshift,
        operator.irshift,
    }
)
