"""The command that runs a split model as a pipeline: numbers, failures, and what stays behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from torch.fx import symbolic_trace

from kata.command_line import run
from kata.pipeline import (
    PROCESSES,
    PipelineError,
    Plan,
    cuts_for,
    first_failure,
    narrow_places,
    split_into_stages,
    stages_of,
)
from kata.stubs import ROOT

REFERENCE = ["--impl", "solutions"]


def test_a_graph_is_cut_where_one_value_is_alive():
    def f(x):
        return torch.tanh(torch.relu(x) * x) + 1

    assert narrow_places(symbolic_trace(f)) == [2, 3]


def test_the_cuts_divide_the_calls_evenly():
    m = symbolic_trace(torch.nn.Sequential(*(torch.nn.ReLU() for _ in range(9))))
    assert cuts_for(m, 3) == [3, 6]


def test_more_stages_than_places_are_refused():
    with pytest.raises(PipelineError, match="at most 2 stages"):
        cuts_for(symbolic_trace(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.ReLU())), 3)


def test_an_unknown_model_is_refused_with_near_names(capsys):
    assert run(["pipeline", "resnet81", *REFERENCE]) == 1
    assert "did you mean resnet18" in capsys.readouterr().err


def test_a_batch_that_cannot_be_divided_is_refused(capsys):
    assert run(["pipeline", "resnet18", "--batch", "7", *REFERENCE]) == 1
    assert "cannot be divided" in capsys.readouterr().err


def test_a_stage_has_the_parameters_that_the_outer_graph_passes_to_it():
    plan = Plan("vit_b_16", stages=3, size=224, impl="solutions")
    with torch.device("meta"):
        model = plan.build_model()
    own = [dict(stage.named_parameters()) for stage in stages_of(split_into_stages(plan, model))]
    assert {id(p) for named in own for p in named.values()} == {id(p) for p in model.parameters()}


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one(capsys):
    assert run(["pipeline", "resnet18", "--stages", "2", "--size", "32", *REFERENCE]) == 0
    lines = capsys.readouterr().out
    assert "outputs: the same as in one process" in lines
    assert "gradients: the same as in one process" in lines


def ended(*exit_codes: int) -> list[SimpleNamespace]:
    return [SimpleNamespace(exitcode=code) for code in exit_codes]


def test_of_two_failures_the_first_is_shown():
    failures = PROCESSES.SimpleQueue()
    failures.put((1, "ValueError: the cause"))
    failures.put((0, "RuntimeError: the other stage is gone"))
    message = first_failure(ended(1, 1), failures)
    assert message.startswith("stage 1 failed")
    assert message.endswith("ValueError: the cause")


def test_a_killed_stage_is_the_cause_of_what_the_others_report():
    failures = PROCESSES.SimpleQueue()
    failures.put((0, "RuntimeError: the other stage is gone"))
    assert first_failure(ended(1, -9), failures).startswith("stage 1 was killed by SIGKILL")


@pytest.fixture
def endless() -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A pipeline that runs on and on, and the process ids of its stages."""
    words = ["-m", "kata", "pipeline", "resnet18", "--size", "32", "--rounds", "1000000"]
    command = [sys.executable, *words, *REFERENCE]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:
        yield process, [stage_pid(process) for _ in range(2)]
        process.kill()


def stage_pid(process: subprocess.Popen[str]) -> int:
    """Read on to the line that names the next stage's process."""
    for line in process.stdout:
        if found := re.search(r"runs as process (\d+)", line):
            return int(found[1])
    raise AssertionError(process.stderr.read())


def wait_until_gone(pids: list[int], seconds: float) -> list[int]:
    """The processes that are still there after so long."""
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if is_running(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent's nod does not."""
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return state.stdout.strip()[:1] not in {"", "Z"}


@pytest.mark.slow
def test_a_stage_that_dies_ends_the_others_within_ten_seconds(endless):
    process, pids = endless
    time.sleep(6)  # until the pipeline is under way
    os.kill(pids[1], signal.SIGKILL)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 1
    assert "stage 1 was killed by SIGKILL" in errors
    assert not wait_until_gone(pids, seconds=0)


@pytest.mark.slow
def test_no_stage_outlives_the_process_that_started_it(endless):
    process, pids = endless
    process.kill()
    assert not wait_until_gone(pids, seconds=30)
