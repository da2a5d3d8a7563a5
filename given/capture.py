"""Given for ``capture``: what a captured model consists of besides its graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch.utils._pytree import TreeSpec


class Attribute(NamedTuple):
    """A tensor or an object that a model owns.

    Attributes:
        kind: ``"parameter"``, ``"buffer"`` or ``"constant"``.
        value: The tensor or the object.
        is_saved: Whether a buffer belongs to the ``state_dict``.
    """

    kind: str
    value: Any
    is_saved: bool = True


@dataclass
class Flat:
    """A flat graph, and what it takes to give the graph its module tree back.

    Attributes:
        graph: The graph. Its constants are placeholders too, and its output is a tuple of leaves.
        names: From the name of each placeholder that isn't an argument of the user's to the name
            of its attribute: ``{"p_0_weight": "0.weight"}``.
        state: Each attribute by its name, in the model's order. A tensor that has two names in the
            model is there twice.
        paths: The paths of all modules; the root's is ``""``.
        in_spec: The structure of ``(args, kwargs)``.
        out_spec: The structure of the result.
        ranges: The range of each size that isn't a number. In what ``capture`` records, all sizes
            are numbers.

    In torch: ``torch.export.ExportedProgram``.
    """

    graph: Any
    names: dict[str, str]
    state: dict[str, Attribute]
    paths: list[str]
    in_spec: TreeSpec
    out_spec: TreeSpec
    ranges: dict[Any, Any] = field(default_factory=dict)
