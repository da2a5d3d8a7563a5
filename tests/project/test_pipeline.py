"""The command that runs a split model as a pipeline: where it cuts, and what it compares."""

from __future__ import annotations

import pytest
import torch
from torch.fx import symbolic_trace

from kata.command_line import run
from kata.commands.pipeline import cuts_for, narrow_places
from kata.stubs import ROOT
from kata.tracing import GraphError

REFERENCE = ["--impl", "solutions"]


def test_the_capstone_is_one_short_command():
    lines = (ROOT / "kata" / "commands" / "pipeline.py").read_text().splitlines()
    assert len(lines) <= 150


def test_a_graph_is_cut_where_one_value_is_alive():
    m = symbolic_trace(lambda x: torch.tanh(torch.relu(x) * x) + 1)
    assert narrow_places(m) == [2, 3]


def test_the_cuts_divide_the_calls_evenly():
    m = symbolic_trace(torch.nn.Sequential(*(torch.nn.ReLU() for _ in range(9))))
    assert cuts_for(m, 3) == [3, 6]


def test_more_stages_than_places_are_refused():
    with pytest.raises(GraphError, match="fewer stages"):
        cuts_for(symbolic_trace(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.ReLU())), 3)


def test_an_unknown_model_is_refused_with_near_names(capsys):
    assert run(["pipeline", "resnet81", *REFERENCE]) == 1
    assert "did you mean resnet18" in capsys.readouterr().err


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one(capsys):
    assert run(["pipeline", "resnet18", "--size", "32", *REFERENCE]) == 0
    assert "from those of one process" in capsys.readouterr().out
