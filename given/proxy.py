"""What the lesson ``proxy`` gives you."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields, is_dataclass
from typing import Any

from torch.fx.immutable_collections import immutable_dict, immutable_list

PLAIN = list, dict, immutable_list, immutable_dict


def call_that_makes(a: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments with which its class makes this dataclass, list or dict again.

    Args:
        a: Any value.

    Returns:
        The arguments and keyword arguments; or ``None`` for a plain list or dict, for a value of
        another kind, and if the class takes other arguments.

    >>> from collections import OrderedDict
    >>> call_that_makes(OrderedDict(a=1)), call_that_makes(defaultdict(list, a=[1]))
    ((({'a': 1},), {}), ((None, {'a': [1]}), {}))
    >>> call_that_makes([1]) is call_that_makes("text") is None
    True
    """
    if is_dataclass(a) and not isinstance(a, type):
        return (), {each.name: getattr(a, each.name) for each in fields(a)}
    if not isinstance(a, list | dict) or type(a) in PLAIN:
        return None
    elements = list(a) if isinstance(a, list) else dict(a)
    # torch's generated code can't name a class in an argument, such as the default factory `list`.
    args = (None, elements) if isinstance(a, defaultdict) else (elements,)
    try:
        made: Any = type(a)(*args)
    except Exception:
        return None
    return (args, {}) if len(made) == len(a) else None
