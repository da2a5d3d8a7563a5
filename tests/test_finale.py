"""The finale: your pieces are one engine, with no object of ``torch.fx`` in it.

Your tracer records with your proxies into your graph, your code generator prints the graph, and
your interpreter runs it. The fixture ``lesson`` has the names of all these lessons.
"""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from torch import fx, nn

from tests import zoo
from tests.models.interpreter import plain
from tests.suite import equal, same_graph, same_numbers
from tests.suite.versions import that_run

PIECES = ("Proxy", "Attribute", "TracerBase", "Tracer")
PIECES += ("Node", "Graph", "GraphModule", "Interpreter")
MADE = (fx.Proxy, fx.Node, fx.Graph, fx.GraphModule, fx.Interpreter)


# What the documentation of torch.fx prints.
CALL = """
opcode       name    target    args     kwargs
-----------  ------  --------  -------  --------
placeholder  x       x         ()       {}
call_module  relu    relu      (x,)     {}
output       output  output    (relu,)  {}
"""


class M1(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(x)


class M(M1):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(x) + 1.0


@pytest.mark.parametrize("name", PIECES)
def test_a_piece_is_yours(lesson, name):
    classes = getattr(lesson, name).__mro__
    equal(
        [each.__qualname__ for each in classes if each.__module__.startswith("torch.fx")],
        [],
        hint="import each piece from the lesson that writes it: `from .graph import Graph`",
    )


def test_resnet18_is_recorded_node_for_node_and_printed_as_by_torch(lesson):
    ours, theirs = (
        each(zoo.resnet18().model) for each in (lesson.symbolic_trace, fx.symbolic_trace)
    )
    same_graph(ours.graph, theirs.graph)
    equal(ours.code.strip(), theirs.code.strip())


def test_resnet18_computes_the_same_as_a_module_and_interpreted(lesson):
    specimen = zoo.resnet18()
    traced, expected = lesson.symbolic_trace(specimen.model), specimen.eager()
    same_numbers(traced(*specimen.inputs), expected)
    same_numbers(lesson.Interpreter(traced).run(*specimen.inputs), expected)


def test_no_object_of_torch_fx_is_made_on_the_way(lesson, monkeypatch):
    specimen = zoo.resnet18()
    refusal = mock.Mock(side_effect=AssertionError("an object of torch.fx was made"))
    for each in MADE:
        monkeypatch.setattr(each, "__init__", refusal)
    lesson.Interpreter(lesson.symbolic_trace(specimen.model)).run(*specimen.inputs)
    equal(refusal.call_count, 0)


@pytest.mark.parametrize("name", zoo.SMALL)
def test_a_small_model_is_recorded_node_for_node(lesson, name):
    ours, theirs = zoo.SMALL[name]().model, zoo.SMALL[name]().model
    same_graph(lesson.Tracer().trace(ours), fx.Tracer().trace(theirs))


@pytest.mark.parametrize("name", that_run(zoo.SMALL))
def test_a_small_model_computes_the_same_as_a_module_and_interpreted(lesson, name):
    specimen, expected = zoo.SMALL[name](), zoo.SMALL[name]().eager()
    traced = lesson.symbolic_trace(specimen.model)
    same_numbers(traced(*specimen.inputs, **specimen.kwargs), expected)
    if name != "Variadic":  # one value per placeholder: what is done with `*args` is stretch
        values = (*specimen.inputs, *specimen.kwargs.values())
        same_numbers(plain(lesson.Interpreter(traced).run(*values)), expected)


# --- what the documentation of torch.fx does, with your pieces ------------------------------------


def test_a_module_prints_its_class_and_its_modules(lesson):
    equal(repr(lesson.symbolic_trace(M1())), "M1(\n  (relu): ReLU()\n)")


def test_a_graph_prints_the_table_that_torch_prints(lesson, capsys):
    lesson.symbolic_trace(M1()).graph.print_tabular()
    equal(capsys.readouterr().out, CALL.lstrip())


def test_a_call_of_a_module_is_inlined_by_hand(lesson):
    m = lesson.symbolic_trace(M())
    tracer = lesson.GraphAppendingTracer(m.graph)
    for node in m.graph.nodes:
        if (node.op, node.target) == ("call_module", "relu"):
            with m.graph.inserting_before(node):
                proxy_args = lesson.map_arg(node.args, lambda n: lesson.Proxy(n, tracer))
                proxy_kwargs = lesson.map_arg(node.kwargs, lambda n: lesson.Proxy(n, tracer))
                proxy_output = m.relu(*proxy_args, **proxy_kwargs)
                node.replace_all_uses_with(proxy_output.node)
                m.graph.erase_node(node)
    m.recompile()
    same_numbers(m(x := torch.randn(3)), M()(x))
    m.graph.lint()
    equal([node.op for node in m.graph.nodes][1:], ["call_function", "call_function", "output"])
