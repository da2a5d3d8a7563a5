"""``doctor``: every fault of the environment is named together with what mends it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kata import health
from kata.health import State, findings, fork, git, python, tried
from kata.stubs import ROOT
from tests.house.stage import a_learner, play

DOCTOR = "import sys; from kata.command_line import run; sys.exit(run(['doctor', '--json']))"


@pytest.fixture
def learner():
    with a_learner("tracer") as place:
        yield place


def diagnose(packages: Path) -> tuple[int, dict[str, dict[str, str]]]:
    """Let the doctor look at an environment in which these packages come first."""
    done = subprocess.run(
        [sys.executable, "-c", DOCTOR],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, {finding["name"]: finding for finding in json.loads(done.stdout)}


def package(folder: Path, name: str, version: str, code: str = "", *, requires: str = "") -> None:
    """Put a package into the folder, as pip would leave it."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(f"__version__ = {version!r}\n{code}")
    information = folder / f"{name}-{version}.dist-info"
    information.mkdir()
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
    (information / "METADATA").write_text(text)


A_TORCH = """
from types import SimpleNamespace
cuda = SimpleNamespace(is_available=lambda: False)
def ones(size): return SimpleNamespace(sum=lambda: SimpleNamespace(item=lambda: 2.0))
class library:
    class Library:
        def __init__(self, *arguments): pass
"""


def test_a_torch_whose_libraries_do_not_load_is_a_problem(tmp_path: Path):
    message = "libcudart.so.13: cannot open shared object file"
    package(tmp_path, "torch", "2.13.0", f"raise ImportError({message!r})")
    code, found = diagnose(tmp_path)
    assert code == 1
    assert found["import torch"]["state"] == "problem"
    assert message in found["import torch"]["words"]
    assert "--force-reinstall torch torchvision" in found["import torch"]["remedy"]


def test_an_old_torch_beside_another_torchvision_is_a_problem(tmp_path: Path):
    package(tmp_path, "torch", "2.4.1", A_TORCH)
    package(tmp_path, "torchvision", "0.28.0", requires="torch (==2.13.0)")
    code, found = diagnose(tmp_path)
    assert code == 1
    assert found["torch"]["words"] == "2.4.1 is here, >=2.11 is needed"
    pair = found["torch and torchvision"]
    assert pair["words"] == "torchvision 0.28.0 is made for torch ==2.13.0, and 2.4.1 is here"
    assert pair["remedy"] == "pip install --constraint constraints.txt torch torchvision"


def test_a_torchvision_that_kills_python_is_a_problem_and_the_rest_is_looked_at(tmp_path: Path):
    package(tmp_path, "torch", "2.13.0", A_TORCH)
    package(tmp_path, "torchvision", "0.28.0", "import os; os.abort()")
    code, found = diagnose(tmp_path)
    assert code == 1
    assert found["import torchvision"]["state"] == "problem"
    assert "killed by SIGABRT" in found["import torchvision"]["words"]
    assert found["disk"]["state"] != "problem"


def test_a_missing_package_is_a_problem(monkeypatch):
    monkeypatch.setattr(health, "installed", lambda name: None if name == "rich" else "99")
    found = {finding.name: finding for finding in health.packages()}
    assert found["rich"].state is State.PROBLEM
    assert found["rich"].remedy.endswith(" rich")
    assert found["torch"].state is State.OK


def test_operators_that_do_not_load_are_worth_a_note():
    finding = health.imported_torchvision(
        health.Tried(["0.28.0+cu130", ["nms", "qnms"]]), beside="2.13.0+cpu"
    )
    assert finding.state is State.NOTE
    assert finding.words.startswith("0.28.0+cu130 beside torch 2.13.0+cpu: its compiled nms, qnms")


def test_a_memory_that_cannot_be_written_is_a_problem(learner, monkeypatch):
    without_imports(monkeypatch)
    (learner.memory).rename(learner.memory.with_name("away"))
    learner.memory.write_text("a file stands where the folder should be")
    played = play("doctor")
    assert played.code == 1
    assert "write to .kata/: File exists" in played.screen
    assert "remedy: move away what stands there" in played.screen


def without_imports(monkeypatch) -> None:
    """Spare the tests that look elsewhere the seconds that torch takes."""
    answers = {health.TORCH: ["2.13.0", False], health.TORCHVISION: ["0.28.0", []]}
    monkeypatch.setattr(health, "tried", lambda code: health.Tried(answers[code]))


def test_a_full_disk_is_a_problem(monkeypatch):
    monkeypatch.setattr(health, "free_space", lambda: 20 * health.MEGABYTE)
    assert health.disk().state is State.PROBLEM
    monkeypatch.setattr(health, "free_space", lambda: 500 * health.MEGABYTE)
    assert health.disk().state is State.NOTE


def test_an_old_python_is_a_problem(monkeypatch):
    monkeypatch.setattr(health.platform, "python_version", lambda: "3.9.18")
    assert python().state is State.PROBLEM
    assert "3.9.18 is here, >=3.11 is needed" in python().words


def test_a_system_without_fork_or_git_is_worth_a_note(monkeypatch):
    monkeypatch.setattr(health.multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    monkeypatch.setenv("PATH", "")
    assert (fork().state, git().state) == (State.NOTE, State.NOTE)


def test_every_problem_and_every_note_has_a_remedy(learner, monkeypatch):
    monkeypatch.setattr(health, "tried", lambda code: health.Tried(error="it broke"))
    monkeypatch.setattr(health, "installed", lambda name: None)
    found = findings()
    assert any(finding.state is State.PROBLEM for finding in found)
    assert all(finding.remedy for finding in found if finding.state is not State.OK)


def test_a_child_that_fails_or_dies_is_described_by_its_last_line():
    assert tried("raise ValueError('why')").error == "ValueError: why"
    assert tried("import os; os._exit(3)").error == "it failed silently"


def test_a_healthy_environment_has_the_exit_code_of_success(learner, monkeypatch):
    without_imports(monkeypatch)
    played = play("doctor")
    assert played.code == 0
    assert played.screen.endswith("\neverything that the lessons need is there\n")
