"""The command ``graph``: the picture of a model, and the difference between two tracers."""

from __future__ import annotations

import re
import webbrowser
from pathlib import Path

import pytest

from kata import progress
from lessons import FINALE
from tests.project.stage import play, turn_green

SMALL = "tools.pictures.models:Nested"
LOOKS_INTO_RELU = """
import torch


class Tracer(torch.fx.Tracer):
    def is_leaf_module(self, module, path):
        return not isinstance(module, torch.nn.ReLU) and super().is_leaf_module(module, path)
"""
TRACE = "class Tracer:\n    def trace(self, root):\n        "


@pytest.fixture
def graph(learner, tmp_path: Path):
    """Call the command; return its exit code, what it says, and the nodes that it drew."""

    def call(*words: str) -> tuple[int, str, list[str]]:
        file = tmp_path / "graph.html"
        code, screen = play("graph", *words, "--no-open", "--out", str(file))
        text = file.read_text() if file.exists() else ""
        return code, screen, re.findall(r'data-node="([^"]*)"', text)

    return call


def write_tracer(source: str) -> None:
    """Write a learner's tracer; the other lessons are stubs."""
    progress.file_of("tracer").write_text(source)


NODES = ["x", "block_linear", "add", "block_relu", "flatten", "head", "output"]


def test_the_first_difference_is_marked_in_both_graphs(graph, tmp_path):
    write_tracer(LOOKS_INTO_RELU)
    code, says, nodes = graph(SMALL, "--against", "torch")
    assert code == 1
    assert "differs from torch's graph from node 3 on\n  your tracer: relu = call_function " in says
    assert nodes == [*NODES[:3], "relu", *NODES[4:], *NODES]
    page = (tmp_path / "graph.html").read_text()
    marked = r'data-node="(\w+)"><title>[^<]*</title>(?:(?!</g>).)*first difference'
    assert re.findall(marked, page) == ["relu", "block_relu"]


@pytest.mark.parametrize(
    "source, words",
    [
        (f"{TRACE}raise KeyError('conv')", ["KeyError: 'conv'", "lessons/tracer.py:3"]),
        (f"{TRACE}raise NotImplementedError('create_arg: x')", ["not written yet: create_arg: x"]),
        (f"{TRACE}return 3", ["no graph but 3"]),
        ("def broken(:\n", ["invalid syntax (tracer.py, line 1)"]),
    ],
)
def test_what_goes_wrong_in_ones_own_tracer_is_told_with_its_line(graph, source, words):
    write_tracer(source)
    code, says, nodes = graph(SMALL)
    assert (code, nodes) == (1, [])
    assert all(word in says for word in words), says
    assert "Traceback" not in says


def test_what_is_not_written_yet_of_ones_own_engine_is_lent(graph):
    code, says, nodes = graph(SMALL, "--against", "torch")
    assert (code, nodes) == (0, NODES)
    assert "traced by the reference: the same graph as torch's" in says
    assert "lent by the reference: tracer, " in says
    turn_green(*FINALE.needs)
    code, says, nodes = graph("resnet18", "--against", "torch")
    assert (code, len(nodes)) == (0, 71)
    assert "traced by your tracer: the same graph as torch's, 71 nodes" in says
    assert "lent" not in says


MINE = """
from torch import nn

from beside import size


class Branches(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def make_model():
    return nn.Sequential(nn.Linear(size, 1), nn.ReLU())
"""


@pytest.mark.parametrize("impl", ["lessons", "full", "torch"])
def test_a_model_in_a_file_of_ones_own_is_drawn_or_its_line_says_why_not(impl, graph, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(MINE)
    (tmp_path / "beside.py").write_text("size = 2\n")
    code, says, nodes = graph(f"{mine}:make_model", "--impl", impl)
    assert (code, nodes) == (0, ["input_1", "_0", "_1", "output"])
    assert "4 nodes" in says and "graph.html" in says
    code, says, _ = graph(f"{mine}:Branches", "--impl", impl)
    assert code == 1
    assert "this model cannot be traced: TraceError: " in says
    assert "mine.py:9: return x if x.sum() > 0 else -x" in says
    assert "solutions/" not in says and "site-packages" not in says


@pytest.mark.parametrize(
    "words, answer",
    [
        (["resnet81"], "did you mean resnet18"),
        (["tools.pictures.models:Nestde"], "has no attribute 'Nestde'"),
        (["no.such.module:Net"], "cannot be made: ModuleNotFoundError: No module named 'no'"),
        (["torch.nn:Linear"], "torch.nn:Linear cannot be made: TypeError"),
        (["builtins:dict"], "isn't an nn.Module but a dict"),
    ],
)
def test_a_wrong_word_is_answered_with_what_to_write(graph, words, answer):
    code, says, nodes = graph(*words, "--impl", "torch")
    assert (code, nodes) == (1, [])
    assert answer in says and "one of your own is file.py:name or package.module:name" in says


def test_the_page_is_opened_in_the_browser(learner, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    played = play("graph", SMALL, "--impl", "torch")
    (file,) = (learner.memory / "graphs").iterdir()
    assert opened == [file.as_uri()]
    assert f"written to .kata/graphs/{file.name}" in played.screen
