"""The models that are timed: torchvision's, and generated ones that stress one thing each."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from tests.zoo import skeleton

# Long names are those of the papers; the values are torchvision's.
CLASSIFIERS = {
    "ResNet18": "resnet18",
    "ResNet152": "resnet152",
    "ViT-B/16": "vit_b_16",
    "ConvNeXt-L": "convnext_large",
}


@cache
def classifier(name: str) -> nn.Module:
    """One of torchvision's models, its parameters without numbers: a trace needs none."""
    return skeleton(CLASSIFIERS[name])


def leaf_calls(size: int) -> nn.Module:
    """``size`` leaf modules, one after the other."""
    return nn.Sequential(*(nn.ReLU() for _ in range(size)))


class Holding(nn.Module):
    """``size`` parameters, each an attribute and in a plain list.

    Args:
        size: How many.
        as_attributes: Whether they are read as attributes, ``self.weight0``. From the list the
            traced code gets the parameters themselves, and no proxies.
    """

    def __init__(self, size: int, *, as_attributes: bool = False) -> None:
        super().__init__()
        self.tensors = [nn.Parameter(torch.zeros(1)) for _ in range(size)]
        self.names = [f"weight{number}" for number in range(size)]
        self.as_attributes = as_attributes
        for name, parameter in zip(self.names, self.tensors, strict=True):
            self.register_parameter(name, parameter)

    def forward(self, x: Tensor) -> Tensor:
        for name, tensor in zip(self.names, self.tensors, strict=True):
            x = x + getattr(self, name) if self.as_attributes else torch.add(x, tensor)
        return x
