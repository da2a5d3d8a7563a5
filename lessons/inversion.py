"""Run a graph backwards by undoing each operation.

To solve ``y = exp(tan(x) * 3)`` for ``x``, undo the last operation first: ``log``, then ``/ 3``,
then ``arctan``. The graph of the inverse is built in the same order. The output becomes the
placeholder, each step becomes the step that undoes it, and the placeholder becomes the output.

This works for a *chain*: there is one input, and each step computes one value from the value before
it and from constants. Anything else is refused, because a wrong inverse is worse than none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from .code import GraphModule
from .graph import Graph, Node

__all__ = ["NotInvertibleError", "add_inverse", "inverse_of", "invert"]

Function = Callable[..., Any]


class NotInvertibleError(RuntimeError):
    """A graph or a function has no known inverse; the message names it and says why."""


def invert(model: nn.Module | Function) -> GraphModule:
    """Return the module that computes the input of ``model`` from its output.

    Args:
        model: A module or function of one input. It isn't changed: a trace writes constants onto
            its root, so pass your ``Tracer`` a copy. The inverse shares parameters and buffers.

    Returns:
        A new module; its placeholder has the name of the model's output node.

    Raises:
        NotInvertibleError: The message names a node and the reason.

    In torch: no such function; the documentation has an example for functions of one argument.

    >>> print(invert(lambda x: torch.exp(torch.tan(x))).code.strip())
    def forward(self, output):
        log = torch.log(output);  output = None
        arctan = torch.arctan(log);  log = None
        return arctan
    """
    raise NotImplementedError("inversion: invert")


INVERSES: dict[Function, Function] = {
    torch.sin: torch.arcsin,
    torch.cos: torch.arccos,
    torch.tan: torch.arctan,
    torch.exp: torch.log,
    torch.arcsin: torch.sin,
    torch.arccos: torch.cos,
    torch.arctan: torch.tan,
    torch.log: torch.exp,
}


def add_inverse(f: Function, g: Function) -> None:  # step 1
    """Register two functions of one argument as inverses of each other.

    A later pair replaces an earlier one with the same function. Different functions may have the
    same ``__name__``.

    >>> add_inverse(torch.special.ndtri, torch.special.ndtr)
    >>> inverse_of(torch.special.ndtr) is torch.special.ndtri
    True
    """
    raise NotImplementedError("inversion: add_inverse")


def inverse_of(f: Function) -> Function:  # step 1
    """Return the registered inverse of a function.

    Raises:
        NotInvertibleError: There is none; the message names the function.

    >>> inverse_of(torch.exp) is torch.log
    True
    """
    raise NotImplementedError("inversion: inverse_of")


def find_chain(graph: Graph) -> list[Node]:  # step 2
    """Follow the one value of a graph from its placeholder to its output.

    Returns:
        The placeholder, the steps and the output node, in order, without the constants.

    Raises:
        NotInvertibleError: There isn't exactly one input, a value isn't used by exactly one
            node, or the output isn't one value that depends on the input.

    >>> graph = Tracer().trace(lambda x: torch.exp(torch.tan(x)))
    >>> find_chain(graph)
    [x, tan, exp, output]
    """
    raise NotImplementedError("inversion: find_chain")


def solve(
    function: Function, operands: Sequence[Any], place: int, result: Any
) -> tuple[Function, tuple[Any, ...]]:  # step 3
    """Solve ``result = function(*operands)`` for the operand at ``place``.

    Args:
        function: A function of one operand with a registered inverse, or ``operator.add``,
            ``sub``, ``mul`` or ``truediv``.
        operands: One or two operands; the one at ``place`` is the unknown.
        place: The position of the unknown, 0 or 1.
        result: What the function returns.

    Returns:
        The function to call, and its operands, to compute the unknown.

    Raises:
        NotInvertibleError: ``function`` isn't one of these.

    >>> solve(operator.sub, (2, "x"), 1, "y")
    (<built-in function sub>, (2, 'y'))
    """
    raise NotImplementedError("inversion: solve")


class InverseBuilder:
    """Build the inverse of a chain.

    Args:
        root: The module whose attributes the chain's graph reads.
        chain: The placeholder, the steps and the output node.

    Attributes:
        graph: The graph of the inverse.
        copies: The copy in ``graph`` of each constant of the chain's graph.
        values: The value of each constant of the chain's graph.
    """

    def __init__(self, root: nn.Module, chain: list[Node]) -> None:  # given
        self.root = root
        self.chain = chain
        self.graph = type(chain[0].graph)()
        self.copies: dict[Node, Node] = {}
        self.values: dict[Node, Any] = {}

    def build(self) -> GraphModule:  # step 5
        """Undo the steps, starting with the last.

        Returns:
            The module that runs ``self.graph``.

        Raises:
            NotInvertibleError: A constant or a step is refused; the error names its node.
        """
        raise NotImplementedError("inversion: InverseBuilder.build")

    def copy_constants(self) -> None:  # step 4
        """Fill ``copies`` and ``values`` with every node that isn't in the chain, in order."""
        raise NotImplementedError("inversion: InverseBuilder.copy_constants")

    def value_of(self, constant: Node) -> Any:  # step 4
        """Return the attribute of ``root`` that a ``get_attr`` node reads.

        Raises:
            NotInvertibleError: The node is of another kind. A constant that ``forward`` computes
                may be random, or change the model: ``x + self.weight.mul_(2)``.
        """
        raise NotImplementedError("inversion: InverseBuilder.value_of")

    def undo(self, step: Node, source: Node, result: Node) -> Node:  # step 5
        """Add to ``graph`` the node that computes a step's input from its result.

        Args:
            step: A node of the chain.
            source: The step's input, the node before it in the chain.
            result: The node of ``graph`` that holds the step's result.

        Raises:
            NotInvertibleError: The input isn't exactly one of the operands, or ``solve`` or
                ``check_constant`` refuses the step.
        """
        raise NotImplementedError("inversion: InverseBuilder.undo")

    def call_of(self, step: Node) -> tuple[Function, tuple[Any, ...]]:  # step 5
        """Return the function that a step calls, and its operands.

        Raises:
            NotInvertibleError: It calls a method or a module, or passes arguments by keyword.
        """
        raise NotImplementedError("inversion: InverseBuilder.call_of")

    def check_constant(self, value: Any, inverse: Function) -> None:  # step 4
        """Refuse a factor or dividend that is or contains zero: ``0 * x`` doesn't depend on ``x``.

        Args:
            value: A number or a tensor.
            inverse: The function that undoes the step: it multiplies, divides, adds or subtracts.
        """
        raise NotImplementedError("inversion: InverseBuilder.check_constant")
