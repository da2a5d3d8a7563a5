"""Unlike the core: arguments by name, dicts and slices as containers, tensors by their type.

What two nodes call is compared first, and their arguments only if that is equal: an ignored literal
must not be the function that is called.
"""

from __future__ import annotations

import contextlib
import inspect
import operator
from collections.abc import Callable
from functools import cache
from typing import Any

from torch import Tensor
from torch.fx import Node
from torch.fx.operator_schemas import get_signature_for_torch_op

from ... import rewriting as core
from ...rewriting import module_of


class Matcher(core.Matcher):
    """Compares nodes as the core does, and knows more containers and the names of arguments.

    Attributes:
        match_placeholder: Whether placeholders match placeholders alone.
        ignore_literals: Whether a literal of the pattern matches anything.
    """

    match_placeholder = False
    ignore_literals = False

    def match_node(self, expected: Node, actual: Any, nodes_map: dict[Node, Any]) -> bool:
        """Tell whether a node of the pattern, and all that it is computed from, matches a value."""
        is_wildcard = expected.op == "placeholder" and not self.match_placeholder
        if is_wildcard or (isinstance(actual, Node) and target_of(expected) == target_of(actual)):
            return super().match_node(expected, actual, nodes_map)
        return False

    def match_value(self, expected: Any, actual: Any, nodes_map: dict[Node, Any]) -> bool:
        """Tell whether an argument in the pattern matches; dicts and slices are containers, too."""
        if isinstance(expected, dict | slice):
            expected, actual = elements(expected), elements(actual)
        is_literal = not isinstance(expected, Node | list | tuple)
        is_ignored = is_literal and self.ignore_literals
        return is_ignored or super().match_value(expected, actual, nodes_map)

    def call_of(self, node: Node) -> list[Any]:
        """Return the arguments of a node by name; what is called has been compared before."""
        return [arguments_of(node)]


def target_of(node: Node) -> object:
    """Return what a node calls or reads; of a module, or a tensor that is an attribute, the type.

    Opcodes are part of it, and for inputs and outputs all there is.
    """
    if node.op in ("placeholder", "output"):
        return node.op
    target: Any = node.target
    if node.op in ("call_module", "get_attr") and node.graph.owning_module is not None:
        value = operator.attrgetter(target)(node.graph.owning_module)
        target = type(value) if node.op == "call_module" or isinstance(value, Tensor) else target
    return node.op, target


def elements(value: Any) -> Any:
    """Return a dict or a slice as a list; anything else as it is."""
    match value:
        case dict():
            return [dict, *((key, value[key]) for key in sorted(value, key=repr))]
        case slice():
            return [slice, value.start, value.stop, value.step]
    return value


def arguments_of(node: Node) -> Any:
    """Return the arguments of a node by name, with the defaults, where its signature is known.

    >>> from torch.fx import symbolic_trace
    >>> graph = symbolic_trace(lambda a: a.new_zeros(3).softmax(dim=0)).graph
    >>> [arguments_of(each) for each in graph.find_nodes(op="call_method")]
    [[(a, 3), {}], [(new_zeros,), {'dim': 0}]]
    """
    function, args = node.target, node.args
    if node.op == "call_module" and node.graph.owning_module is not None:
        function, args = type(module_of(node)).forward, (None, *args)
    known = parameters_of(function, len(args), tuple(node.kwargs)) if callable(function) else None
    if known is None:
        return [node.args, node.kwargs]
    names, defaults = known
    return defaults | dict(zip(names, args, strict=True)) | node.kwargs


@cache
def parameters_of(
    function: Callable[..., Any], count: int, keywords: tuple[str, ...]
) -> tuple[list[str], dict[str, Any]] | None:
    """Return the names of so many positional arguments, and the defaults of what isn't passed.

    ``None`` if no signature takes these arguments, or more of them than it has names for.
    """
    for signature in signatures_of(function):
        with contextlib.suppress(TypeError):  # this overload takes other arguments
            bound = signature.bind(*range(count), **dict.fromkeys(keywords))
            names = [*bound.arguments][:count]
            bound.apply_defaults()
            return (names, bound.arguments) if len(names) == count else None
    return None


def signatures_of(function: Callable[..., Any]) -> list[inspect.Signature]:
    """Return the signatures of a function, one for each overload; none if they aren't known."""
    overloads = get_signature_for_torch_op(function)
    if overloads is not None:
        return overloads
    with contextlib.suppress(TypeError, ValueError):
        return [inspect.signature(function)]
    return []
