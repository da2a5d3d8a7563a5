"""Your unflattener gives an exported program its modules back."""

import torch
from torch import nn

from lessons.unflatten import unflatten

model = nn.Sequential(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 2)).eval()
x = torch.rand(3, 4)
program = torch.export.export(model, (x,))
print("exported:", *[node.name for node in program.graph.nodes if node.op == "call_function"])
module = unflatten(program)
print("unflattened:", *[name for name, _ in module.named_modules() if name])
print("the same numbers:", torch.equal(module(x), model(x)))
