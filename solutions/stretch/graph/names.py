"""Unlike the core: names are numbered as in torch, and a name can belong to an object."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ... import graph as core

if TYPE_CHECKING:
    from collections.abc import Callable


class Namespace(core.Namespace):
    """The core's, numbered as in torch. In torch: ``_Namespace``."""

    def __init__(self) -> None:
        super().__init__()
        self.used |= {"NoneType", "fx_pytree", "pytree"}
        self.name_of: dict[Any, str] = {}

    def create_name(self, candidate: str, obj: Any = None) -> str:
        """Return the name of an object, the same each time; without an object, a new name.

        Counting goes on from a number that a candidate has.

        >>> namespace = Namespace()
        >>> [namespace.create_name("x_7", each) for each in (max, max, min, None)]
        ['x_7', 'x_7', 'x_8', 'x_9']
        """
        if obj is not None:
            if obj not in self.name_of:
                self.name_of[obj] = self.create_name(candidate)
            return self.name_of[obj]
        name = super().create_name(candidate or "_unnamed")
        base, _, number = name.rpartition("_")
        if base and number.isdecimal():
            self.last_number[base] = int(number)
        return name


def name_for(target: Callable[..., Any] | str) -> str:
    """Return a name for what a target gives: ``avgPool`` is ``avg_pool``, ``__call__`` ``call``."""
    name = target if isinstance(target, str) else function_name(target)
    if isinstance(target, str) and re.fullmatch("__.*__", name):
        name = name[2:-2]
    return name if name.islower() else re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def function_name(function: Callable[..., Any]) -> str:
    """Return a function's name; that of its class if it has none, as a ``functools.partial``."""
    return getattr(function, "__name__", type(function).__name__)
