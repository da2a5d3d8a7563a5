"""The models the suites trace: small adversarial ones, and torchvision's.

Tracing writes constants onto a model, so every entry is a function that builds a fresh one.
``SMALL`` covers each opcode and each kind of argument. ``classifier(name)`` is one of
torchvision's, imported only when it is asked for.
"""

from __future__ import annotations

import copy
import enum
import inspect
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function


@dataclass(frozen=True)
class Specimen:
    """A model in eval mode and the arguments to call it with."""

    model: nn.Module
    inputs: tuple
    kwargs: dict

    def eager(self) -> object:
        """Return the model's result."""
        return self.model(*self.inputs, **self.kwargs)


class Model(nn.Module):
    """A model with these parts, whose forward is ``function(model, x)``."""

    def __init__(self, function: Callable, **parts: object):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.function(self, x)


def seed(number: int) -> None:
    """Seed the CPU's generator; ``torch.manual_seed`` takes 5 ms more, for devices not there."""
    torch.default_generator.manual_seed(number)


SMALL: dict[str, Callable[[], Specimen]] = {}


def specimen(*shapes: tuple[int, ...], **kwargs: object) -> Callable[[type], type]:
    """Enter a module class in ``SMALL``, with seeded inputs of these shapes."""

    def enter(module: type[nn.Module]) -> type[nn.Module]:
        def build() -> Specimen:
            seed(0)
            inputs = tuple(torch.rand(shape) for shape in shapes)
            return Specimen(module().eval(), inputs, dict(kwargs))

        SMALL[module.__name__] = build
        return module

    return enter


class Runs(nn.Module):
    """A model without parts, whose forward is ``function(*inputs)``."""

    def __init__(self, function: Callable):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


class Fails(nn.Module):
    def forward(self, x):
        raise LookupError("on purpose")


class Survives(nn.Module):
    """Goes on after its child has failed."""

    def __init__(self):
        super().__init__()
        self.child = Fails()

    def forward(self, x):
        try:
            x = self.child(x)
        except LookupError:
            x = torch.exp(x)
        return x


class Pair(NamedTuple):
    left: object
    right: object


@dataclass
class Box:
    inside: object
    label: str = "box"


class Colour(enum.Enum):
    RED = "red"


# One value of each kind that a graph can hold as it is.
PLAIN = {
    "an_int": 1,
    "a_float": 0.5,
    "a_bool": True,
    "a_complex": 1j,
    "a_string": "text",
    "nothing": None,
    "an_ellipsis": ...,
    "a_dtype": torch.float64,
    "a_device": torch.device("cpu"),
    "a_layout": torch.strided,
    "a_memory_format": torch.preserve_format,
    "an_operator": torch.ops.aten.relu.default,
    "an_enum": Colour.RED,
    "a_tuple": (1, (2, "three")),
    "a_list": [1, [2, "three"]],
    "a_dict": {"one": 1, "two": {"three": 3}},
    "a_slice": slice(0, None, 2),
    "a_range": range(1, 7, 2),
}


def around(value: object) -> dict[str, object]:
    """The containers that can have a value inside, with this one inside them."""
    return {
        "tuple_with": (0, (value,)),
        "list_with": [0, [value]],
        "dict_with": {"zero": 0, "value": {"inner": value}},
        "slice_with": slice(None, value),
    }


@specimen((2, 4))
class LeafCalls(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.linear(x))


@specimen((2, 4))
class EveryOpcode(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4))
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x) * self.weight).sum(dim=-1)


@specimen((2, 4), (2, 4))
class KeywordArguments(nn.Module):
    def __init__(self):
        super().__init__()
        self.bilinear = nn.Bilinear(4, 4, 3)

    def forward(self, x, y):
        z = self.bilinear(input1=x, input2=y)
        return torch.clamp(input=z, min=-1.0, max=1.0).sum(dim=1, keepdim=True)


@specimen((2, 4), (2, 4))
class NestedContainers(nn.Module):
    """Proxies inside lists, tuples, dicts and slices, at several depths."""

    def forward(self, x, y):
        both = torch.cat([x, torch.stack((y, x), dim=0).sum(0)], dim=1)
        return {"whole": both, "parts": [both[:, 1:3], (both[..., -1], both[0:1])]}


@specimen((3, 4))
class SliceByProxy(nn.Module):
    def forward(self, x):
        return x[: x.size(0) - 1, None]


@specimen((2, 4))
class NamedTuples(nn.Module):
    """A named tuple is built by a node of its own."""

    def forward(self, x):
        pair = Pair(x + 1, right=[x, 2])
        return torch.relu(pair.left), pair


@specimen((2, 4))
class Dataclasses(nn.Module):
    """A dataclass as an argument is built by a node of its own."""

    def forward(self, x):
        return operator.getitem([Box(x.neg()), x], 1)


