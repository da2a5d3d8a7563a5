"""Your tracers decide what is recorded: here, the module each operation of ResNet18 came from."""

from itertools import islice

from kata.torchvision_compat import torchvision
from lessons.custom_tracers import ModulePathTracer

tracer = ModulePathTracer()
graph = tracer.trace(torchvision.models.resnet18())
for node in islice(graph.nodes, 1, 12):
    print(f"{node.name:22}{tracer.node_to_originating_module.get(node) or 'ResNet'}")
