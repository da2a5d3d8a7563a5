"""``Interpreter`` and ``Transformer`` on graph modules of our own, and on those of dynamo."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import fx, nn

from solutions import tracer as core
from solutions.code import GraphModule
from solutions.graph import Graph
from solutions.interpreter import Interpreter, Transformer
from solutions.stretch import tracer as stretch
from solutions.stretch.code import LazyGraphModule


def test_an_interpreter_runs_and_records_our_own_graph_modules() -> None:
    graph = Graph()
    graph.output(graph.call_function(torch.relu, (graph.placeholder("x"),)))
    module, x = GraphModule(nn.Module(), graph, "Relu"), torch.tensor([-1.0, 2.0])
    transformed = Transformer(module).transform()
    assert type(transformed).__bases__ == (GraphModule,)
    assert type(transformed.graph) is Graph
    assert Interpreter(transformed).run(x).equal(x.relu())


def test_an_interpreter_runs_and_records_what_dynamo_hands_to_a_backend() -> None:
    def backend(module: Any, inputs: Any) -> Any:
        transformed = Transformer(module).transform()
        assert isinstance(transformed, fx.GraphModule)
        assert isinstance(transformed.graph, fx.Graph)
        return Interpreter(transformed).run

    x = torch.rand(3)
    assert torch.compile(lambda x: torch.relu(x).sum(), backend=backend)(x).equal(x.relu().sum())


@pytest.mark.parametrize("trace", [core.symbolic_trace, stretch.symbolic_trace, fx.symbolic_trace])
def test_a_module_that_compiles_late_is_traced_by_every_tracer(trace: Any) -> None:
    graph = fx.symbolic_trace(lambda x, y=2: torch.relu(x) * y).graph
    traced = trace(LazyGraphModule({}, graph))
    assert [node.name for node in traced.graph.nodes] == [node.name for node in graph.nodes]
    assert traced(torch.tensor([-1.0, 3.0])).tolist() == [0, 6]
