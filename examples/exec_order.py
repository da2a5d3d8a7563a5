"""Record a model, plan what to gather ahead, and tell FSDP2: alone, or in torchrun's processes."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from lessons.exec_order import ExecOrderTracer, apply_prefetch, prefetch_plan, units_in_order
from lessons.tracer import Tracer


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))

    def forward(self, x):
        for number in (2, 0, 3, 1):
            x = torch.relu(self.layers[number](x))
        return x


alone = {} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
dist.init_process_group("gloo", **alone)
torch.manual_seed(0)
net, x = Net(), torch.rand(8, 64)
names, expected = {module: name for name, module in net.named_modules()}, net(x)

tracer, watcher = Tracer(), ExecOrderTracer()
with watcher.patch_tracer(tracer, net):
    tracer.trace(net)
order = units_in_order(watcher.exec_info.module_forward_order, set(net.layers))
sizes = {unit: sum(each.nbytes for each in unit.parameters()) for unit in order}
plan = prefetch_plan(order, sizes, budget=2 * max(sizes.values()))

mesh = init_device_mesh("cpu", (dist.get_world_size(),))
for layer in (*net.layers, net):
    fully_shard(layer, mesh=mesh)
apply_prefetch(plan)
result = net(x)
result.sum().backward()

if dist.get_rank() == 0:
    print("registered:", *[names[each] for each in net.layers])
    print("used:      ", *[names[each] for each in order])
    for fetch in plan:
        print(f"while {names[fetch.during]} runs, gather {names[fetch.module]}")
    print("the same result as before:", torch.equal(result, expected))
dist.barrier()
dist.destroy_process_group()
