"""Your pipeline trains a model whose stages work at the same time, each in a thread of its own."""

import torch
from torch import nn

from lessons.schedule import evenly, one_f_one_b, simulate, stages_of, train_step
from lessons.tracer import symbolic_trace


class Training(nn.Sequential):
    """Returns its loss."""

    def forward(self, x, target):
        return nn.functional.cross_entropy(super().forward(x), target)


torch.manual_seed(0)
model = Training(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))
gm = symbolic_trace(model)
stages = stages_of(gm, evenly(gm.graph, 2))
batch = torch.rand(32, 16), torch.arange(32) % 4
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
print(simulate(one_f_one_b(2, 4)))
for step in range(3):
    loss = train_step(gm, stages, batch, order=one_f_one_b, microbatches=4)
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {loss:.4f}")
