"""Unlike the core: a graph is printed as torch prints it, or as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import graph as core
from .names import function_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def qualified_name(target: Callable[..., Any] | str) -> str:
    """Return a target as it is printed: ``operator.add``, ``torch.relu``, ``layer1.0.conv1``."""
    if isinstance(target, str):
        return target
    module = getattr(target, "__module__", "torch.Tensor")  # a tensor's own methods say none
    for private, public in (("_operator", "operator"), ("torch._ops", "torch.ops")):
        module = module.replace(private, public)
    return f"{module.replace('torch._tensor', 'torch.Tensor')}.{function_name(target)}"


def type_name(annotation: Any) -> str:
    """Return an annotation as it is printed: ``int``, ``torch.Tensor``, ``list[int]``."""
    if not isinstance(annotation, type):
        return repr(annotation)
    return f"{annotation.__module__}.{annotation.__qualname__}".removeprefix("builtins.")


def format_arg(a: Any) -> str:
    """Return an argument as it is printed: a node is ``%name``, at any depth."""
    if isinstance(a, tuple | list):
        parts = ", ".join(map(format_arg, a))
        ending = "," if isinstance(a, tuple) and len(a) == 1 else ""
        return f"({parts}{ending})" if isinstance(a, tuple) else f"[{parts}]"
    if isinstance(a, dict):
        return "{" + ", ".join(f"{key}: {format_arg(value)}" for key, value in a.items()) + "}"
    return f"%{a}" if isinstance(a, core.Node) else str(a)


def table(head: list[str], rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """Return the lines of a table, its columns as wide as they have to be."""
    cells = [head, *([str(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    pairs = [zip(row, widths, strict=True) for row in cells]
    return ["  ".join(cell.ljust(width) for cell, width in pair).rstrip() for pair in pairs]
