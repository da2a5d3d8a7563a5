"""Run a graph backwards by undoing each operation.

To solve ``y = exp(tan(x) * 3)`` for ``x``, undo the last operation first: ``log``, then ``/ 3``,
then ``arctan``. The graph of the inverse is built in the same order. The output becomes the
placeholder, each step becomes the step that undoes it, and the placeholder becomes the output.

This works for a *chain*: there is one input, and each step computes one value from the value before
it and from constants. Anything else is refused, because a wrong inverse is worse than none.
"""

from __future__ import annotations

import contextlib
import copy
import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from .code import GraphModule
from .graph import Graph, Node
from .inlining import inline_all
from .tracer import Tracer

__all__ = ["NotInvertibleError", "add_inverse", "inverse_of", "invert"]

Function = Callable[..., Any]


class NotInvertibleError(RuntimeError):
    """A graph or a function has no known inverse; the message names it and says why."""


def invert(model: nn.Module | Function) -> GraphModule:  # step 5
    """Return the module that computes the input of ``model`` from its output.

    Trace the model with a ``Tracer``. The constants are then attributes of ``tracer.root``, which
    is a new module if you trace a function, and otherwise the module that you trace. But the model
    you are given mustn't change. A deep copy would have other parameters than the model, and after
    a step of training it wouldn't be its inverse any more. Which copy shares the parameters, and
    has attributes of its own?

    A call of ``nn.Tanh()`` is a node without a function that you could look up. What it computes is
    ``torch.tanh``. So make a ``GraphModule`` of the root and the graph, and let ``inline_all`` of
    the lesson ``inlining`` replace all calls of modules. Then find the chain, and build its
    inverse.

    Args:
        model: A module or function of one input.

    In torch: no such function; the documentation has an example for functions of one argument.
    """
    tracer = Tracer()
    graph = tracer.trace(copy.copy(model))
    gm = inline_all(GraphModule(tracer.root, graph))
    return InverseBuilder(gm, find_chain(gm.graph)).build()


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
    """Register two functions of one argument as inverses of each other, both ways.

    A user may bring functions of their own, and some of them are called ``exp`` or ``log`` too:
    what is registered is the function, not its name. A later pair replaces an earlier one with the
    same function.
    """
    INVERSES[f] = g
    INVERSES[g] = f


def inverse_of(f: Function) -> Function:  # step 1
    """Return the registered inverse of a function.

    Raises:
        NotInvertibleError: There is none; the message names the function.
    """
    if f not in INVERSES:
        name = getattr(f, "__name__", f)
        raise NotInvertibleError(f"no inverse of {name} is known: register one with add_inverse")
    return INVERSES[f]


def find_chain(graph: Graph) -> list[Node]:  # step 2
    """Follow the one value of a graph from its placeholder to its output.

    In ``exp(tan(x))`` each value has one user, so there is one way to go. In ``x + exp(x)`` you
    would need the ``x`` that you are looking for, and in ``x * y`` two unknowns would have one
    equation. Such graphs are refused here, so that every later step is easy.

    Returns:
        The placeholder, the steps and the output node, in order, without the constants.

    Raises:
        NotInvertibleError: There isn't exactly one input, a value isn't used by exactly one
            node, or the output isn't one value that depends on the input. The message names one
            of the nodes that are the cause, and says why: ``cannot invert node x: its value is used
            by [exp, add], and must be used once``.

    >>> graph = Tracer().trace(lambda x: torch.exp(torch.tan(x)))
    >>> find_chain(graph)
    [x, tan, exp, output]
    """
    inputs = graph.find_nodes(op="placeholder")
    if len(inputs) != 1:
        raise _refusal([graph.output_node(), *inputs][-1], f"the model has {len(inputs)} inputs")
    chain = inputs
    while chain[-1].op != "output":
        users = list(chain[-1].users)
        if len(users) != 1:
            raise _refusal(chain[-1], f"its value is used by {users}, and must be used once")
        chain += users
    *_, result, output = chain
    if output.args != (result,):
        raise _refusal(output, f"it is {output.args[0]}, and must be one value")
    return chain


# For an operator and the place of the value: what undoes it, and the place of the result there.
UNDONE_BY = {  # reference only
    (operator.add, 0): (operator.sub, 0),  # y = x + c, so x = y - c
    (operator.add, 1): (operator.sub, 0),  # y = c + x, so x = y - c
    (operator.sub, 0): (operator.add, 0),  # y = x - c, so x = y + c
    (operator.sub, 1): (operator.sub, 1),  # y = c - x, so x = c - y
    (operator.mul, 0): (operator.truediv, 0),  # y = x * c, so x = y / c
    (operator.mul, 1): (operator.truediv, 0),  # y = c * x, so x = y / c
    (operator.truediv, 0): (operator.mul, 0),  # y = x / c, so x = y * c
    (operator.truediv, 1): (operator.truediv, 1),  # y = c / x, so x = c / y
}


