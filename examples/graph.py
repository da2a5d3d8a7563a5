"""Your proxy records into your graph, and each node knows who uses it."""

import torch

from lessons.graph import Graph
from lessons.proxy import Proxy

graph = Graph()
x = Proxy(graph.placeholder("x"))
graph.output((torch.relu(x) + 2 * x).node)
for node in graph.nodes:
    print(f"{node.format_node():42}used by {[*node.users]}")
