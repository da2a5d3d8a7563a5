"""The command ``graph``: the picture of a model, and the difference between two tracers."""

from __future__ import annotations

import re
import shutil
import textwrap
import webbrowser
from pathlib import Path

import pytest

from kata import progress
from kata.command_line import run
from kata.paths import CORES, STUBS

SMALL = "tools.pictures.models:Nested"
SAME = """
    import torch.fx

    from .path_of_module import PathOfModule


    class Tracer(PathOfModule, torch.fx.Tracer):
        pass
"""
LOOKS_INTO_RELU = """
    import torch


    class Tracer(torch.fx.Tracer):
        def is_leaf_module(self, module, path):
            return not isinstance(module, torch.nn.ReLU) and super().is_leaf_module(module, path)
"""
CHANGES_ANNOTATIONS = """
    import torch


    class Tracer(torch.fx.Tracer):
        def create_node(self, *arguments, **options):
            node = super().create_node(*arguments, **options)
            node.type = int
            return node
"""
RAISES = """
    import torch


    class Tracer(torch.fx.Tracer):
        def call_module(self, module, forward, args, kwargs):
            raise KeyError("conv")
"""
TODO = """
    import torch


    class Tracer(torch.fx.Tracer):
        def call_module(self, module, forward, args, kwargs):
            raise NotImplementedError("create_arg: turn it into an argument")
"""


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch):
    """Let the runner remember elsewhere; there are stubs already, so it looks for none."""
    (tmp_path / ".kata" / "stubs").mkdir(parents=True)
    monkeypatch.setattr(progress, "HERE", progress.Workspace(STUBS, tmp_path / ".kata"))


@pytest.fixture
def write_tracer(lessons: Path, tmp_path: Path, monkeypatch):
    """Write a learner's tracer; the other lessons are stubs."""
    monkeypatch.setattr(progress, "HERE", progress.Workspace(lessons, tmp_path / ".kata"))
    return lambda source: (lessons / "tracer.py").write_text(textwrap.dedent(source))


@pytest.fixture
def graph(tmp_path: Path, capsys):
    """Call the command; return its exit code, what it says, and the nodes that it drew."""

    def call(*words: str, out: str = "graph.html") -> tuple[int, str, list[str]]:
        file = tmp_path / out
        code = run(["graph", *words, "--no-open", "--out", str(file)])
        captured = capsys.readouterr()
        text = file.read_text() if file.exists() else ""
        drawn = re.findall(r'data-node="([^"]*)"', text)
        return code, captured.out + captured.err, drawn

    return call


NODES = ["x", "block_linear", "add", "block_relu", "flatten", "head", "output"]


@pytest.mark.parametrize("impl", ["full", "torch"])
def test_the_graph_of_a_model_of_ones_own_is_drawn(graph, impl):
    code, says, nodes = graph(SMALL, "--impl", impl)
    assert (code, nodes) == (0, NODES)
    assert "7 nodes" in says and "graph.html" in says


def test_unwritten_siblings_of_the_learners_tracer_are_lent(graph, write_tracer):
    write_tracer(SAME)
    code, says, nodes = graph(SMALL, "--against", "torch")
    assert (code, nodes) == (0, NODES)
    assert "traced by your tracer: the same graph as torch's" in says
    assert "lent by the reference: path_of_module" in says


def test_the_first_difference_is_marked_in_both_graphs(graph, write_tracer, tmp_path):
    write_tracer(LOOKS_INTO_RELU)
    code, says, nodes = graph(SMALL, "--against", "torch")
    assert code == 1
    assert "differs from torch's graph from node 3 on\n  your tracer: relu = call_function " in says
    assert nodes == [*NODES[:3], "relu", *NODES[4:], *NODES]
    page = (tmp_path / "graph.html").read_text()
    assert re.findall(
        r'data-node="(\w+)"><title>[^<]*</title>(?:(?!</g>).)*first difference', page
    ) == [
        "relu",
        "block_relu",
    ]


def test_a_difference_that_the_suite_sees_is_one_here_too(graph, write_tracer):
    write_tracer(CHANGES_ANNOTATIONS)
    code, says, _ = graph(SMALL, "--against", "torch")
    assert code == 1
    assert "differs from torch's graph from node 0 on" in says


@pytest.mark.parametrize(
    "source, words",
    [
        (RAISES, ["KeyError: 'conv'", "lessons/tracer.py:7"]),
        (TODO, ["not written yet: create_arg: turn it into an argument"]),
        ("def broken(:\n", ["invalid syntax (tracer.py, line 1)"]),
        ("class Tracer:\n    def trace(self, root):\n        return 3", ["no graph but 3"]),
    ],
)
def test_what_goes_wrong_in_ones_own_tracer_is_told_with_its_line(
    graph, write_tracer, source, words
):
    write_tracer(source)
    code, says, nodes = graph(SMALL)
    assert (code, nodes) == (1, [])
    assert all(word in says for word in words), says
    assert "Traceback" not in says


def test_a_tracer_that_is_not_written_yet_is_lent(graph, write_tracer):
    code, says, nodes = graph(SMALL, "--against", "torch")
    assert (code, nodes) == (0, NODES)
    assert "traced by the reference: the same graph as torch's" in says
    assert "lent by the reference: tracer, " in says


def test_a_graph_of_ones_own_engine_is_compared_with_torchs(graph, lessons, write_tracer):
    shutil.copytree(CORES, lessons, dirs_exist_ok=True)
    code, says, nodes = graph("resnet18", "--against", "torch")
    assert (code, len(nodes)) == (0, 71)
    assert "traced by your tracer: the same graph as torch's, 71 nodes" in says


MINE = """
from torch import nn

from beside import size


class Branches(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def make_model():
    return nn.Sequential(nn.Linear(size, 1), nn.ReLU())
"""


def test_a_model_in_a_file_of_ones_own_is_drawn(graph, tmp_path):
    (tmp_path / "beside.py").write_text("size = 2\n")
    (tmp_path / "mine.py").write_text(MINE)
    code, _, nodes = graph(f"{tmp_path / 'mine.py'}:make_model")
    assert (code, nodes) == (0, ["input_1", "_0", "_1", "output"])


@pytest.mark.parametrize("impl", ["lessons", "full", "torch"])
def test_a_model_that_cannot_be_traced_is_told_with_its_own_line(impl, graph, tmp_path):
    (tmp_path / "beside.py").write_text("size = 2\n")
    (tmp_path / "mine.py").write_text(MINE)
    code, says, _ = graph(f"{tmp_path / 'mine.py'}:Branches", "--impl", impl)
    assert code == 1
    assert "this model cannot be traced: TraceError: " in says
    assert "mine.py:9: return x if x.sum() > 0 else -x" in says


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
def test_a_wrong_word_is_answered_with_the_way_out(graph, words, answer):
    code, says, nodes = graph(*words, "--impl", "torch")
    assert (code, nodes) == (1, [])
    assert answer in says


def test_the_page_is_opened_in_the_browser(monkeypatch, tmp_path, capsys):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert run(["graph", SMALL, "--impl", "torch"]) == 0
    (file,) = (tmp_path / ".kata" / "graphs").iterdir()
    assert opened == [file.as_uri()]
    assert f"written to {file}" in capsys.readouterr().out
