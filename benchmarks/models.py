"""The models that are timed: torchvision's, and generated ones that stress one thing each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from tests.zoo import skeleton

# Long names are those of the papers; the keys are torchvision's.
CLASSIFIERS = {
    "ResNet18": "resnet18",
    "ResNet50": "resnet50",
    "ResNet152": "resnet152",
    "ViT-B/16": "vit_b_16",
    "ConvNeXt-L": "convnext_large",
    "MaxViT-T": "maxvit_t",
    "EfficientNetV2-L": "efficientnet_v2_l",
    "DenseNet201": "densenet201",
}


@cache
def classifier(name: str) -> nn.Module:
    """One of torchvision's models, its parameters without numbers: a trace needs none."""
    return skeleton(CLASSIFIERS[name])


def leaf_calls(size: int) -> nn.Module:
    """``size`` leaf modules, one after the other."""
    return nn.Sequential(*(nn.ReLU() for _ in range(size)))


def blocks_of_ten(size: int) -> nn.Module:
    """``size`` leaf modules in blocks of ten."""
    blocks = (nn.Sequential(*(nn.ReLU() for _ in range(10))) for _ in range(size // 10))
    return nn.Sequential(*blocks)


class _Shared(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.leaf, self.size = nn.ReLU(), size

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.size):
            x = self.leaf(x)
        return x


def shared_leaf(size: int) -> nn.Module:
    """One leaf module, called ``size`` times."""
    return _Shared(size)


class _Nested(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.inner = _Nested(depth - 1) if depth else nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + 1


def nested(depth: int) -> nn.Module:
    """A module in a module, ``depth`` times, each with an operation of its own."""
    return _Nested(depth)


class _Attributes(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.names = [f"weight{number}" for number in range(size)]
        for name in self.names:
            self.register_parameter(name, nn.Parameter(torch.zeros(1)))

    def forward(self, x: Tensor) -> Tensor:
        for name in self.names:
            x = x + getattr(self, name)
        return x


def attribute_parameters(size: int) -> nn.Module:
    """``size`` parameters, each read as an attribute: ``self.weight0``."""
    return _Attributes(size)


class Holding(nn.Module):
    """Tensors in a plain list: the traced code gets the tensors themselves, and no proxies.

    Args:
        tensors: What the list holds.
        register: Makes a tensor a parameter, a buffer, or nothing of the module.
    """

    def __init__(
        self, tensors: list[Tensor], register: Callable[[nn.Module, str, Tensor], object]
    ) -> None:
        super().__init__()
        self.tensors = tensors
        for number, tensor in enumerate(tensors):
            register(self, f"tensor{number}", tensor)

    def forward(self, x: Tensor) -> Tensor:
        for tensor in self.tensors:
            x = torch.add(x, tensor)
        return x


def raw_parameters(size: int) -> Holding:
    """``size`` parameters that reach the tracer as they are."""
    parameters: list[Tensor] = [nn.Parameter(torch.zeros(1)) for _ in range(size)]
    return Holding(parameters, nn.Module.register_parameter)  # type: ignore[arg-type]


def raw_buffers(size: int) -> Holding:
    """``size`` buffers that reach the tracer as they are."""
    return Holding([torch.zeros(1) for _ in range(size)], nn.Module.register_buffer)


def raw_constants(size: int) -> Holding:
    """``size`` tensors that belong to no module."""
    return Holding([torch.zeros(1) for _ in range(size)], lambda module, name, tensor: None)


def mlp(layers: int) -> nn.Module:
    """Linear layers of one neuron each: many modules, and nothing to compute."""
    return nn.Sequential(*(nn.Linear(1, 1) for _ in range(layers)))
