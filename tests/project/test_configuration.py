"""What other programs read: GitHub, editors and containers run what is there, and facts agree."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import noxfile
from kata.command_line import COMMANDS
from kata.paths import ROOT
from lessons import LESSONS

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


def test_the_suite_runs_on_three_systems_all_pythons_and_both_ends_of_torch():
    matrix = workflow(FOLDER / "tests.yml")["jobs"]["suite"]["strategy"]["matrix"]
    assert len({system.partition("-")[0] for system in matrix["os"]}) == 3
    assert matrix["python"] == list(noxfile.PYTHONS)
    assert {*matrix["torch"], "newest"} == set(noxfile.TORCHES)


def test_the_files_that_a_session_names_are_there():
    rules = [f"tests/project/test_{rule}.py" for rule in noxfile.RULES]
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


# --- editors and containers

COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


def content(name: str) -> dict[str, Any]:
    """A file of VS Code's: JSON, with comments on lines of their own."""
    return json.loads(COMMENT.sub("", (ROOT / name).read_text(encoding="utf-8")))


def test_every_task_is_a_command_of_the_runner():
    tasks = content(".vscode/tasks.json")["tasks"]
    assert {task["args"][2] for task in tasks} == {"watch", "check", "hint"} <= set(COMMANDS)
    assert all(task["args"][:2] == ["-m", "kata"] for task in tasks)
    assert all(task["label"].startswith(f"kata {task['args'][2]}") for task in tasks)


def test_the_explorer_collects_the_suites_of_the_lessons():
    arguments = content(".vscode/settings.json")["python.testing.pytestArgs"]
    folder, *options = arguments
    assert (ROOT / folder / f"test_{LESSONS[0].name}.py").exists()
    assert options == ["--ignore=tests/project"]


def test_the_container_has_the_first_lesson_open_and_the_readmes_commands():
    container = content(".devcontainer/devcontainer.json")
    opened = container["customizations"]["codespaces"]["openFiles"]
    assert opened == [f"lessons/{LESSONS[0].name}.py", f"docs/lessons/{LESSONS[0].name}.md"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    variable, *commands = container["postCreateCommand"].split(" && ")
    assert variable.startswith("export PIP_EXTRA_INDEX_URL=")
    assert commands
    assert all(f"$ {each}\n" in readme for each in commands)


# --- version, licence and supported Pythons are the same everywhere

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_the_citation_names_the_projects_version_and_licence():
    assert (CITATION["version"], CITATION["license"]) == (PROJECT["version"], PROJECT["license"])


def test_authors_and_licence_name_the_same_holder():
    (author,) = PROJECT["authors"]
    assert CITATION["authors"] == [author]
    assert f", {author['name']}\n" in (ROOT / "LICENSE").read_text()


def test_the_classifiers_list_the_pythons_that_are_tried():
    classifiers = " ".join(PROJECT["classifiers"])
    assert re.findall(r"Python :: (3\.\d+)", classifiers) == list(noxfile.PYTHONS)
    oldest, newest = noxfile.PYTHONS[0], noxfile.PYTHONS[-1]
    too_new = f"3.{int(newest.partition('.')[2]) + 1}"
    assert PROJECT["requires-python"] == f">={oldest},<{too_new}"
