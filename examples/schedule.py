"""Your pipeline trains a model cut into two stages, each in a process of its own."""

import torch
from torch import nn

from lessons.schedule import cut_evenly, one_f_one_b, simulate, train_step
from lessons.tracer import symbolic_trace

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))
model = cut_evenly(symbolic_trace(net), 2)
x, y = torch.rand(32, 16), torch.arange(32) % 4
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
print(simulate(one_f_one_b(2, 4)))
for step in range(3):
    loss, gradients = train_step(
        model,
        (x,),
        y,
        nn.functional.cross_entropy,
        order=one_f_one_b,
        microbatches=4,
        world_size=2,
    )
    for name, parameter in model.named_parameters():
        parameter.grad = gradients[name]
    optimizer.step()
    print(f"step {step}: loss {loss:.4f}")
