"""The runner's shape: a module per command, no circles, few floors, no more lines than it has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from kata.command_line import COMMANDS
from kata.paths import ROOT
from tests.project.limits import LINES_OF_THE_RUNNER

KATA = ROOT / "kata"
# Floors of imports, where the packages `judging` and `grading` are one room each. The lowest one
# is `kata.paths`.
FLOORS = 6
PACKAGES = ("kata.judging", "kata.grading")
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


def by_package(modules: Graph) -> Graph:
    """The same graph, where each package is one node."""
    together: Graph = {}
    for name, used in modules.items():
        room = room_of(name)
        together.setdefault(room, set()).update({room_of(each) for each in used} - {room})
    return together


def room_of(name: str) -> str:
    return next((package for package in PACKAGES if name.startswith(package)), name)


def floors(modules: Graph) -> int:
    """Return how many modules import each other at most, one above the other."""
    known: dict[str, int] = {}

    def floor(name: str, above: tuple[str, ...] = ()) -> int:
        assert name not in above, f"a circle: {' > '.join((*above, name))}"
        if name not in known:
            below = (floor(each, (*above, name)) for each in modules[name])
            known[name] = 1 + max(below, default=0)
        return known[name]

    return max(map(floor, modules))


def test_nothing_imports_itself_in_a_circle():
    assert floors(graph()) > 1


def test_there_are_few_floors():
    assert floors(by_package(graph())) <= FLOORS


def test_a_circle_is_noticed():
    with pytest.raises(AssertionError, match="a circle: a > b > a"):
        floors({"a": {"b"}, "b": {"a"}})


def test_a_command_is_a_module_and_a_module_of_commands_is_a_command():
    files = {file.stem for file in (KATA / "commands").glob("[a-z]*.py")}
    assert files == {*COMMANDS, "overview"}


def test_the_runner_grows_no_further():
    files = [file for file in KATA.rglob("*") if file.suffix in (".py", ".html", ".css")]
    assert sum(len(file.read_text().splitlines()) for file in files) <= LINES_OF_THE_RUNNER
