"""Unlike the core: names are made and numbered as in torch, and so is the text of a printed node.

A name can also belong to an object.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ... import graph as core

if TYPE_CHECKING:
    from collections.abc import Callable


class Namespace(core.Namespace):
    """The core's, numbered as in torch. In torch: ``torch.fx.graph._Namespace``."""

    def __init__(self) -> None:
        super().__init__()
        self.used |= {"NoneType", "fx_pytree", "pytree"}
        self.name_of: dict[Any, str] = {}

    def create_name(self, candidate: str, obj: Any = None) -> str:
        """Return the name of an object, the same each time; without an object, a new name.

        Numbering continues from the candidate's own number.

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
    """Return a name for a target's result: ``avg_pool`` for ``avgPool``, ``call`` for ``__call__``.

    In torch: ``Graph._target_to_str``.
    """
    name = target if isinstance(target, str) else function_name(target)
    if isinstance(target, str) and re.fullmatch("__.*__", name):
        name = name[2:-2]
    return name if name.islower() else re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def function_name(function: Callable[..., Any]) -> str:
    """Return a function's name; if it has none, as a ``functools.partial``, that of its class."""
    return getattr(function, "__name__", type(function).__name__)


# The text of a printed node


def target_text(target: Callable[..., Any] | str) -> str:
    """Return a target as it is printed: ``operator.add``, ``torch.relu``, ``layer1.0.conv1``."""
    if isinstance(target, str):
        return target
    module = getattr(target, "__module__", "torch.Tensor")  # methods of tensors have no module
    for private, public in (("_operator", "operator"), ("torch._ops", "torch.ops")):
        module = module.replace(private, public)
    return f"{module.replace('torch._tensor', 'torch.Tensor')}.{function_name(target)}"


def type_text(annotation: Any) -> str:
    """Return an annotation as it is printed: ``int``, ``torch.Tensor``, ``list[int]``."""
    if not isinstance(annotation, type):
        return repr(annotation)
    return f"{annotation.__module__}.{annotation.__qualname__}".removeprefix("builtins.")


def argument_text(a: Any) -> str:
    """Return an argument as it is printed: a node is ``%name``, at any depth."""
    if isinstance(a, tuple | list):
        parts = ", ".join(map(argument_text, a))
        ending = "," if isinstance(a, tuple) and len(a) == 1 else ""
        return f"({parts}{ending})" if isinstance(a, tuple) else f"[{parts}]"
    if isinstance(a, dict):
        return "{" + ", ".join(f"{key}: {argument_text(value)}" for key, value in a.items()) + "}"
    return f"%{a}" if isinstance(a, core.Node) else str(a)
