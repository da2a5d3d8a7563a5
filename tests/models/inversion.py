"""Models to invert: chains, models with constants, models without an inverse; and the checks."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node

from tests.suite.chance import function_of, several, showing
from tests.suite.engine import symbolic_trace
from tests.suite.expect import holds, mismatch, numeric_difference, refuses
from tests.zoo import Model

# On these values every function of the tests has one inverse.
X = torch.linspace(0.1, 0.9, 5, dtype=torch.float64)


# --- checks ---------------------------------------------------------------------------------------


def undone(lesson, model: Callable, x: Tensor = X) -> None:
    result = model(x)
    computes(lesson.invert(model), result, x)


def computes(
    inverse: GraphModule, given: Tensor, expected: Tensor, *, roughly: bool = False
) -> None:
    """Fail unless a module returns these numbers; show what it computes."""
    got = inverse(given)
    if roughly:
        got, expected = got.float(), expected.float()
    if numeric_difference(got, expected):
        raise mismatch(
            expected=expected.detach(),
            got=f"{got.detach()}\nThe inverse is\n{inverse.code.strip()}",
            cause="",
            hint="solve y = f(x) for x on paper, and compare it with the inverse, line by line",
        )


def refused(lesson, model: Callable, *names: str) -> str:
    """Fail unless ``invert`` refuses the model and names one of these nodes; return its message."""
    return refused_by(lesson, lambda: lesson.invert(model), *names)


def refused_by(lesson, attempt: Callable[[], object], *names: str, hint: str = "") -> str:
    """Fail unless an attempt ends in ``NotInvertibleError`` with one of these names in it."""
    message = ""
    hint = hint or "refuse what can't be undone: a wrong answer is worse than none"
    with refuses(lesson.NotInvertibleError, hint=hint):
        try:
            attempt()
        except lesson.NotInvertibleError as error:
            message = str(error)
            raise
    is_named = not names or any(re.search(rf"\b{name}\b", message) for name in names)
    expected = f"an error that names {' or '.join(names)}"
    holds(is_named, expected, got=message, hint="say what can't be undone, and why")
    return message


def chain_of(graph: Graph) -> list[Node]:
    """The placeholder of a chain, its steps and the output node."""
    chain = graph.find_nodes(op="placeholder")
    while chain[-1].op != "output":
        chain += chain[-1].users
    return chain


def constants_of(builder) -> list[Node]:
    """The nodes that aren't in a builder's chain."""
    chain = set(builder.chain)
    return [node for node in builder.chain[0].graph.nodes if node not in chain]


def builder_for(lesson, model: Callable):
    """An ``InverseBuilder`` of the lesson for what torch records."""
    gm = symbolic_trace(model)
    return lesson.InverseBuilder(gm, chain_of(gm.graph))


# --- models ---------------------------------------------------------------------------------------


def seed_example(x: Tensor) -> Tensor:
    return torch.exp(torch.tan(x))


def numbers_of(model: nn.Module) -> dict[str, list]:
    return {name: tensor.tolist() for name, tensor in model.state_dict().items()}


class Affine(nn.Module):
    """Constants of each kind: two parameters, a buffer, a tensor, one that ``forward`` creates."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([1.3, -0.2, 0.1, 0.5, 1.0], dtype=torch.float64))
        self.shift = nn.Parameter(torch.rand(5, dtype=torch.float64))
        self.register_buffer("mean", torch.rand(5, dtype=torch.float64))
        self.unit = torch.tensor(2.0, dtype=torch.float64)

    def forward(self, x):
        x = (x - self.mean) * self.scale + self.shift
        return x / self.unit + torch.tensor(0.25, dtype=torch.float64)


