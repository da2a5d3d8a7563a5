"""Models for ``inlining``: what callees get, hold, return, and refuse; and how they are traced."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable

import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node

from tests.suite import same_numbers
from tests.suite.engine import graph_module, symbolic_trace
from tests.zoo import Runs

NUMBERS_HINT = "print `gm.code` before and after"
X = torch.linspace(-1, 1, 8).reshape(2, 4)
BATCH = torch.linspace(-2, 3, 24).reshape(6, 4)


# --- tracing and checking -------------------------------------------------------------------------


class LeavesGiven(torch.fx.Tracer):
    """Records modules of the given classes as one call."""

    def __init__(self, *types: type[nn.Module]):
        super().__init__()
        self.types = types

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, self.types) or super().is_leaf_module(m, module_qualified_name)


def traced(model: nn.Module) -> GraphModule:
    """Trace a model; its class's own child classes are leaves, and so is every Sequential."""
    tracer = LeavesGiven(*{type(module) for module in model.modules()} - {type(model)})
    return graph_module(model, tracer.trace(model))


def targets(graph: Graph, op: str = "call_module") -> list[str]:
    return [str(node.target) for node in graph.nodes if node.op == op]


def node_of(gm: GraphModule, name: str) -> Node:
    return next(node for node in gm.graph.nodes if node.name == name)


def same_as(gm: GraphModule, model: nn.Module, *inputs: torch.Tensor) -> None:
    """Fail unless the edited module is sound and gives the model's numbers."""
    gm.graph.lint()
    same_numbers(gm(*inputs), model(*inputs), hint=NUMBERS_HINT)


# --- models ---------------------------------------------------------------------------------------


class Parent(nn.Module):
    """A child, and what is computed with it."""

    def __init__(self, child: nn.Module, compute: Callable = lambda child, x: child(x) + 1.0):
        super().__init__()
        self.child, self.compute = child, compute

    def forward(self, x):
        return self.compute(self.child, x)


def parent_of(child: nn.Module, *compute: Callable) -> tuple[Parent, GraphModule]:
    torch.manual_seed(0)
    model = Parent(child, *compute)
    return model, traced(model)


Point = namedtuple("Point", ["x", "y"])


def unpacked(child, x):
    first, rest = child(x)
    return first * rest[0] + rest[1]


# Functions that return something else than a tensor, and what is computed with it.
RESULTS: dict[str, tuple[Callable, Callable]] = {
    "a pair, unpacked": (lambda x: (x + 1, [x - 1, 5]), unpacked),
    "a pair, passed on": (lambda x: (x + 1, [x - 1, 5]), lambda child, x: child(x)),
    "None, and unused": (lambda x: None, lambda child, x: (child(x), x, child(x))[1:]),
    "a named tuple": (lambda x: Point(x + 1, x - 1), lambda child, x: child(x).x * child(x)[1]),
}


def branches(x):
    """Can't be traced: it branches on a value. The operation before it is recorded."""
    y = torch.exp(x)
    return y if y.sum() > 0 else -y


def is_interrupted(x):
    torch.exp(x)
    raise KeyboardInterrupt


class Checked(nn.Module):
    """Checks its input's dimensions, as a norm layer does."""

    def __init__(self, compute: Callable):
        super().__init__()
        self.compute = compute

    def _check_input_dim(self, x):
        if x.dim() != 2:
            raise ValueError("expected 2D input")

    def forward(self, x):
        self._check_input_dim(x)
        return self.compute(x)


class Stateful(nn.Module):
    """A parameter, a buffer, a plain tensor, a constant made on the way, and a child."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4))
        self.register_buffer("offset", torch.rand(4))
        self.plain = torch.rand(4)
        self.linear = nn.Linear(4, 4)
        self.unused = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x * self.weight + self.offset) * self.plain + torch.tensor(2.0)


def deep() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), Stateful()))


def picks(result: type, index: object) -> Parent:
    """A model that picks something from the container that its child returns."""
    make = (lambda x: {"plus": x + 1}) if result is dict else lambda x: result((x, x + 1))
    return Parent(Runs(make), lambda child, x: child(x)[index])


def batch_norm(training: bool, **options: object) -> tuple[nn.Module, GraphModule]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(4, **options)).train(training)
    model[0].weight.data.uniform_() if model[0].affine else None
    return model, symbolic_trace(model)
