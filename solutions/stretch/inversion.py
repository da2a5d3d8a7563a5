"""Unlike the core: methods and keywords, constants that are computed, modules as steps.

- A step may be a method, have arguments by keyword, or be one of torch's functions for operators:
  ``x.sub(2)``, ``torch.sub(x, other=2)``. More functions have an inverse.
- Constants may be computed from attributes, also by modules: ``x * torch.exp(self.log_scale)``.
  They are computed once while inverting, to find zeros. So nothing may run that changes a tensor or
  draws random numbers.
- Functions written in Python become a step once they are registered.
- A module with a method ``inverse`` is one step. Coupling layers have one: each adds to one half of
  its input an amount that depends on the other half alone, so the amount can be computed again and
  subtracted. What computes the amount needs no inverse.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Interpreter, Node, Proxy
from torch.utils._python_dispatch import TorchDispatchMode

from .. import inversion as core
from ..inversion import Function, NotInvertibleError, find_chain, inverse_of, solve
from .tracer import Tracer

__all__ = [
    "AdditiveCoupling",
    "Inverse",
    "InverseBuilder",
    "NotInvertibleError",
    "RevBlock",
    "add_inverse",
    "find_chain",
    "inverse_of",
    "invert",
    "solve",
]


def invert(model: nn.Module | Function) -> GraphModule:
    """Return the module that computes the input of ``model`` from its output.

    Each step must be one of these:

    - a function with a registered inverse, also as a method or operator;
    - ``+``, ``-``, ``*`` or ``/`` of the value and a constant: a number, an attribute of the
      model, or what is computed from those without changing a tensor or drawing random numbers;
      all of it finite, and no zero in a factor or dividend;
    - a module with a method ``inverse``, or ``nn.Sigmoid``, ``nn.Tanh``, ``nn.Identity``.

    The result is right where the model can be undone: ``sin`` maps many values to one, and its
    inverse returns the one between -π/2 and π/2. A constant must not enlarge the value by
    broadcasting.

    In torch: no such function; its documentation has an example for functions of one argument.

    Args:
        model: A module or function of one input. It isn't changed; its parameters are shared with
            the inverse.

    Returns:
        A new module; its placeholder has the name of the model's output node.

    Raises:
        NotInvertibleError: The graph isn't a chain of such steps; the message names a node and the
            reason.

    >>> print(invert(lambda x: x.tan().exp().mul(2)).code.strip())
    def forward(self, output):
        truediv = output / 2;  output = None
        log = torch.log(truediv);  truediv = None
        arctan = torch.arctan(log);  log = None
        return arctan
    """
    tracer = StepTracer(autowrap_functions=_python_functions())
    with RefuseSideEffects():
        graph = tracer.trace(shallow_copy(model) if isinstance(model, nn.Module) else model)
    return InverseBuilder(tracer.root, find_chain(graph)).build()


def add_inverse(f: Function, g: Function) -> None:
    """Register two functions of one argument as inverses of each other.

    A later pair replaces an earlier one with the same function.

    Raises:
        TypeError: One of them can't be called.

    >>> add_inverse(torch.special.ndtri, torch.special.ndtr)
    >>> inverse_of(torch.special.ndtr) is torch.special.ndtri
    True
    """
    for function in (f, g):
        if not callable(function):
            raise TypeError(f"an inverse pair needs two functions, and {function!r} isn't one")
    core.add_inverse(f, g)


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
    (torch.negative, torch.negative),
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
    torch.subtract: operator.sub,
    torch.mul: operator.mul,
    torch.multiply: operator.mul,
    torch.div: operator.truediv,
    torch.divide: operator.truediv,
    torch.true_divide: operator.truediv,
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
}


class InverseBuilder(core.InverseBuilder):
    """Build the inverse of a chain, whose steps may be methods and modules."""

    def __init__(self, root: nn.Module, chain: list[Node]) -> None:
        super().__init__(root, chain)
        self.interpreter = Interpreter(root, False, chain[0].graph)
        self.interpreter.env = self.values

    def build(self) -> GraphModule:
        """Undo the steps, the last one first; the module is torch's, as its graph is."""
        return GraphModule(super().build(), self.graph)

    def value_of(self, constant: Node) -> Any:
        """Return a constant's value: an attribute, or what is computed from attributes.

        Raises:
            NotInvertibleError: Computing it would change a tensor or draw random numbers.
        """
        with torch.no_grad(), RefuseSideEffects():
            return self.interpreter.run_node(constant)

    def undo(self, step: Node, source: Node, result: Node) -> Node:
        """Add to ``graph`` the node that computes a step's input from its result."""
        if step.op != "call_module":
            return super().undo(step, source, result)
        module = self.root.get_submodule(str(step.target))
        if not knows_its_inverse(module) or step.args != (source,) or step.kwargs:
            kind = type(module).__name__
            raise NotInvertibleError(f"{kind} has no method `inverse` that takes its result")
        name = f"{step.target}_inverse".replace(".", "_")
        while hasattr(self.root, name):
            name += "_"
        # Not registered as a submodule: the registry is the model's own.
        vars(self.root)[name] = module.module if isinstance(module, Inverse) else Inverse(module)
        return self.graph.call_module(name, (result,))

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
        """Refuse infinities, zeros as factors, and what is neither a number nor a tensor."""
        if not isinstance(value, int | float | complex | Tensor):
            raise NotInvertibleError(f"its constant {value!r} isn't a number")
        size: Any = abs(value * 1)  # `* 1`: a boolean tensor has no `abs`
        if not torch.as_tensor(size < math.inf).all():
            raise NotInvertibleError("its constant isn't finite, so the input is lost")
        super().check_constant(value, inverse)


