"""What other programs read: GitHub, editors and containers run what is there, and facts agree."""

from __future__ import annotations

import json
import re
import tomllib
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


def workflow(file: Path) -> dict:
    return yaml.safe_load(file.read_text())


def test_the_suite_runs_on_three_systems_all_pythons_and_both_ends_of_torch():
    matrix = workflow(FOLDER / "tests.yml")["jobs"]["suite"]["strategy"]["matrix"]
    assert len({system.partition("-")[0] for system in matrix["os"]}) == 3
    assert matrix["python"] == list(noxfile.PYTHONS)
    assert {*matrix["torch"], "newest"} == set(noxfile.TORCHES)
    canary = workflow(FOLDER / "canary.yml")["jobs"]["suite"]["strategy"]["matrix"]
    assert canary["python"] == list(noxfile.PYTHONS)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_workflow_runs_what_is_there_ends_and_only_its_deployment_writes(file: Path):
    text = file.read_text()
    assert all(callable(getattr(noxfile, name)) for name in SESSION.findall(text))
    assert all((ROOT / script).exists() for script in re.findall(r"\bbash (\S+)", text))
    assert workflow(file)["permissions"] == {"contents": "read"}
    for name, job in workflow(file)["jobs"].items():
        assert "timeout-minutes" in job
        writes = {right for right, kind in job.get("permissions", {}).items() if kind == "write"}
        assert writes == ({"pages", "id-token"} if name == "deploy" else set())


# --- editors and containers


def content(name: str) -> dict[str, Any]:
    """A file of VS Code's: JSON, with comments on lines of their own."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


def test_the_editor_collects_the_suites_of_the_lessons_and_its_tasks_are_commands():
    folder, *options = content(".vscode/settings.json")["python.testing.pytestArgs"]
    assert (folder, options) == ("tests", ["--ignore=tests/project"])
    for task in content(".vscode/tasks.json")["tasks"]:
        module, name, command = task["args"][:3]
        assert (module, name) == ("-m", "kata") and command in COMMANDS
        assert task["label"].startswith(f"kata {command}")


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


def test_the_citation_says_what_the_project_says():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    facts = ("version", "license", "authors")
    assert [citation[each] for each in facts] == [PROJECT[each] for each in facts]


def test_the_classifiers_list_the_pythons_that_are_tried():
    classifiers = " ".join(PROJECT["classifiers"])
    assert re.findall(r"Python :: (3\.\d+)", classifiers) == list(noxfile.PYTHONS)
    oldest, newest = noxfile.PYTHONS[0], noxfile.PYTHONS[-1]
    too_new = f"3.{int(newest.partition('.')[2]) + 1}"
    assert PROJECT["requires-python"] == f">={oldest},<{too_new}"
