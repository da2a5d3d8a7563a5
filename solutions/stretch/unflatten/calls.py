"""The words the steps share: a module stack's level, a module call, a preserved signature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch.fx import Node
from torch.utils._pytree import TreeSpec

# Export's mark on the stack of a node that a pass inserted, and whose module nobody knows.
NO_MODULE = "_empty_nn_module_stack_from_metadata_hook"


class Level(NamedTuple):  # given
    """One entry of a node's module stack: which call of which module.

    Attributes:
        path: the module's fully qualified name.
        call: the number of the call, 0 for the module's first.
        type_name: the class of the eager module, as export wrote it down.
    """

    path: str
    call: int
    type_name: str | None


@dataclass
class Signature:  # given
    """How the eager module was called: structures, and the values that are their leaves.

    Attributes:
        in_spec: the structure of ``(args, kwargs)``.
        out_spec: the structure of the result.
        arguments: the leaves of ``(args, kwargs)``: nodes of the flat graph, or constants.
        results: the leaves of the result, likewise.
    """

    in_spec: TreeSpec
    out_spec: TreeSpec
    arguments: list[Any]
    results: list[Any]


@dataclass(eq=False)
class ModuleCall:  # given
    """One call of one module: a slice of the flat graph.

    ``outline`` fills the first five fields, ``settle_inputs`` and ``settle_outputs`` the next
    three. A call whose signature export was asked to preserve has one.

    Attributes:
        path: the module's fully qualified name; empty for the root.
        index: the number of the call, 0 for the module's first.
        type_name: the class of the eager module.
        first: the first node of the slice.
        body: the nodes and the calls that the module itself makes, in order.
        inputs: values from outside that the caller hands in.
        state: values from outside that the module owns, and their names below it.
        outputs: values made in the call that are still needed after it.
        signature: how the eager module was called, if that is to be preserved.
    """

    path: str
    index: int
    type_name: str | None
    first: Node
    body: list[Node | ModuleCall]
    inputs: list[Node] = field(default_factory=list)
    state: dict[Node, str] = field(default_factory=dict)
    outputs: list[Node] = field(default_factory=list)
    signature: Signature | None = None

    @property
    def name(self) -> str:
        """The name of this very call: ``path``, then ``path@1``, ``path@2``, and so on."""
        return f"{self.path}@{self.index}" if self.index else self.path

    @property
    def last(self) -> Node:
        """The last node of the slice."""
        end = self.body[-1]
        return end.last if isinstance(end, ModuleCall) else end

    @property
    def calls(self) -> list[ModuleCall]:
        """The calls that this one makes itself."""
        return [item for item in self.body if isinstance(item, ModuleCall)]

    @property
    def arguments(self) -> list[Node]:
        """What the preserved signature hands in; nothing for a call without one."""
        return _nodes_in(self.signature.arguments) if self.signature else []

    @property
    def results(self) -> list[Node]:
        """What the preserved signature returns; nothing for a call without one."""
        return _nodes_in(self.signature.results) if self.signature else []

    def walk(self) -> Iterator[ModuleCall]:
        """Yield every call below this one, then this one: callees before callers."""
        for call in self.calls:
            yield from call.walk()
        yield self


def _nodes_in(leaves: list[Any]) -> list[Node]:  # given
    return [leaf for leaf in leaves if isinstance(leaf, Node)]


def is_below(path: str, ancestor: str) -> bool:  # given
    """Whether the name ``path`` lies below the module ``ancestor``.

    >>> is_below("encoder.0", "encoder"), is_below("encoder2", "encoder"), is_below("fc", "")
    (True, False, True)
    """
    return bool(path) and (not ancestor or path.startswith(f"{ancestor}."))


def relative_to(ancestor: str, path: str) -> str:  # given
    """The name of what lies below ``ancestor``, as seen from there.

    >>> relative_to("encoder", "encoder.0.weight"), relative_to("", "fc")
    ('0.weight', 'fc')
    """
    return path[len(ancestor) + 1 :] if ancestor else path
