"""The workflows on GitHub run sessions that exist, and only the deployment may write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import noxfile
from kata.paths import ROOT

FOLDER = ROOT / ".github/workflows"
FILES = sorted(FOLDER.glob("*.yml"))
SESSION = re.compile(r'\bnox -s "?([a-z]+)')
every_workflow = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def workflow(file: Path) -> dict:
    return yaml.safe_load(file.read_text())


def steps(file: Path) -> Iterator[dict]:
    for job in workflow(file)["jobs"].values():
        yield from job["steps"]


def commands(file: Path) -> list[str]:
    return [step["run"] for step in steps(file) if "run" in step]


@every_workflow
def test_a_command_is_a_session_or_a_script_that_is_there(file: Path):
    for command in commands(file):
        assert all(callable(getattr(noxfile, name)) for name in SESSION.findall(command))
        assert all((ROOT / script).exists() for script in re.findall(r"bash (\S+)", command))


def test_each_workflow_runs_a_check_of_ours():
    ours = {
        file.stem: [c for c in commands(file) if SESSION.search(c) or ".ci/" in c] for file in FILES
    }
    assert set(ours) == {"canary", "site", "tests"}
    assert all(ours.values())


def test_the_suite_runs_on_three_systems_all_pythons_and_both_ends_of_torch():
    matrix = workflow(FOLDER / "tests.yml")["jobs"]["suite"]["strategy"]["matrix"]
    assert len({system.partition("-")[0] for system in matrix["os"]}) == 3
    assert matrix["python"] == list(noxfile.PYTHONS)
    assert {*matrix["torch"], "newest"} == set(noxfile.TORCHES)


def test_the_files_that_a_session_names_are_there():
    rules = [f"tests/project/test_{rule}.py" for rule in (*noxfile.RULES, *noxfile.IF_POSIX)]
    assert all((ROOT / file).exists() for file in (*noxfile.ABOUT_LESSONS, *rules))


def test_the_canary_tries_all_pythons():
    matrix = workflow(FOLDER / "canary.yml")["jobs"]["suite"]["strategy"]["matrix"]
    assert matrix["python"] == list(noxfile.PYTHONS)


@every_workflow
def test_a_workflow_reads_and_only_the_deployment_writes(file: Path):
    assert workflow(file)["permissions"] == {"contents": "read"}
    for name, job in workflow(file)["jobs"].items():
        writes = {right for right, kind in job.get("permissions", {}).items() if kind == "write"}
        assert writes == ({"pages", "id-token"} if name == "deploy" else set())


@every_workflow
def test_a_job_that_hangs_is_ended(file: Path):
    assert all("timeout-minutes" in job for job in workflow(file)["jobs"].values())
