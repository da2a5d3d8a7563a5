"""Your interpreter runs the graph that you recorded, and finds the shape of every value."""

import torch
from torch import nn

from lessons.code import GraphModule
from lessons.graph import Graph
from lessons.interpreter import ShapeProp
from lessons.proxy import Proxy


def function(x, y):
    return torch.relu(x @ y).sum(dim=0)


graph = Graph()
x, y = (Proxy(graph.placeholder(name)) for name in ("x", "y"))
graph.output(function(x, y).node)
ShapeProp(GraphModule(nn.Module(), graph)).propagate(torch.ones(2, 3), torch.ones(3, 4))
for node in graph.nodes:
    print(f"{node.name:10}{list(node.meta['tensor_meta'].shape)}")
