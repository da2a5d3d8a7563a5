"""The runner's shape: a module per command, no circles, and no more lines than it has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

from kata.command_line import COMMANDS
from kata.paths import ROOT
from tests.project.limits import LINES_OF_THE_RUNNER

KATA = ROOT / "kata"
Graph = dict[str, set[str]]


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(file): file for file in KATA.rglob("*.py")}


def imported(node: ast.AST) -> Iterator[str]:
    """The modules of the runner that are imported with a module; those of its functions aren't."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            names = [f"{child.module}.{alias.name}" for alias in child.names]
            yield from (name if name in MODULES else str(child.module) for name in names)
        elif not isinstance(child, ast.FunctionDef):
            yield from imported(child)


def graph() -> Graph:
    found = {name: set(imported(ast.parse(file.read_text()))) for name, file in MODULES.items()}
    return {name: (used & MODULES.keys()) - {name} for name, used in found.items()}


def test_nothing_imports_itself_in_a_circle():
    TopologicalSorter(graph()).prepare()  # raises a CycleError that names the circle


def test_a_command_is_a_module_and_a_module_of_commands_is_a_command():
    files = {file.stem for file in (KATA / "commands").glob("[a-z]*.py")}
    assert files == {*COMMANDS, "overview"}


def test_the_runner_grows_no_further():
    files = [file for file in KATA.rglob("*") if file.suffix in (".py", ".html", ".css")]
    assert sum(len(file.read_text().splitlines()) for file in files) <= LINES_OF_THE_RUNNER
