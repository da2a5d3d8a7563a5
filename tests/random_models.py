"""Random module trees, each from a seed: with features that hand-written models lack.

A tree shares modules, ties parameters, has buffers and constants, keeps its children in lists,
dicts and attributes, passes nested containers and keyword arguments, and decides by constants.
Wired modules pass values around, and ignore some.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests import zoo
from tests.suite import rest_slow
from tests.zoo import Specimen

WIDTH = 4


@dataclass
class Growth:
    """The modules and parameters that one tree shares, and its random choices."""

    chance: random.Random
    modules: list[nn.Module] = field(default_factory=list)
    parameters: list[nn.Parameter] = field(default_factory=list)

    def parameter(self) -> nn.Parameter:
        """A new parameter, or one that another module has as well."""
        if self.parameters and self.chance.random() < 0.3:
            return self.chance.choice(self.parameters)
        self.parameters.append(nn.Parameter(torch.rand(WIDTH)))
        return self.parameters[-1]

    def module(self, depth: int) -> nn.Module:
        """A new module, or one that has a parent already."""
        if self.modules and self.chance.random() < 0.25:
            return self.chance.choice(self.modules)
        grows = depth and self.chance.random() < 0.6
        module = Branch(self, depth - 1) if grows else self.chance.choice(LEAVES)()
        self.modules.append(module)
        return module


LEAVES: list[Callable[[], nn.Module]] = [
    lambda: nn.Linear(WIDTH, WIDTH),
    lambda: nn.LayerNorm(WIDTH),
    lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.Tanh()),
    lambda: nn.Sequential(),
    nn.ReLU,
    nn.Identity,
    lambda: nn.Dropout(0.5),
]


class Branch(nn.Module):
    """A module that takes a few steps, and calls its children in between."""

    def __init__(self, growth: Growth, depth: int) -> None:
        super().__init__()
        chance = growth.chance
        self.weight = growth.parameter()
        self.register_buffer("offset", torch.rand(WIDTH), persistent=chance.random() < 0.7)
        self.constant = torch.rand(WIDTH)
        self.listed = nn.ModuleList(growth.module(depth) for _ in range(chance.randint(0, 2)))
        self.named = nn.ModuleDict(
            {name: growth.module(depth) for name in "ab"[: chance.randint(0, 2)]}
        )
        self.single = growth.module(depth)
        self.steps = [chance.choice(STEPS) for _ in range(chance.randint(1, 4))]
        self.repeat = chance.randint(0, 2)
        self.gives_parts = chance.random() < 0.3

    def forward(self, x: Tensor, extras: dict | None = None, *, mode: str = "add"):
        for number, step in enumerate(self.steps):
            x = step(self, x, number)
        if extras is not None:
            x = x + extras["skip"] if mode == "add" else x * extras["parts"][1]
        for child in (*self.listed, *self.named.values(), *[self.single] * self.repeat):
            x = self.call(child, x, extras)
        return (x, {"offset": self.offset + x, "mode": mode}) if self.gives_parts else x

    def call(self, child: nn.Module, x: Tensor, extras: dict | None) -> Tensor:
        """Call a child as its class wants it, and take its result apart."""
        if not isinstance(child, Branch):
            return child(x)
        result = child(x, extras, mode="add" if self.repeat else "multiply")
        return result[0] + result[1]["offset"] if child.gives_parts else result


STEPS: list[Callable[[Branch, Tensor, int], Tensor]] = [
    lambda branch, x, number: x * branch.weight,
    lambda branch, x, number: x + branch.offset,
    lambda branch, x, number: torch.sub(x, other=branch.constant, alpha=number + 1),
    lambda branch, x, number: torch.stack([x, x.tanh()], dim=0)[number % 2],
    lambda branch, x, number: F.linear(x, branch.weight.expand(WIDTH, WIDTH)),
    lambda branch, x, number: torch.cat((x, x), dim=-1)[..., number : number + WIDTH],
    lambda branch, x, number: x.clamp(min=-1.0, max=1.0) if number else x.relu(),
    lambda branch, x, number: x - torch.full((WIDTH,), 0.5),
    lambda branch, x, number: x.softmax(dim=-1) if branch.repeat else -x,
    lambda branch, x, number: torch.split(x, 2, dim=-1)[0].repeat(1, 2),
]


class Tree(nn.Module):
    """The root: it hands containers and keyword arguments to a random branch."""

    def __init__(self, growth: Growth) -> None:
        super().__init__()
        self.branch = growth.module(depth=3)
        self.second = Branch(growth, depth=2)

    def forward(self, x: Tensor, y: Tensor):
        first = self.branch(x)
        first = first[0] if isinstance(first, tuple) else first
        return {"first": first, "both": [self.second(first, {"skip": y, "parts": (x, 0.5)})]}


def tree(seed: int) -> Specimen:
    """A random model in eval mode, and its inputs."""
    zoo.seed(seed)
    model = Tree(Growth(random.Random(seed))).eval()
    return Specimen(model, (torch.rand(2, WIDTH), torch.rand(2, WIDTH)), {})


class Wired(nn.Module):
    """Takes a few values and returns a few, with any wiring between: some are ignored.

    Its parts are called in any order and number, and count their calls in a buffer.
    """

    def __init__(self, chance: random.Random, depth: int) -> None:
        super().__init__()
        self.takes, self.gives = chance.randint(1, 3), chance.randint(1, 3)
        self.weight = nn.Parameter(torch.rand(WIDTH))
        self.register_buffer("calls", torch.zeros(()))
        number = chance.randint(1, 3) if depth else 0
        self.parts = nn.ModuleList(Wired(chance, depth - 1) for _ in range(number))
        self.steps: list[tuple[Wired | None, list[int]]] = []
        values = self.takes
        for _ in range(chance.randint(2, 4)):
            part = chance.choice([None, *self.parts])
            wanted = part.takes if part else 2
            self.steps.append((part, [chance.randrange(values) for _ in range(wanted)]))
            values += part.gives if part else 1
        self.returned = [chance.randrange(values) for _ in range(self.gives)]

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        self.calls.add_(1)
        for part, wanted in self.steps:
            chosen = [values[number] for number in wanted]
            values += part(*chosen) if part else (self.combined(*chosen),)
        return tuple(values[number] for number in self.returned)

    def combined(self, x: Tensor, y: Tensor) -> Tensor:
        return (x * self.weight + y * self.calls).tanh()


def wired(seed: int) -> Specimen:
    """A random model whose modules pass several values around, and its inputs."""
    zoo.seed(seed)
    model = Wired(random.Random(seed), depth=2)
    return Specimen(model, tuple(torch.rand(2, WIDTH) for _ in range(model.takes)), {})


def some_called(specimen: Specimen, seed: int) -> tuple[str, ...]:
    """The names of a few modules of a wired model that are called, but for the root."""
    model = copy.deepcopy(specimen.model)
    model(*specimen.inputs)
    called = [name for name, buffer in model.named_buffers() if buffer and name != "calls"]
    names = [name.removesuffix(".calls") for name in called]
    chance = random.Random(seed)
    return tuple(chance.sample(names, k=chance.randint(0, len(names))))


# The seed is in the name of the test that fails. The first few run always.
SEEDS = rest_slow(range(200), quick=5)
