"""Where ``tracer`` and ``create_arg`` find paths until they ask ``path_of_module`` themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .path_of_module import join, registered_path, value_at

if TYPE_CHECKING:
    from torch import nn

__all__ = ["PathIndex", "join", "path_index"]


class PathIndex:
    """The paths below the root of a tracer."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer

    def path_of(self, value: object, table: str) -> str | None:
        return registered_path(self.tracer, value, table)

    def value_at(self, path: str, table: str) -> object:
        root: nn.Module = self.tracer.root
        return value_at(root, path, table)


def path_index(tracer: Any) -> PathIndex:
    """Return the paths below the tracer's present root."""
    return PathIndex(tracer)
