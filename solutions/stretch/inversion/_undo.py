"""Undo one step of a chain."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, Interpreter, Node

from ._chain import Chain, knows_its_inverse, not_invertible
from .inverses import NotInvertibleError, inverse_of
from .modules import Inverse

# For an operator and the place of the value in it: what undoes it, and the place of the result.
UNDONE_BY: dict[tuple[Callable[..., Any], int], tuple[Callable[..., Any], int]] = {
    (operator.add, 0): (operator.sub, 0),  # y = x + c, so x = y - c
    (operator.add, 1): (operator.sub, 0),  # y = c + x, so x = y - c
    (operator.sub, 0): (operator.add, 0),  # y = x - c, so x = y + c
    (operator.sub, 1): (operator.sub, 1),  # y = c - x, so x = c - y
    (operator.mul, 0): (operator.truediv, 0),  # y = x * c, so x = y / c
    (operator.mul, 1): (operator.truediv, 0),  # y = c * x, so x = y / c
    (operator.truediv, 0): (operator.mul, 0),  # y = x / c, so x = y * c
    (operator.truediv, 1): (operator.truediv, 1),  # y = c / x, so x = c / y
}

OPERATORS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.add: operator.add,
    torch.sub: operator.sub,
    torch.subtract: operator.sub,
    torch.mul: operator.mul,
    torch.multiply: operator.mul,
    torch.div: operator.truediv,
    torch.divide: operator.truediv,
    torch.true_divide: operator.truediv,
}


class Undoing:
    """The graph of the inverse while it is built, and the attributes it refers to."""

    def __init__(self, chain: Chain, graph: Graph) -> None:
        self.chain = chain
        self.graph = graph
        self.attributes: dict[str, Any] = {}
        self.copies: dict[Node, Node] = {}
        self.interpreter = Interpreter(chain.root, False, chain.graph)

    def copy_constants(self) -> None:
        """Take over the nodes that depend on no input, and find out their values."""
        for node in self.chain.constants:
            if node.op == "call_module":
                raise not_invertible(node, "a constant that a module computes can't be taken over")
            self.copies[node] = self.graph.node_copy(node, self.copies.__getitem__)
            with torch.no_grad():
                self.interpreter.env[node] = self.interpreter.run_node(node)
            if node.op == "get_attr":
                self.attributes[str(node.target)] = self.interpreter.env[node]

    def undo(self, step: Node, value: Node) -> Node:
        """Add to the graph what gives the step's input for its result."""
        if step.op == "call_module":
            return self.undo_module(step, value)
        function, operands = function_of(step), operands_of(step)
        if self.chain.input_of(step) not in operands:
            raise not_invertible(step, "its input is inside a structure")
        if len(operands) == 1:
            return self.undo_function(step, function, value)
        return self.undo_operator(step, function, operands, value)

    def undo_module(self, step: Node, value: Node) -> Node:
        path = str(step.target)
        module = self.chain.root.get_submodule(path)
        if not knows_its_inverse(module) or len(step.args) != 1 or step.kwargs:
            kind = type(module).__name__
            raise not_invertible(step, f"{kind} has no method `inverse` that takes its result")
        self.attributes[path] = module.module if isinstance(module, Inverse) else Inverse(module)
        return self.graph.call_module(path, (value,))

    def undo_function(self, step: Node, function: Callable[..., Any], value: Node) -> Node:
        try:
            return self.graph.call_function(inverse_of(function), (value,))
        except NotInvertibleError as error:
            raise not_invertible(step, str(error)) from None

    def undo_operator(
        self, step: Node, function: Callable[..., Any], operands: list[Any], value: Node
    ) -> Node:
        place = operands.index(self.chain.input_of(step))
        rule = UNDONE_BY.get((OPERATORS.get(function, function), place))
        if rule is None or len(operands) != 2:
            raise not_invertible(step, "no inverse with these arguments is known")
        constant = operands[1 - place]
        if constant is operands[place]:
            raise not_invertible(step, f"it uses its input {constant.name!r} twice")
        inverse, result_place = rule
        self.check_constant(step, constant, inverse in (operator.truediv, operator.mul))
        constant = self.copies[constant] if isinstance(constant, Node) else constant
        arguments = (value, constant) if result_place == 0 else (constant, value)
        return self.graph.call_function(inverse, arguments)

    def check_constant(self, step: Node, constant: Any, is_factor: bool) -> None:
        """Refuse what can't be taken away again: factors of zero, infinities, no numbers at all."""
        is_node = isinstance(constant, Node)
        size = magnitude(self.interpreter.env[constant] if is_node else constant)
        if size is None:
            raise not_invertible(step, f"{constant!r} is no number")
        if is_factor and not torch.as_tensor(size != 0).all():
            raise not_invertible(step, "its constant is or contains zero, which forgets the input")
        if not torch.as_tensor(size < math.inf).all():
            raise not_invertible(step, "its constant isn't finite, which forgets the input")


def function_of(step: Node) -> Any:
    """The function that a step calls; a method stands for torch's function of the same name."""
    if step.op == "call_function":
        return step.target
    function = getattr(torch, str(step.target), None)
    if not callable(function):
        raise not_invertible(step, f"no inverse of the method {step.target} is known")
    return function


def operands_of(step: Node) -> list[Any]:
    """What a step works on, in order, also where it's passed by keyword."""
    others = sorted(step.kwargs.keys() - {"input", "other"})
    if others:
        raise not_invertible(step, f"no inverse with the argument {others[0]!r} is known")
    by_keyword = [step.kwargs[name] for name in ("input", "other") if name in step.kwargs]
    return [*step.args, *by_keyword]


def magnitude(constant: Any) -> Any:
    """The absolute value of a number or tensor, and ``None`` of anything else."""
    is_number = isinstance(constant, int | float | complex | torch.Tensor)
    return abs(constant * 1) if is_number else None  # `* 1`: a boolean tensor has no `abs`
