"""Models for ``inlining``: what callees get, hold, return, and refuse; and how they are traced."""

from __future__ import annotations

from collections import namedtuple

import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node

from tests.suite import same_numbers
from tests.suite.engine import graph_module, symbolic_trace

NUMBERS_HINT = "print `gm.code` before and after"
X = torch.linspace(-1, 1, 8).reshape(2, 4)
BATCH = torch.linspace(-2, 3, 24).reshape(6, 4)


class LeavesGiven(torch.fx.Tracer):
    """Records modules of the given classes as one call."""

    def __init__(self, *types: type[nn.Module]):
        super().__init__()
        self.types = types

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, self.types) or super().is_leaf_module(m, module_qualified_name)


class Parent(nn.Module):
    """One child, called on the input, and an addition."""

    def __init__(self, child: nn.Module):
        super().__init__()
        self.child = child

    def forward(self, x):
        return self.child(x) + 1.0


def traced(model: nn.Module) -> GraphModule:
    """Trace a model; its class's own child classes are leaves, and so is every Sequential."""
    tracer = LeavesGiven(*{type(module) for module in model.modules()} - {type(model)})
    return graph_module(model, tracer.trace(model))


def targets(graph: Graph, op: str = "call_module") -> list[str]:
    return [str(node.target) for node in graph.nodes if node.op == op]


def same_as(gm: GraphModule, model: nn.Module, *inputs: torch.Tensor) -> None:
    """Fail unless the edited module is sound and gives the model's numbers."""
    gm.graph.lint()
    same_numbers(gm(*inputs), model(*inputs), hint=NUMBERS_HINT)


def parent_of(child: nn.Module) -> tuple[Parent, GraphModule]:
    torch.manual_seed(0)
    model = Parent(child)
    return model, traced(model)


class Twice(nn.Module):
    """One layer called at two places, once by keyword."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.linear(input=self.relu(self.linear(x)))


class Pair(nn.Module):
    def forward(self, x):
        return x + 1, [x - 1, 5]


Point = namedtuple("Point", ["x", "y"])


class MakesAPoint(nn.Module):
    def forward(self, x):
        return Point(x + 1, x - 1)


class UsesAPair(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair = Pair()

    def forward(self, x):
        first, rest = self.pair(x)
        return first * rest[0] + rest[1]


class PassesAPairOn(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair = Pair()

    def forward(self, x):
        return self.pair(x)


class UsesAPoint(nn.Module):
    def __init__(self):
        super().__init__()
        self.make = MakesAPoint()

    def forward(self, x):
        point = self.make(x)
        return point.x * point[1]


class Optional(nn.Module):
    """Branches on whether an argument is given: known while tracing."""

    def forward(self, x, y=None, *, scale: float = 2.0):
        return x * scale if y is None else x + y


class UsesOptional(nn.Module):
    def __init__(self):
        super().__init__()
        self.optional = Optional()

    def forward(self, x):
        return self.optional(self.optional(x, scale=3.0), y=x)


class Branching(nn.Module):
    """Branches on a value: not known while tracing. The operations before it are recorded."""

    def forward(self, x):
        y = torch.exp(x)
        return y if y.sum() > 0 else -y


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


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), Stateful()))

    def forward(self, x):
        return self.block(x)


class Passes(nn.Module):
    """Returns its input: the result of the call is the node of an earlier one."""

    def forward(self, x):
        return x


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.passes = nn.ReLU(), Passes()

    def forward(self, x):
        return self.passes(self.passes(self.first(x)))


class Nothing(nn.Module):
    def forward(self, x):
        return None


class IgnoresAResult(nn.Module):
    def __init__(self):
        super().__init__()
        self.nothing = Nothing()

    def forward(self, x):
        self.nothing(x)
        return x, self.nothing(x)


class Picks(nn.Module):
    """Picks something from what its child returns."""

    def __init__(self, child: nn.Module, index: object):
        super().__init__()
        self.child, self.index = child, index

    def forward(self, x):
        return self.child(x)[self.index]


class ReturnsWhatIsGiven(nn.Module):
    def __init__(self, result: object):
        super().__init__()
        self.result = result

    def forward(self, x):
        results = {tuple: (x, x + 1), dict: {"plus": x + 1}, range: range(3)}
        return results[self.result]


def outcome(model: nn.Module) -> object:
    try:
        return [each.tolist() for each in model(X)]
    except LookupError as error:
        return type(error)


class PassesAPairByKeyword(nn.Module):
    def __init__(self):
        super().__init__()
        self.pair = ReturnsWhatIsGiven(tuple)

    def forward(self, x):
        return torch.cat(tensors=self.pair(x), dim=0)


class IsInterrupted(nn.Module):
    def forward(self, x):
        torch.exp(x)
        raise KeyboardInterrupt


def batch_norm(training: bool, **options: object) -> tuple[nn.Module, GraphModule]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(4, **options)).train(training)
    model[0].weight.data.uniform_() if model[0].affine else None
    return model, symbolic_trace(model)


class HoldsAPlainTensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.plain = torch.rand(4)

    def forward(self, x):
        return x + self.plain


def node_of(gm: GraphModule, name: str) -> Node:
    return next(node for node in gm.graph.nodes if node.name == name)


@torch.fx.wrap
def rows_of(x):
    return len(x)


class CallsAWrapped(nn.Module):
    def forward(self, x):
        return x * rows_of(x)
