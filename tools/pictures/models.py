"""The small models that the pictures show, most of them from the lessons' pages."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Residual(nn.Module):
    """A convolution with its norm, and the way around them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(8)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        y = self.bn(y)
        return self.relu(y + x)


class Gate(nn.Module):
    """A layer that decides how much of its input goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.full((4,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x).sigmoid()
        return torch.mul(x, y) * self.scale


class Scaled(nn.Module):
    """A layer in a container, a parameter, and the way around them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4))
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.layers(x) * self.scale) + x


class InTwoLines(Scaled):
    """The same without the way around, in two lines."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers(x)
        return y * self.scale


class TwoViews(nn.Module):
    """Two inputs that meet at the end, and a layer that both use."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(3, 4))
        self.encoder = nn.Linear(4, 5)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        first = self.encoder(left * self.scale).softmax(dim=-1)
        second = self.encoder(right).softmax(dim=-1)
        return torch.maximum(first, second)


class Layer(nn.Module):
    """A layer with an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).relu()


class Exported(nn.Module):
    """A block, and a head that adds the input to what the block gives."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Layer()
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.block(x) + x)


class Trained(Exported):
    """The same, with a loss."""

    def forward(self, x: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        y = self.head(self.block(x) + x)
        return nn.functional.mse_loss(y, target)


class Shuffled(nn.Module):
    """Four layers that aren't used in the order of their names."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(4, 4) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.c(self.a(self.b(self.d(x))))


class Activated(nn.Module):
    """A layer and an activation, with the way around."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.linear(x) + x)


class Nested(nn.Module):
    """A block and a head, with a function between."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Activated()
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.flatten(self.block(x), 1))


class Block(nn.Module):
    """A convolution and an activation, with the way around."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.act(self.conv(x))


class Net(nn.Module):
    """Blocks, and a second name for the activation of the first of them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.body = nn.Sequential(Block(), Block())
        self.act = self.body.get_submodule("0.act")

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.body(self.stem(x)))


class Values(nn.Module):
    """One of each kind of thing that a node reads from its root."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("mean", torch.zeros(2))
        self.table = torch.ones(2)


def scaled(x, y: float = 2.0, *rest, scale=1, **options):  # type: ignore[no-untyped-def] # noqa: ANN001,ANN002,ANN003,ANN201
    """Have a parameter of every kind, most of them without an annotation."""
    return torch.mul(x, y)