class StepTracer(Tracer):
    """Record modules that have an inverse as one step; trace through those that call a function."""

    def proxy(self, node: Node) -> Proxy:
        """Return a proxy that records in-place operators."""
        return InPlaceProxy(node, self)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether the module is one step."""
        if isinstance(m, nn.Sigmoid | nn.Tanh | nn.Identity):
            return False
        return knows_its_inverse(m) or super().is_leaf_module(m, module_qualified_name)


class InPlaceProxy(Proxy):
    """Records ``w += 1`` as it is. torch's proxy records ``w + 1``, which changes no tensor."""


def _in_place(operation: Function) -> Function:
    def method(self: Proxy, other: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", operation, (self, other), {})

    return method


for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    setattr(InPlaceProxy, f"__i{name}__", _in_place(getattr(operator, f"i{name}")))


class RefuseSideEffects(TorchDispatchMode):
    """Refuse each operation that changes a tensor or draws random numbers, before it runs.

    There are many ways to write one: ``x.mul_(2)``, ``x += 1``, ``out=x``, ``inplace=True``,
    dropout. Each arrives here as an operator of ``torch.ops.aten``, whose schema says what it does.

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
        # Its schema doesn't say so, but batch norm in training updates the running statistics.
        is_training = op is torch.ops.aten.native_batch_norm.default and args[5]
        is_random = torch.Tag.nondeterministic_seeded in op.tags
        if op._schema.is_mutable or is_random or is_training:
            raise NotInvertibleError(f"{op.name()} changes a tensor or is random")
        return op(*args, **(kwargs or {}))


def shallow_copy(model: nn.Module) -> nn.Module:
    """Return a copy that shares all values: what ``forward`` or the trace assigns stays on it."""
    copied: nn.Module = object.__new__(type(model))
    for name, value in vars(model).items():
        vars(copied)[name] = dict(value) if isinstance(value, dict) else value
    return copied


def knows_its_inverse(module: nn.Module) -> bool:
    """Whether a module has a method ``inverse``."""
    return callable(getattr(module, "inverse", None))


def _python_functions() -> tuple[Callable[..., Any], ...]:
    return tuple(each for each in core.INVERSES if isinstance(each, FunctionType))


class AdditiveCoupling(nn.Module):
    """Add to the second half of the input a function of the first half.

    The halves are those along ``dim``: ``(a, b)`` becomes ``(a, b + f(a))``.

    In torch: no such layer; it is the building block of NICE and RealNVP.

    Args:
        f: Computes the amount to add, in the shape of a half.
        dim: The dimension that is cut in two.

    >>> layer = AdditiveCoupling(nn.Linear(2, 2))
    >>> x = torch.randn(3, 4)
    >>> torch.allclose(layer.inverse(layer(x)), x, atol=1e-6)
    True
    """

    def __init__(self, f: nn.Module, dim: int = 1) -> None:
        super().__init__()
        self.f = f
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Add ``f`` of the first half to the second half.

        Args:
            x: A tensor whose size along ``dim`` is even.

        Returns:
            A tensor of the same shape.
        """
        first, second = torch.tensor_split(x, 2, self.dim)
        return torch.cat((first, second + self.f(first)), self.dim)

    def inverse(self, y: Tensor) -> Tensor:
        """Find the ``x`` for which ``forward`` gives ``y``.

        Args:
            y: What ``forward`` gives.

        Returns:
            What it was given.
        """
        first, second = torch.tensor_split(y, 2, self.dim)
        return torch.cat((first, second - self.f(first)), self.dim)


class RevBlock(nn.Module):
    """Change both halves of the input, each by a function of the other.

    ``(a, b)`` becomes ``(c, d)`` with ``c = a + f(b)`` and ``d = b + g(c)``.

    In torch: no such layer; it is the block of reversible residual networks, which keep no
    activations for the backward pass.

    Args:
        f: Computes what is added to the first half.
        g: Computes what is added to the second half.
        dim: The dimension that is cut in two.

    >>> block = RevBlock(nn.Linear(2, 2), nn.Linear(2, 2))
    >>> x = torch.randn(3, 4)
    >>> torch.allclose(block.inverse(block(x)), x, atol=1e-6)
    True
    """

    def __init__(self, f: nn.Module, g: nn.Module, dim: int = 1) -> None:
        super().__init__()
        self.f = f
        self.g = g
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Change the first half by ``f`` of the second, then the second by ``g`` of the new first.

        Args:
            x: A tensor whose size along ``dim`` is even.

        Returns:
            A tensor of the same shape.
        """
        first, second = torch.tensor_split(x, 2, self.dim)
        first = first + self.f(second)
        second = second + self.g(first)
        return torch.cat((first, second), self.dim)

    def inverse(self, y: Tensor) -> Tensor:
        """Find the ``x`` for which ``forward`` gives ``y``.

        Args:
            y: What ``forward`` gives.

        Returns:
            What it was given.
        """
        first, second = torch.tensor_split(y, 2, self.dim)
        second = second - self.g(first)
        first = first - self.f(second)
        return torch.cat((first, second), self.dim)


class Inverse(nn.Module):
    """Run a module's ``inverse`` as ``forward``, and its ``forward`` as ``inverse``.

    Args:
        module: A module with a method ``inverse``; its parameters are shared.

    >>> layer = AdditiveCoupling(nn.Linear(2, 2))
    >>> y = torch.randn(3, 4)
    >>> torch.equal(Inverse(layer)(y), layer.inverse(y))
    True
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, y: Tensor) -> Tensor:
        x: Tensor = self.module.inverse(y)  # type: ignore[operator]
        return x

    def inverse(self, x: Tensor) -> Tensor:
        y: Tensor = self.module(x)
        return y