def keep(x, *values, **options):
    """Return the first argument. A tracer records the call, whatever it is given."""
    if has_torch_function((x,)):
        return handle_torch_function(keep, (x,), x, *values, **options)
    return x


class Keep(nn.Identity):
    """A leaf that does the same: it is said to be torch's."""

    __module__ = "torch.nn.modules.keep"

    def forward(self, x, *values, **options):
        return x


@specimen((2, 4))
class AnythingToACall(nn.Module):
    """A value of every kind as an argument of a function and of a module."""

    def __init__(self):
        super().__init__()
        self.keep = Keep()

    def forward(self, x):
        size = torch.Size([2, 4])
        y = keep(x, *PLAIN.values(), *around(x.size(0)).values(), size)
        y = keep(y, **PLAIN, **around(y.size(1)), size=size) + x
        y = self.keep(y, *PLAIN.values(), *around(x.size(0)).values(), size)
        return self.keep(y, **PLAIN, **around(y.size(1)), size=size)


@specimen((2, 4), template="{} and {a_slice}")
class AnythingToAMethod(nn.Module):
    """A value of every kind as an argument of a method: text can be filled with anything."""

    def forward(self, x, template):
        filled = template.format(*PLAIN.values(), *around(x.size(0)).values(), **PLAIN)
        size = torch.Size([2, 4])
        y = x + x.new_zeros(size) + x.new_ones(size=size)
        return y, template.format(filled, **PLAIN, **around(x.size(1)))


@specimen((2, 4))
class AnyDefault(nn.Module):
    def forward(
        self,
        x,
        an_int=1,
        a_float=0.5,
        a_bool=True,
        a_complex=1j,
        a_string="text",
        nothing=None,
        an_ellipsis=...,
        a_dtype=torch.float64,
        a_device=torch.device("cpu"),
        a_layout=torch.strided,
        a_memory_format=torch.preserve_format,
        an_operator=torch.ops.aten.relu.default,
        an_enum=Colour.RED,
        a_tuple=(1, (2, "three")),
        a_list=[1, [2, "three"]],
        a_dict={"one": 1, "two": {"three": 3}},
        a_slice=slice(0, None, 2),
        a_range=range(1, 7, 2),
    ):
        numbers = (an_int, a_float, a_bool, a_complex, an_enum, a_tuple, a_list, a_dict)
        options = (a_dtype, a_device, a_layout, a_memory_format, an_operator, a_slice, a_range)
        return x + an_int, numbers, options, a_string, nothing, an_ellipsis


@specimen((2, 4))
class AnyOutput(nn.Module):
    def forward(self, x):
        return x, tuple(PLAIN.values()), tuple(around(x.size(0)).values())


@specimen((2, 4))
class Constants(nn.Module):
    """Tensors that aren't parameters: an attribute, one made in forward, one used twice."""

    def __init__(self):
        super().__init__()
        self.attribute = torch.rand(4)

    def forward(self, x):
        made = torch.ones(4)
        return x * self.attribute + made - made * torch.full((4,), 2.0)


@specimen((2, 4))
class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.rand(4))
        self.register_buffer("shift", torch.rand(4), persistent=False)

    def forward(self, x):
        return x * self.scale + self.shift


@specimen((2, 4))
class ParametersWithoutForward(nn.Module):
    """Parameters of a child that is never called, one of them twice, and a tied one."""

    def __init__(self):
        super().__init__()
        self.child = nn.LayerNorm(4)
        self.tied = self.child.bias
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        x = x * self.child.weight + self.tied + self.child.bias
        return F.linear(x, self.linear.weight, self.linear.bias) + self.child.weight


