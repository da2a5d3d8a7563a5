"""Invert modules that know their own inverse.

A module with a method ``inverse`` is one step of a chain, whatever it does inside: ``invert``
doesn't look into it, and calls ``inverse`` in its place. Coupling layers are made for this. Each
changes one half of its input by an amount that depends on the other half alone, so that the amount
can be found again and taken away. What computes the amount needs no inverse.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class AdditiveCoupling(nn.Module):
    """Add to the second half of the input a function of the first half.

    The halves are those along ``dim``: ``(a, b)`` becomes ``(a, b + f(a))``.

    torch has no such layer; it is the building block of NICE and RealNVP.

    Args:
        f: computes the amount to add, in the shape of a half.
        dim: the dimension that is cut in two.

    >>> layer = AdditiveCoupling(nn.Linear(2, 2))
    >>> x = torch.randn(3, 4)
    >>> torch.allclose(layer.inverse(layer(x)), x, atol=1e-6)
    True
    """

    def __init__(self, f: nn.Module, dim: int = 1) -> None:  # given
        super().__init__()
        self.f = f
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Add ``f`` of the first half to the second half.

        Args:
            x: a tensor whose size along ``dim`` is even.

        Returns:
            A tensor of the same shape.
        """
        first, second = torch.tensor_split(x, 2, self.dim)
        return torch.cat((first, second + self.f(first)), self.dim)

    def inverse(self, y: Tensor) -> Tensor:
        """Find the ``x`` for which ``forward`` gives ``y``.

        Args:
            y: what ``forward`` gives.

        Returns:
            What it was given.
        """
        first, second = torch.tensor_split(y, 2, self.dim)
        return torch.cat((first, second - self.f(first)), self.dim)


class RevBlock(nn.Module):
    """Change both halves of the input, each by a function of the other.

    ``(a, b)`` becomes ``(c, d)`` with ``c = a + f(b)`` and ``d = b + g(c)``.

    torch has no such layer; it is the block of reversible residual networks, which keep no
    activations for the backward pass.

    Args:
        f: computes what is added to the first half.
        g: computes what is added to the second half.
        dim: the dimension that is cut in two.

    >>> block = RevBlock(nn.Linear(2, 2), nn.Linear(2, 2))
    >>> x = torch.randn(3, 4)
    >>> torch.allclose(block.inverse(block(x)), x, atol=1e-6)
    True
    """

    def __init__(self, f: nn.Module, g: nn.Module, dim: int = 1) -> None:  # given
        super().__init__()
        self.f = f
        self.g = g
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Change the first half by ``f`` of the second, then the second by ``g`` of the new first.

        Args:
            x: a tensor whose size along ``dim`` is even.

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
            y: what ``forward`` gives.

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
        module: a module with a method ``inverse``; its parameters are shared.

    >>> layer = AdditiveCoupling(nn.Linear(2, 2))
    >>> y = torch.randn(3, 4)
    >>> torch.equal(Inverse(layer)(y), layer.inverse(y))
    True
    """

    def __init__(self, module: nn.Module) -> None:  # given
        super().__init__()
        self.module = module

    def forward(self, y: Tensor) -> Tensor:  # given
        x: Tensor = self.module.inverse(y)  # type: ignore[operator]
        return x

    def inverse(self, x: Tensor) -> Tensor:  # given
        y: Tensor = self.module(x)
        return y
