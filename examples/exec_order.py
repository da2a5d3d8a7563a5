"""Your tracer writes down in which order a model uses its modules, whatever their registration."""

import torch
from torch import nn

from lessons.exec_order import ExecOrderTracer
from lessons.tracer import Tracer


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.last, self.first = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


net, tracer, order = Net(), Tracer(), ExecOrderTracer()
names = {module: name or "Net" for name, module in net.named_modules()}
with order.patch_tracer(tracer, net):
    tracer.trace(net)
print("registered:", *[names[each] for each in net.modules()])
print("used:      ", *[names[each] for each in order.exec_info.module_forward_order])
