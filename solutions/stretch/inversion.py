"""Unlike the core: methods and keywords, and constants that are computed.

- A step may be a method, have arguments by keyword, or be one of torch's functions for operators:
  ``x.sub(2)``, ``torch.sub(x, other=2)``. More functions have an inverse.
- Constants may be computed from attributes, also by modules: ``x * torch.exp(self.log_scale)``.
  They are computed once while inverting, to find zeros. So an operation that changes a tensor or
  draws random numbers is refused before it runs.
- A module of the model that can't be recorded, such as ``nn.GRU``, has no inverse either, and is
  refused by the same error.
"""

from __future__ import annotations

import copy
import operator
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._python_dispatch import TorchDispatchMode

from .. import inversion as core
from ..inversion import Function, NotInvertibleError, add_inverse, find_chain, inverse_of
from .inlining import inline_all
from .tracer import Tracer

__all__ = ["NotInvertibleError", "add_inverse", "inverse_of", "invert"]


def invert(model: nn.Module | Function) -> GraphModule:
    """Return the module that computes the input of ``model`` from its output.

    Each step must be a function with a registered inverse, or ``+``, ``-``, ``*`` or ``/`` of the
    value and a constant. A constant is a finite number, an attribute of the model, or computed
    from those without changing a tensor or drawing random numbers.

    The result is right where the model can be undone: ``sin`` maps many values to one, and its
    inverse returns the one between -π/2 and π/2. A constant must not enlarge the value by
    broadcasting.

    >>> print(invert(lambda x: x.tan().exp().mul(2)).code.strip())
    def forward(self, output):
        truediv = output / 2;  output = None
        log = torch.log(truediv);  truediv = None
        arctan = torch.arctan(log);  log = None
        return arctan
    """
    tracer = Tracer()
    with RefuseSideEffects():
        graph = tracer.trace(copy.copy(model))
    root = tracer.root
    if graph.find_nodes(op="call_module"):  # without any, this would only print code, twice
        try:
            root = inline_all(GraphModule(root, graph))
        except ValueError as error:  # also a `TraceError`
            raise NotInvertibleError(str(error)) from error
    return InverseBuilder(root, find_chain(graph)).build()


for pair in (
    (torch.exp2, torch.log2),
    (torch.expm1, torch.log1p),
    (torch.sinh, torch.arcsinh),
    (torch.tanh, torch.arctanh),
    (torch.special.expit, torch.special.logit),
    (torch.sigmoid, torch.logit),
    (torch.erf, torch.erfinv),
    (torch.deg2rad, torch.rad2deg),
    (torch.reciprocal, torch.reciprocal),
    (torch.neg, torch.neg),
    (operator.neg, operator.neg),
):
    add_inverse(*pair)

# Aliases; their inverses are the inverses of the functions that they are aliases of.
core.INVERSES.update(
    {
        torch.asin: torch.sin,
        torch.acos: torch.cos,
        torch.atan: torch.tan,
        torch.asinh: torch.sinh,
        torch.atanh: torch.tanh,
    }
)

OPERATORS: dict[Function, Function] = {
    torch.add: operator.add,
    torch.sub: operator.sub,
    torch.mul: operator.mul,
    torch.div: operator.truediv,
}


class InverseBuilder(core.InverseBuilder):
    """Build the inverse of a chain whose steps may be methods and whose constants are computed."""

    def __init__(self, root: nn.Module, chain: list[Node]) -> None:
        super().__init__(root, chain)
        self.interpreter = Interpreter(root, False, chain[0].graph)
        self.interpreter.env = self.values

    def build(self) -> GraphModule:
        """Undo the steps, the last one first; the module is torch's, as its graph is."""
        return GraphModule(super().build(), self.graph)

    def value_of(self, constant: Node) -> Any:
        """Return a constant's value: an attribute, or the result of computing with attributes.

        Raises:
            NotInvertibleError: Computing it would change a tensor or draw random numbers.
        """
        with torch.no_grad(), RefuseSideEffects():
            return self.interpreter.run_node(constant)

    def call_of(self, step: Node) -> tuple[Function, tuple[Any, ...]]:
        """Return the function that a step calls, and its operands, in a normal form.

        A method becomes torch's function of the same name, and ``torch.add`` etc. an operator.
        Operands by keyword (``input``, ``other``) become positional.
        """
        function: Any = step.target
        if isinstance(function, str):
            function = getattr(torch, function, None)
        keywords = dict(step.kwargs)
        operands = (
            *step.args,
            *(keywords.pop(each) for each in ("input", "other") if each in keywords),
        )
        if not callable(function) or keywords or len(operands) > 2:
            name = getattr(step.target, "__name__", step.target)
            raise NotInvertibleError(f"no inverse of {name} with these arguments is known")
        return OPERATORS.get(function, function), operands

    def check_constant(self, value: Any, inverse: Function) -> None:
        """Refuse zeros as factors, and any constant that isn't a finite number or tensor."""
        is_number = isinstance(value, int | float | complex | Tensor)
        if not is_number or torch.as_tensor(value * 0 != 0).any():  # infinity * 0 is NaN
            raise NotInvertibleError("its constant isn't a finite number")
        super().check_constant(value, inverse)


class RefuseSideEffects(TorchDispatchMode):
    """Refuse each operation that changes a tensor or draws random numbers, before it runs.

    There are many ways to write one: ``x.mul_(2)``, ``x += 1``, ``out=x``, ``inplace=True``,
    dropout. Each arrives here as an operator of ``torch.ops.aten``, whose schema tells what it
    changes.

    >>> with RefuseSideEffects():
    ...     torch.zeros(2).add_(1)
    Traceback (most recent call last):
    ...
    solutions.inversion.NotInvertibleError: aten::add_.Tensor changes a tensor or is random
    """

    def __torch_dispatch__(
        self, op: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation, or refuse it."""
        if op._schema.is_mutable or torch.Tag.nondeterministic_seeded in op.tags:
            raise NotInvertibleError(f"{op.name()} changes a tensor or is random")
        return op(*args, **(kwargs or {}))
