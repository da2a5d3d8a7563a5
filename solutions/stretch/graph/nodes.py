"""Unlike the core: nodes that know their position, and refuse what would damage the graph.

Single arguments are set by position and by name. Users can be left out when a value is replaced,
and metadata be passed on. A node knows whether it has an effect, and prints as in
torch.
"""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Any

from torch._library.utils import is_impure
from torch.fx.operator_schemas import normalize_function, normalize_module

from ... import graph as core
from .printing import format_arg, qualified_name, type_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

    from .graphs import Graph


OPCODES = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")


@functools.total_ordering
class Node(core.Node):
    """The core's node, for all that is done to one. In torch: ``torch.fx.Node``.

    >>> from solutions.stretch.graph import Graph
    >>> graph = Graph()
    >>> x, y = graph.placeholder("x"), graph.placeholder("y")
    >>> x < y, max(y, x)
    (True, y)
    """

    graph: Graph
    is_erased = False
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
        """Create a node that is in no list yet.

        Raises:
            ValueError: There is no such opcode (in torch an ``AssertionError``), or the target is
                not of its kind.
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
            self.refuse_if_erased()
            self.graph.number(self)
        return self._position  # type: ignore[return-value]

    def __lt__(self, other: Any) -> bool:
        return self.position < other.position

    def __deepcopy__(self, memo: dict[int, Any]) -> Node:
        copy.deepcopy(self.graph, memo)
        return memo[id(self)]

    @property
    def name(self) -> str:
        """The name. If it changes, the module's hooks are called, once for each user."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        for user in getattr(self, "users", ()):
            self.graph.call_hooks("_replace_hooks", old=self, new=name, user=user)
        self._name = name

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
        """Insert a positional argument before one, or after the last.

        Raises:
            IndexError: There is no such place. In torch an ``AssertionError``.
        """
        if not 0 <= idx <= len(self.args):
            raise IndexError(f"{self} has {len(self.args)} arguments: no place {idx} to insert at")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Set one keyword argument."""
        self.kwargs = dict(self.kwargs) | {key: arg}

    def normalized_arguments(
        self,
        root: nn.Module,
        arg_types: tuple[Any] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """Return the arguments of a call of a function or module by the names that it gives them.

        Args:
            root: What module names refer to.
            arg_types: Types of the arguments, where the function has several signatures.
            kwarg_types: Types of the keyword arguments.
            normalize_to_only_use_kwargs: Whether positional arguments become keyword arguments.

        Returns:
            Arguments and keyword arguments, or ``None`` if the signature isn't known.
        """
        target: Any = self.target
        only = normalize_to_only_use_kwargs
        if self.op == "call_function":
            return normalize_function(target, self.args, self.kwargs, arg_types, kwarg_types, only)
        if self.op == "call_module":
            return normalize_module(root, target, self.args, self.kwargs, only)
        return None

    def replace_input_with(self, old_input: core.Node, new_input: Any) -> None:
        """Replace an input by another argument, and call the module's hooks with its name."""
        new = getattr(new_input, "name", new_input)
        self.graph.call_hooks("_replace_hooks", old=old_input, new=new, user=self)
        super().replace_input_with(old_input, new_input)

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
            delete_user_cb: Called with each user: whether to change it. By default all are.
            propagate_meta: Whether the other node gets this one's metadata. It must have none.

        Raises:
            ValueError: It has metadata. In torch an ``AssertionError``.
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
        if self.is_erased or x.is_erased:
            self.refuse_if_erased()
            x.refuse_if_erased()
        super().prepend(x)
        x._position = None

    def refuse_if_erased(self) -> None:
        """Raise a ``RuntimeError`` if the node was erased."""
        if self.is_erased:
            raise RuntimeError(f"{self} was erased: it has no place in the graph")

    # Effects

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node is needed even if its result is unused.

        Args:
            impure_random: Whether that is so for functions that draw random numbers.

        torch knows it for its own functions; a module says so in an attribute ``_is_impure``.
        """
        if self.op == "call_function":
            target: Any = self.target
            args, kwargs = self.args, self.kwargs
            return is_impure(target, args=args, kwargs=kwargs, impure_random=impure_random)
        if self.op == "call_module" and self.graph.owning_module is not None:
            module = self.graph.owning_module.get_submodule(self.target)
            return getattr(module, "_is_impure", False)
        return super().is_impure()

    # Printing

    def format_node(self) -> str:
        """Return the node as one line of the printed graph.

        The parts are the name, the annotation (if there is one), the number of users, the opcode
        and the target. Then come the default of a placeholder (if it has one), the arguments of a
        call, and nothing more for ``get_attr``. An output has a line of its own kind.

        >>> import operator, torch
        >>> from solutions.stretch.graph import Graph
        >>> graph = Graph()
        >>> x = graph.placeholder("x", torch.Tensor, default_value=None)
        >>> total = graph.call_function(operator.add, (x, 1))
        >>> for node in (x, graph.get_attr("linear.bias"), total, graph.output((total,))):
        ...     print(node.format_node())
        %x : torch.Tensor [num_users=1] = placeholder[target=x](default=None)
        %linear_bias : [num_users=0] = get_attr[target=linear.bias]
        %add : [num_users=1] = call_function[target=operator.add](args = (%x, 1), kwargs = {})
        return (add,)
        """
        if self.op == "output":
            return f"return {self.args[0]}"
        annotation = f"{type_name(self.type)} " if self.type is not None else ""
        step = f"{self.op}[target={qualified_name(self.target)}]"
        line = f"%{self.name} : {annotation}[num_users={len(self.users)}] = {step}"
        if self.op == "placeholder":
            return f"{line}(default={self.args[0]})" if self.args else line
        if self.op == "get_attr":
            return line
        return f"{line}(args = {format_arg(self.args)}, kwargs = {format_arg(self.kwargs)})"


class NodeList(core.NodeList):
    """The core's, without nodes that are erased during an iteration."""

    def __iter__(self) -> Iterator[Any]:
        return (node for node in super().__iter__() if not node.is_erased)

    def __reversed__(self) -> Iterator[Any]:
        return (node for node in super().__reversed__() if not node.is_erased)
