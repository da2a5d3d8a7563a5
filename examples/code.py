"""Your proxy, graph and code turn a function into a graph, print it as Python, and run it."""

import torch
from torch import nn

from lessons.code import GraphModule
from lessons.graph import Graph
from lessons.proxy import Proxy


def function(x, y):
    return torch.relu(x) + 2 * y


graph = Graph()
x, y = (Proxy(graph.placeholder(name)) for name in ("x", "y"))
graph.output(function(x, y).node)
module = GraphModule(nn.Module(), graph)
print(module.code)
print("forward(-1, 10) =", module(torch.tensor(-1), torch.tensor(10)).item())
