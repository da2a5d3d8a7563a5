"""The repository: one name in every folder, one order, imports that run one way."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from kata.paths import ROOT
from lessons import LESSONS, NAMES

# Every file of a lesson. The stub is generated from the core.
FILES = (
    "benchmarks/test_{}.py",
    "docs/lessons/{}.md",
    "docs/solutions/{}.md",
    "lessons/{}.py",
    "solutions/{}.py",
    "solutions/stretch/{}.py",
    "tests/answers/{}.py",
    "tests/models/{}.py",
    "tests/stretch/test_{}.py",
    "tests/test_{}.py",
)
# Tables that have a line for each lesson, and how that line is recognised.
TABLES = {
    "lessons/__init__.py": 'name="{}"',
    "README.md": "](docs/lessons/{}.md)",
    "docs/instructors.md": "](lessons/{}.md)",
}
# Files beside those of the lessons that belong to several.
NO_LESSONS = {"stretch", "finale", "chain", "engine"}
# What the code of a folder may import from this repository by an absolute name.
ARROWS = {
    "given": set(),
    "solutions": {"solutions", "given"},
    "lessons": {"lessons", "given"},
    "drawing": {"drawing"},
    "kata": {"kata", "drawing", "lessons"},
    "tools": {"tools", "kata", "drawing", "lessons", "solutions", "given"},
}


@pytest.mark.parametrize("lesson", NAMES)
def test_a_lesson_has_every_file_and_its_line_in_every_table(lesson: str):
    missing = [each.format(lesson) for each in FILES if not is_there(ROOT / each.format(lesson))]
    for table, entry in TABLES.items():
        if entry.format(lesson) not in (ROOT / table).read_text(encoding="utf-8"):
            missing.append(f"{entry.format(lesson)} in {table}")
    oracle = (ROOT / "tests/oracle.py").read_text(encoding="utf-8")
    if not re.search(rf'^{lesson} |"{lesson}"', oracle, re.MULTILINE):
        missing.append(f"{lesson} in tests/oracle.py")
    assert not missing


def is_there(path: Path) -> bool:
    return path.exists() or (path.with_suffix("") / "__init__.py").exists()


@pytest.mark.parametrize("pattern", [*FILES, "given/{}.py"])
def test_folders_of_lessons_hold_only_lessons(pattern: str):
    folder, prefix = (ROOT / pattern).parent, (ROOT / pattern).stem.format("")
    files = [path for path in folder.glob(f"{prefix}*") if path.suffix in (".py", ".md")]
    found = {path.stem.removeprefix(prefix) for path in files}
    assert not {name for name in found - {*NAMES} - NO_LESSONS if not name.startswith("_")}
    assert not [name for name in found if re.search(r"\d", name)]


def test_a_lesson_needs_only_earlier_ones():
    for position, lesson in enumerate(LESSONS):
        assert set(lesson.needs) <= set(NAMES[:position]), f"{lesson.name} needs {lesson.needs}"


def test_the_readme_lists_the_lessons_in_order():
    row = re.compile(r"^\| \d+ \| \[`(\w+)`\]\(\S+\) \| (.*?) \|", re.MULTILINE)
    rows = row.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert rows == [(lesson.name, lesson.summary) for lesson in LESSONS]


@pytest.mark.parametrize("folder", ARROWS)
def test_imports_run_one_way(folder: str):
    packages = {"drawing", "given", "kata", "tools", "lessons", "solutions", "tests", "benchmarks"}
    for file in (ROOT / folder).rglob("*.py"):
        foreign = imported_packages(file) & packages - ARROWS[folder]
        assert not foreign, f"{file.relative_to(ROOT)} imports {sorted(foreign)}"


@pytest.mark.parametrize("file", [*(ROOT / "given").glob("*.py")], ids=lambda file: file.stem)
def test_what_is_given_says_what_it_does_and_knows_torch_only(file: Path):
    statements = ast.parse(file.read_text(encoding="utf-8")).body
    definitions = [each for each in statements if isinstance(each, ast.FunctionDef | ast.ClassDef)]
    silent = [each.name for each in definitions if not ast.get_docstring(each)]
    assert not [name for name in silent if not name.startswith("_")]
    assert imported_packages(file) <= {*sys.stdlib_module_names, "torch"}


def imported_packages(file: Path) -> set[str]:
    """The first part of every absolute import in a file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.split(".")[0])
    return names
