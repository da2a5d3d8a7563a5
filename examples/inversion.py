"""Your transform runs a function backwards: it undoes each step, the last one first."""

import torch

from lessons.inversion import invert
from lessons.tracer import symbolic_trace


def function(x):
    return torch.exp(2 * x + 1)


forward = symbolic_trace(function)
backward = invert(forward)
print(f"forward:{forward.code}\nbackward:{backward.code}")
x = torch.tensor([0.0, 0.5, 1.0])
print(x.tolist(), "→", forward(x).tolist(), "→", backward(forward(x)).tolist())
