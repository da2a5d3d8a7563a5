"""The headings of Troubleshooting are what torch and the runner say, word for word."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import fx, nn
from torch.fx.passes.split_module import split_module

from kata.paths import ROOT
from tests.zoo import Model

PAGE = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")


def headings(section: str) -> list[str]:
    """The messages that are headings in a section of the page."""
    text = PAGE.split(f"\n## {section}")[1].split("\n## ")[0]
    return re.findall(r"^### `(.*)`$", text, re.MULTILINE)


def trace(function: Callable) -> Callable[[], object]:
    return lambda: fx.symbolic_trace(function)


def assign(x):
    x[0] = 1
    return x


def holder(function: Callable) -> Model:
    """A model with a module and a parameter where torch doesn't look for them."""
    return Model(function, hidden=[nn.ReLU(), nn.Parameter(torch.ones(2))])


def graph_of_two() -> tuple[fx.Graph, fx.Node, fx.Node]:
    graph = fx.Graph()
    relu = graph.call_function(torch.relu, (graph.placeholder("x"),))
    return graph, relu, graph.call_function(torch.neg, (relu,))


def erase():
    graph, relu, _ = graph_of_two()
    graph.erase_node(relu)


def disorder():
    graph, relu, neg = graph_of_two()
    relu.args = (neg,)
    graph.lint()


def mix():
    graph = fx.Graph()
    graph.call_function(torch.relu, (graph_of_two()[1],))
    graph.lint()


def cycle():
    traced = fx.symbolic_trace(lambda x: x.relu().neg().relu())
    parts = iter([0, 1, 0])
    split_module(traced, nn.Module(), lambda node: next(parts))


def specialized():
    double = fx.symbolic_trace(lambda x, twice: x * 2 if twice else x, {"twice": True})
    double(torch.ones(1), False)


def export(module: nn.Module, **options: object) -> torch.export.ExportedProgram:
    return torch.export.export(module, (torch.ones(2, 2),), **options)


BATCH = ({0: torch.export.Dim("batch")},)
# In the order of the page.
TRACING = [
    trace(lambda x: x if x.sum() > 0 else -x),
    trace(lambda x: [each for each in x]),
    trace(lambda x: len(x)),
    trace(lambda x: [x for _ in range(x.shape[0])]),
    trace(assign),
    trace(lambda x: torch.rand(x.size(0), 2)),
    trace(lambda x: np.asarray(x)),
    trace(holder(lambda self, x: self.hidden[0](x))),
    trace(holder(lambda self, x: x + self.hidden[1])),
    trace(lambda x: x.add(object())),
    trace(torch.relu),
    lambda: fx.wrap("len"),
    trace(lambda x: torch.compile(torch.relu)(x)),
]
GRAPHS = [
    specialized,
    erase,
    disorder,
    mix,
    lambda: fx.Interpreter(fx.symbolic_trace(nn.Linear(2, 2))).run(),
    cycle,
]
EXPORTS = [
    lambda: export(holder(lambda self, x: x if x.sum() > 0 else -x)),
    lambda: export(holder(lambda self, x: x.reshape(2, 2)), dynamic_shapes=BATCH),
    lambda: export(nn.Linear(2, 2)).module()(torch.ones(3, 2)),
    lambda: export(nn.Linear(2, 2))(torch.ones(2, 2)),
    lambda: torch.export.export(assign, (torch.ones(2),)),
    lambda: torch.export.unflatten(export(nn.Linear(2, 2)))(torch.ones(2, 2), torch.ones(2, 2)),
    lambda: torch.export.export(nn.Linear(2, 2), torch.ones(2)),
]
SECTIONS = {"While tracing": TRACING, "With a graph": GRAPHS, "With torch.export": EXPORTS}
MESSAGES = [
    pytest.param(heading, mistake, id=heading[:40])
    for section, mistakes in SECTIONS.items()
    for heading, mistake in zip(headings(section), mistakes, strict=True)
]


@pytest.mark.parametrize(("heading", "mistake"), MESSAGES)
@pytest.mark.filterwarnings("ignore")
def test_torch_says_so(heading: str, mistake: Callable):
    with pytest.raises(Exception) as caught:
        mistake()
    # Headings are code already: torch's own backticks are left out.
    assert heading in str(caught.value).replace("`", "")


def texts_in(source: str) -> Iterator[str]:
    """The strings in a source that aren't docstrings."""
    tree = ast.parse(source)
    alone = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


@pytest.mark.parametrize("heading", headings("With the runner"))
def test_the_runner_says_so(heading: str):
    files = [*(ROOT / "kata").rglob("*.py"), *(ROOT / "tests/suite").rglob("*.py")]
    texts = [text for file in files for text in texts_in(file.read_text(encoding="utf-8"))]
    assert any(heading in text for text in texts)