def solve(
    function: Function, operands: Sequence[Any], place: int, result: Any
) -> tuple[Function, tuple[Any, ...]]:  # step 3
    """Solve ``result = function(*operands)`` for the operand at ``place``.

    ``y = x - 2`` means ``x = y + 2``, but ``y = 2 - x`` means ``x = 2 - y``. So for the four
    operators, the place of the unknown decides which operator undoes it, and where the result goes.
    A function of one operand has its inverse in the table of pairs; if it gets two, as in
    ``logit(x, eps)``, nothing is known about it.

    Args:
        function: A function of one operand, or ``operator.add``, ``sub``, ``mul`` or ``truediv``.
        operands: One or two numbers, strings or nodes. The one at ``place``, 0 or 1, is the
            unknown, so don't use it.
        place: The position of the unknown.
        result: What the function returns.

    Returns:
        The function to call, and its operands, to compute the unknown.

    Raises:
        NotInvertibleError: No inverse of ``function`` is known. The message names it.

    >>> solve(operator.sub, (2, "x"), 1, "y")
    (<built-in function sub>, (2, 'y'))
    """
    if len(operands) == 1:
        return inverse_of(function), (result,)
    if (function, place) not in UNDONE_BY:
        name = getattr(function, "__name__", function)
        raise NotInvertibleError(f"no inverse of {name} with these operands is known")
    inverse, result_place = UNDONE_BY[function, place]
    arguments = (result, operands[1 - place])
    return inverse, arguments if result_place == 0 else arguments[::-1]


class InverseBuilder:
    """Builds the inverse of a chain.

    Args:
        root: The module whose attributes the chain's graph reads.
        chain: The placeholder, the steps and the output node.

    Attributes:
        graph: The graph of the inverse, at first empty.
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

        The new placeholder holds what the model returned, and has the name of the old output node.
        The constants come next, because the steps use them. Then each step is undone: ``undo``
        takes the node that holds a step's result, and returns the one that holds its input.

        Raises:
            NotInvertibleError: A constant or a step is refused; the error names its node.
        """
        *steps, output = self.chain
        result = self.graph.placeholder(output.name)
        self.copy_constants()
        for step, source in pairwise(reversed(steps)):
            with _naming(step):
                result = self.undo(step, source, result)
        self.graph.output(result)
        return GraphModule(self.root, self.graph)

    def copy_constants(self) -> None:  # step 4
        """Copy every node that isn't in the chain into ``graph``, in order, and look up its value.

        ``graph.node_copy(node, copy_of)`` copies one node; ``copy_of(argument)`` returns the copy
        of each node in its arguments. Fill ``copies`` and ``values``. If ``value_of`` refuses a
        node, the error has to name it.
        """
        chain = set(self.chain)
        for node in self.chain[-1].graph.nodes:
            if node not in chain:
                with _naming(node):
                    self.values[node] = self.value_of(node)
                self.copies[node] = self.graph.node_copy(node, self.copies.__getitem__)

    def value_of(self, constant: Node) -> Any:  # step 4
        """Return what a ``get_attr`` node reads: the attribute of ``root`` at its target, a path.

        Raises:
            NotInvertibleError: The node is of another kind. A constant that ``forward`` computes
                may be random, or change the model: ``x + self.weight.mul_(2)``. So don't run it.
        """
        if constant.op != "get_attr":
            raise NotInvertibleError("a constant must be a number or an attribute of the model")
        return operator.attrgetter(str(constant.target))(self.root)

    def undo(self, step: Node, source: Node, result: Node) -> Node:  # step 5
        """Add to ``graph`` the node that computes a step's input from its result.

        In ``x * x``, which operand is the unknown? Both are, so refuse it. In all other steps there
        is one place for ``solve``. Constants of the old graph become their copies.

        Args:
            step: A node of the chain.
            source: The node before it in the chain.
            result: The node of ``graph`` that holds the step's result.

        Raises:
            NotInvertibleError: The input isn't exactly one of the operands, or ``solve`` or
                ``check_constant`` refuses the step.
        """
        function, operands = self.call_of(step)
        if operands.count(source) != 1:
            raise NotInvertibleError(f"{source} must be one of its operands, and only once")
        place = operands.index(source)
        inverse, arguments = solve(function, operands, place, result)
        for each in operands:
            if each is not source:
                self.check_constant(self.values.get(each, each), inverse)
        copied = tuple(self.copies.get(each, each) for each in arguments)
        return self.graph.call_function(inverse, copied)

    def call_of(self, step: Node) -> tuple[Function, tuple[Any, ...]]:  # step 5
        """Return the function that a step calls, and its operands.

        Raises:
            NotInvertibleError: It calls a method, or passes arguments by keyword; the stretch knows
                more spellings.
        """
        if isinstance(step.target, str) or step.kwargs:
            raise NotInvertibleError(f"no inverse of this {step.op} is known")
        return step.target, step.args

    def check_constant(self, value: Any, inverse: Function) -> None:  # step 4
        """Refuse a zero that multiplies or divides: ``0 * x`` is the same for every ``x``.

        A zero that is added is fine. A tensor is refused if any of its elements is zero. The step
        is undone by ``inverse``, one of the four operators.
        """
        if inverse in (operator.mul, operator.truediv) and torch.as_tensor(value == 0).any():
            raise NotInvertibleError("a factor is or contains zero, so the input is lost")


@contextlib.contextmanager
def _naming(node: Node) -> Iterator[None]:
    """Add the node to an error that only gives the reason."""
    try:
        yield
    except NotInvertibleError as error:
        raise _refusal(node, error) from None


def _refusal(node: Node, reason: object) -> NotInvertibleError:
    return NotInvertibleError(f"cannot invert node {node.name}: {reason}")
