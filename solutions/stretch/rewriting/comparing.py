"""Unlike the core: arguments by name, dicts and slices as containers, tensors by their type.

What two nodes call is compared first, and their arguments only if that is equal: an ignored literal
must not be the function that is called.
"""

from __future__ import annotations

import contextlib
import inspect
import operator
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
        ignore_literals: Whether a literal of the pattern matches anything.
    """

    ignore_literals = False

    def match_call(self, expected: Node, actual: Node, nodes_map: dict[Node, Any]) -> bool:
        """Tell whether two nodes make the same call, however their arguments are passed."""
        return target_of(expected) == target_of(actual) and self.match_value(
            *arguments_of(expected, actual), nodes_map
        )

    def match_value(self, expected: Any, actual: Any, nodes_map: dict[Node, Any]) -> bool:
        """Tell whether an argument in the pattern matches; dicts and slices are containers, too."""
        if isinstance(expected, dict | slice):
            expected, actual = aligned(expected, actual)
        elif self.ignore_literals and not isinstance(expected, Node | list | tuple):
            return True
        return super().match_value(expected, actual, nodes_map)


def target_of(node: Node) -> object:
    """Return what a node calls or reads; of a module, or a tensor that is an attribute, the type.

    The opcode is part of it.
    """
    owner = node.graph.owning_module
    if node.op in ("call_module", "get_attr") and owner is not None:
        value = operator.attrgetter(str(node.target))(owner)
        if node.op == "call_module" or isinstance(value, Tensor):
            return node.op, type(value)
    return node.op, node.target


def aligned(expected: Any, actual: Any) -> tuple[Any, Any]:
    """Return two slices, or dicts of the same keys, as lists; any other two values as they are."""
    match expected, actual:
        case slice(), slice():
            expected, actual = ([each.start, each.stop, each.step] for each in (expected, actual))
        case dict(), dict() if expected.keys() == actual.keys():
            expected, actual = [*expected.values()], [actual[key] for key in expected]
    return expected, actual


def arguments_of(expected: Node, actual: Node) -> tuple[Any, Any]:
    """Return the arguments of two calls, in one order, however each of them is written.

    >>> import torch
    >>> from torch.fx import symbolic_trace
    >>> graph = symbolic_trace(lambda a: (torch.cumsum(a, 0), torch.cumsum(a, dim=1))).graph
    >>> a, first, second, output = graph.nodes
    >>> arguments_of(first, second)
    ([a, 0, None], [a, 1, None])
    """
    named, others = expected.kwargs, actual.kwargs
    if named.keys() == others.keys() and len(expected.args) == len(actual.args):
        return [*expected.args, *named.values()], [*actual.args, *map(others.get, named)]
    for signature in signatures_of(function_of(expected)):
        with contextlib.suppress(TypeError):  # this overload takes other arguments
            return aligned(*(bound_arguments(signature, each) for each in (expected, actual)))
    return [expected.args, expected.kwargs], [actual.args, actual.kwargs]


def function_of(node: Node) -> Any:
    """Return what a node calls; of a module, the function, which takes the module first."""
    if node.op == "call_module" and node.graph.owning_module is not None:
        return type(module_of(node)).forward
    return node.target


def bound_arguments(signature: inspect.Signature, node: Node) -> dict[str, Any]:
    """Return the arguments of a call by name, with the defaults.

    Raises:
        TypeError: The signature takes other arguments.
    """
    args = (None, *node.args) if node.op == "call_module" else node.args
    bound = signature.bind(*args, **node.kwargs)
    bound.apply_defaults()
    return bound.arguments


@cache
def signatures_of(function: Any) -> list[inspect.Signature]:
    """Return the signatures of a function, one for each overload; none if they aren't known."""
    with contextlib.suppress(TypeError, ValueError):
        return get_signature_for_torch_op(function) or [inspect.signature(function)]
    return []
