"""Unlike the core: nodes that know their position, and refuse edits that would damage the graph."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch.fx

from given.graph import has_effect

from ... import graph as core
from .names import argument_text, target_text, type_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from .graphs import Graph


OPCODES = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")


@functools.total_ordering
class Node(core.Node):
    """The core's node, with the other methods of torch's. In torch: ``torch.fx.Node``."""

    graph: Graph
    _erased = property(lambda self: not self._is_linked())  # torch's passes read these names
    _input_nodes = property(lambda self: dict.fromkeys(self.all_input_nodes))
    _position: int | None = None

    def __init__(
        self,
        graph: core.Graph,
        name: str,
        op: str,
        target: Callable[..., Any] | str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: Any = None,
    ) -> None:
        """Create a node that isn't in the list yet.

        Raises:
            ValueError: There is no such opcode (in torch an ``AssertionError``), or the target is
                of the wrong kind.
            TypeError: The arguments aren't a tuple and a dict. In torch an ``AssertionError``.
        """
        is_fitting = callable(target) if op == "call_function" else isinstance(target, str)
        if op not in (*OPCODES, "root") or not is_fitting:
            way_out = f"one of {', '.join(OPCODES)}; a function for call_function, else a name"
            raise ValueError(f"there is no node {op!r} of {target!r}: {way_out}")
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise TypeError(f"{op} of {target!r}: a tuple and a dict, not {args!r} and {kwargs!r}")
        super().__init__(graph, name, op, target, args, kwargs, return_type)

    @property
    def position(self) -> int:
        """A number that grows along the list, chosen when the node is first compared."""
        if self._position is None:
            self.graph.number(self)
        return self._position  # type: ignore[return-value]

    def __lt__(self, other: Any) -> bool:
        return self.position < other.position

    @property
    def stack_trace(self) -> str | None:
        """The Python stack at which the node was recorded, innermost frame last, or ``None``."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    # Arguments

    def update_arg(self, idx: int, arg: Any) -> None:
        """Set one positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Insert a positional argument, at the same place as ``list.insert``."""
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Set one keyword argument."""
        self.kwargs = dict(self.kwargs) | {key: arg}

    # Finds out the signature of the function or module, and names the arguments by it.
    normalized_arguments = torch.fx.Node.normalized_arguments

    def replace_all_uses_with(
        self,
        replace_with: core.Node,
        delete_user_cb: Callable[[Any], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[core.Node]:
        """Make the users of this node use another node instead, and return those users.

        Args:
            replace_with: The other node.
            delete_user_cb: Whether to change a user. By default all are changed.
            propagate_meta: Whether the other node gets this one's metadata. It must have none.

        Raises:
            ValueError: The other node has metadata. In torch an ``AssertionError``.
        """
        if propagate_meta:
            if replace_with.meta:
                raise ValueError(f"{replace_with} has metadata, which would be mixed with {self}'s")
            replace_with.meta.update(self.meta)
        users = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in users:
            user.replace_input_with(self, replace_with)
        return users

    # Place

    def prepend(self, x: Any) -> None:
        """Move a node of the same graph to the place before this one.

        Raises:
            ValueError: ``x`` belongs to another graph. In torch an ``AssertionError``.
            RuntimeError: One of them was erased. In torch the list is damaged.
        """
        if x.graph is not self.graph:
            raise ValueError(f"{x} is in another graph than {self}: copy it with `node_copy`")
        before, after = x.prev, x.next
        if before.next is not x or self.prev.next is not self:
            erased = x if self._is_linked() else self
            raise RuntimeError(f"{erased} was erased: it has no place in the graph")
        if x is not self:  # as in the core: calling it would take longer than moving the node
            before.next, after.prev = after, before
            x.prev, x.next = self.prev, self
            x.prev.next = self.prev = x
        x._position = None

    # Effects

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node is needed even if its result isn't used.

        In torch: some calls with an effect are unknown, such as ``x.add_(1)``.

        Args:
            impure_random: Whether functions that draw random numbers are among them.
        """
        return self.op in ("placeholder", "output") or has_effect(self, impure_random)

    # Printing

    def format_node(self) -> str:
        """Return the node as one line of the printed graph, as torch prints it."""
        if self.op == "output":
            return f"return {self.args[0]}"
        annotation = f"{type_text(self.type)} " if self.type is not None else ""
        step = f"{self.op}[target={target_text(self.target)}]"
        line = f"%{self.name} : {annotation}[num_users={len(self.users)}] = {step}"
        if self.op == "placeholder":
            return f"{line}(default={self.args[0]})" if self.args else line
        if self.op == "get_attr":
            return line
        return f"{line}(args = {argument_text(self.args)}, kwargs = {argument_text(self.kwargs)})"