@specimen((2, 4))
class SharedModules(nn.Module):
    """One module under two names, called twice; the first registered name is its path."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.again = self.first
        self.blocks = nn.ModuleList([nn.Sequential(self.first, nn.ReLU()), nn.Identity()])

    def forward(self, x):
        for block in self.blocks:
            x = block(self.again(x))
        return self.first(x)


class Block(nn.Module):
    def __init__(self, depth: int):
        super().__init__()
        self.inner = Block(depth - 1) if depth else nn.Tanh()
        self.register_parameter("gain", nn.Parameter(torch.rand(4)))

    def forward(self, x, *, flip: bool = False):
        x = self.inner(x) * self.gain
        return -x if flip else x


@specimen((2, 4))
class DeepNesting(nn.Module):
    """Modules inside modules; the same block called with two concrete keyword arguments."""

    def __init__(self):
        super().__init__()
        self.block = Block(3)

    def forward(self, x):
        return self.block(x, flip=True) + self.block(x)


@specimen((2, 4), (2, 4), (2, 4))
class Variadic(nn.Module):
    """``*args`` and ``**kwargs`` become one placeholder each."""

    def forward(self, x, *args, **kwargs):
        return x + args[0] * args[1], kwargs


@specimen((2, 4), y=torch.ones(4))
class KeywordOnly(nn.Module):
    # No annotation of the result: torch loses it where it has to copy the function, and a tracer
    # that keeps it is right too.
    def forward(self, x: Tensor, *, y: Tensor, scale: float = 2.0):
        return x * y * scale


@specimen((2, 4))
class PositionalOnly(nn.Module):
    """Positional-only parameters and defaults of several types."""

    def forward(self, x, /, bias=1, *, name=None, flags=(True, 0.5)):
        return (x + bias, name, flags)


@specimen((2, 4))
class InPlace(nn.Module):
    """In-place methods and operators, and a result that is the input."""

    def __init__(self):
        super().__init__()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = x.clone()
        y += 1
        y.mul_(2)
        return self.relu(y)


@specimen((2, 4))
class Operators(nn.Module):
    def forward(self, x):
        y = 2 - x @ x.t() + (-x).abs().sum() ** 2 / 3
        return (y > 0) & ~(1 // (y + 5) < 0), 2**y % 3


@specimen((2, 4))
class Attributes(nn.Module):
    """Attributes of a proxy: read as a value, and called as a method."""

    def forward(self, x):
        return x.T.reshape(x.shape[1], -1), x.ndim, getattr(x, "dtype")


@specimen((2, 3))
class Unpacking(nn.Module):
    """A proxy taken apart: by as many names as it is asked for."""

    def forward(self, x):
        first, second = torch.split(x, 1, dim=0)
        a, (b, c) = first.squeeze(0)[0], torch.chunk(second, 2, dim=1)
        return a + b + c


@specimen((2, 4))
class ReturnsStructure(nn.Module):
    """The output holds plain values, the input and the same node twice."""

    def forward(self, x):
        y = x.relu()
        return (y, [x, {"again": y, "number": 3, "nothing": None}], "text", math.pi)


@specimen((2, 4))
class UnusedResults(nn.Module):
    def __init__(self):
        super().__init__()
        self.idle = nn.Linear(4, 4)
        self.used = nn.Linear(4, 2)

    def forward(self, x):
        self.idle(x)
        torch.sin(x)
        return self.used(x)


@specimen()
class NoInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3))

    def forward(self):
        return self.weight * 2


@specimen((2, 4))
class EmptyForward(nn.Module):
    def forward(self, x):
        return x


@specimen((2, 4, 8))
class Attention(nn.Module):
    """A transformer layer's parts, written out."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(8), dim=-1)
        return x + F.dropout(weights @ v, p=0.1, training=self.training)


@specimen((2, 3, 8, 8))
class SmallResNet(nn.Module):
    """A residual block with batch norm and a downsampling branch."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.downsample = nn.Sequential(nn.Conv2d(3, 4, 1, stride=2), nn.BatchNorm2d(4))
        self.relu = nn.ReLU(inplace=True)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x))) + self.downsample(x)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(self.relu(y), 1), 1))


def resnet18() -> Specimen:
    """torchvision's ResNet18 with seeded weights, in eval mode, and one small image."""
    return copy.deepcopy(_resnet18())  # to fill its weights takes much longer


@cache
def _resnet18() -> Specimen:
    return classifier("resnet18", side=64)


def classifier(name: str, side: int = 224) -> Specimen:
    """One of torchvision's classification models with seeded weights, in eval mode."""
    seed(0)
    return Specimen(torchvision_model(name), (torch.rand(1, 3, side, side),), {})


def torchvision_model(name: str, **options: object) -> nn.Module:
    """One of torchvision's models, of any kind, in eval mode: nothing is downloaded."""
    from kata.torchvision_compat import torchvision

    builder = torchvision.models.get_model_builder(name)
    without = {"weights", "weights_backbone"} & inspect.signature(builder).parameters.keys()
    return builder(**dict.fromkeys(without), **UNINITIALISED.get(name, {}), **options).eval()


def torchvision_models(*kinds: str) -> list[str]:
    """The names of torchvision's models: of ``classification``, ``segmentation``, and so on."""
    from kata.torchvision_compat import torchvision

    models = torchvision.models
    homes = [models if kind == "classification" else getattr(models, kind) for kind in kinds]
    return [name for home in homes for name in models.list_models(module=home)]


def skeleton(name: str) -> nn.Module:
    """One of torchvision's models, its parameters without numbers: seconds, not minutes."""
    with WithoutNumbers():
        return torchvision_model(name)


class WithoutNumbers(TorchFunctionMode):
    """Put uninitialised tensors, of which parameters are made, on the meta device.

    The meta device for everything would stop models that compute their widths with tensors.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        device = {"device": "meta"} if func is torch.empty else {}
        return func(*args, **(kwargs or {}) | device)


# Their own initialisation takes seconds and draws no other graph.
UNINITIALISED = {"googlenet": {"init_weights": False}, "inception_v3": {"init_weights": False}}
