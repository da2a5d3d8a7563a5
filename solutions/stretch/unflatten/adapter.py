"""Around the steps: arguments of another structure than the program was exported with."""

from __future__ import annotations

import abc
from typing import Any

from torch.utils._pytree import TreeSpec


class FlatArgsAdapter(abc.ABC):  # given
    """Turns the flat arguments of another structure into those the program was exported with."""

    @abc.abstractmethod
    def adapt(
        self,
        target_spec: TreeSpec,
        input_spec: TreeSpec,
        input_args: list[Any],
        metadata: dict[str, Any] | None = None,
        obj: Any | None = None,
    ) -> list[Any]:
        """Return the leaves of ``target_spec``, made of those of ``input_spec``.

        Args:
            target_spec: the structure of ``(args, kwargs)`` at export.
            input_spec: the structure of ``(args, kwargs)`` of this call.
            input_args: the leaves of this call. They may be changed in place.
            metadata: the unflattened module's ``meta``.
            obj: the positional arguments of this call.
        """

    def get_flat_arg_paths(self) -> list[str]:
        """Names for the adapted leaves, for errors about them; empty if there are none."""
        return []
