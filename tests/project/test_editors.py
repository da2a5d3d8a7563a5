"""Editors and containers run commands that exist, on our files."""

from __future__ import annotations

import json
import re
from typing import Any

from kata.command_line import COMMANDS
from kata.paths import ROOT
from lessons import LESSONS

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
    assert all(f"$ {each}\n" in readme for each in container["postCreateCommand"].split(" && "))
