"""Refuse what changes a tensor in place."""

from __future__ import annotations

from typing import Any

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
        raise NotImplementedError(
            "custom_tracers: create the node as every tracer does, unless it works in place"
        )