class LogAffine(Affine):
    """Constants that functions, methods and a module compute from parameters."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 5, dtype=torch.float64)

    def forward(self, x):
        return x * torch.exp(self.scale).add(0.5) + self.linear(self.linear.bias)


def with_state(function: Callable[[Any, Tensor], Tensor]) -> Model:
    """A function of a model, which has a parameter, a buffer and a dropout, and of the value."""
    return Model(
        function,
        weight=nn.Parameter(torch.tensor([1.0, 2.0])),
        buffer=nn.Buffer(torch.tensor([3.0, 4.0])),
        dropout=nn.Dropout(),
    )


# --- random chains --------------------------------------------------------------------------------

# Functions with a factor and a term that bring their values back to between 0.1 and 0.9.
STEPS = {
    "sin": (1, 0.05),
    "cos": (1, -0.1),
    "tan": (0.6, 0.1),
    "exp": (0.5, -0.4),
    "arcsin": (0.6, 0.1),
    "arccos": (0.5, 0.1),
    "arctan": (1, 0.1),
    "log": (-0.3, 0.1),
}
SPELLINGS = [
    "{factor} * {y} + {term}",
    "{term} + {y} * {factor}",
    "{y} / (1 / {factor}) - -{term}",
    "{term} - -{factor} / (1 / {y})",
]


def random_chain(chance: Random, call: str) -> str:
    """The text of up to ten calls, such as ``torch.{}(x)``, and operations with constants."""
    lines = ["def forward(x):"]
    for _ in several(chance, 10):
        name, spelling = chance.choice([*STEPS]), chance.choice(SPELLINGS)
        factor, term = STEPS[name]
        lines.append("    x = " + spelling.format(y=call.format(name), factor=factor, term=term))
    return "\n".join([*lines, "    return x"])


def undone_twice(lesson, source: str) -> None:
    """Fail unless a program's inverse undoes it, and the inverse of that is the program again."""
    chain = function_of(source, torch=torch)
    with showing(source):
        inverse = lesson.invert(chain)
        computes(inverse, chain(X), X, roughly=True)
        computes(lesson.invert(inverse), X, chain(X), roughly=True)


# --- what can't be inverted -----------------------------------------------------------------------


# For each model the nodes that the error may name.
Cases = dict[str, tuple[Callable, tuple[str, ...]]]


def unused(x, y):
    return torch.exp(x)


NO_CHAIN: Cases = {
    "a value used twice, then joined": (lambda x: x + torch.exp(x), ("x", "exp", "add")),
    "a value used for nothing besides": (lambda x: (torch.sin(x), torch.exp(x))[1], ("x", "sin")),
    "an unused input": (unused, ("x", "y", "output")),
    "two inputs": (lambda x, y: x + y, ("x", "y", "add")),
    "an output that is a tuple": (lambda x: (torch.exp(x),), ("output",)),
    "an output that is a constant": (lambda x: 3, ("output", "x")),
    "no input": (lambda: 3, ("output", "input")),
}
NO_STEP: Cases = {
    "a value used twice by one node": (lambda x: x * x, ("x", "mul")),
    "an unknown function": (lambda x: torch.relu(x), ("relu",)),
    "an unknown method": (lambda x: x.cumsum(0), ("cumsum",)),
    "a value in a list": (lambda x: torch.cat([x]), ("cat",)),
    "zero as a factor": (lambda x: 0 * x, ("mul",)),
    "zero as a dividend": (lambda x: 0 / x, ("truediv",)),
    "zero in a tensor": (lambda x: x * torch.tensor([1.0, 0.0]), ("mul", "_tensor_constant0")),
    "a square": (lambda x: x**2, ("pow", "pow_1")),
    "rounding by keyword": (lambda x: torch.div(x, 2, rounding_mode="floor"), ("div",)),
    "a cast to integers": (lambda x: x.int(), ("int", "int_1")),
    "a keyword that changes the meaning": (lambda x: torch.add(x, 2, alpha=0), ("add",)),
    "an operation in place": (lambda x: x.mul_(2), ("mul_",)),
    "a known function with more arguments": (lambda x: torch.logit(x, 0.4), ("logit",)),
    "a known function with a keyword": (lambda x: torch.exp(x, out=torch.zeros(2)), ("exp",)),
    "a module of several operands": (nn.Sequential(nn.Linear(2, 2)), ("_0", "0", "linear")),
}
