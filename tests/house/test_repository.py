"""The repository: one name in every folder, fresh stubs, one order, imports that run one way."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from kata.layers import has_core, suites
from kata.stubs import ROOT, modules_of, stale_in, write
from lessons import LESSONS
from tests.suite.answers import judge_folder

NAMES = [lesson.name for lesson in LESSONS]
FOLDERS = (
    "lessons/{}.py",
    "solutions/{}.py",
    "solutions/stretch/{}.py",
    "tests/test_{}.py",
    "tests/stretch/test_{}.py",
    "tests/oracle/{}.py",
    "tests/answers/{}.py",
    "benchmarks/test_{}.py",
    "docs/lessons/{}.md",
    "docs/solutions/{}.md",
    "docs/api/{}.md",
)
# A lesson whose core doesn't stand in a file of its own yet has nothing here.
OF_CORES = ("solutions/{}.py", "tests/stretch/test_{}.py")
NO_LESSONS = {"stretch", "index", "kata"}
# What the code of a folder may import from this repository by an absolute name.
ARROWS = {
    "solutions": {"solutions"},
    "lessons": {"lessons"},
    "kata": {"kata", "lessons", "solutions"},
}


@pytest.mark.parametrize("pattern", FOLDERS)
def test_every_lesson_has_its_file_in_every_folder(pattern: str):
    asked = [name for name in NAMES if has_core(name) or pattern not in OF_CORES]
    assert not [name for name in asked if not is_there(ROOT / pattern.format(name))]


@pytest.mark.parametrize("pattern", FOLDERS)
def test_no_folder_holds_what_is_no_lesson(pattern: str):
    folder, prefix = (ROOT / pattern).parent, (ROOT / pattern).stem.format("")
    found = {path.stem.removeprefix(prefix) for path in folder.glob(f"{prefix}*") if is_file(path)}
    strangers = {name for name in found - set(NAMES) - NO_LESSONS if not name.startswith("_")}
    assert not strangers


def is_there(file: Path) -> bool:
    """A lesson is a file, or a package of the same name."""
    return file.exists() or (file.with_suffix("") / "__init__.py").exists()


def is_file(path: Path) -> bool:
    return path.suffix in (".py", ".md") or (path / "__init__.py").exists()


def test_names_have_no_digits():
    assert not [name for name in NAMES if re.search(r"\d", name)]


def test_a_lesson_stands_on_earlier_ones_only():
    for position, lesson in enumerate(LESSONS):
        assert set(lesson.needs) <= set(NAMES[:position]), f"{lesson.name} needs {lesson.needs}"


def test_the_stubs_are_fresh(tmp_path: Path):
    assert not stale_in(ROOT / "lessons"), "run `nox -s stubs`"


@pytest.mark.parametrize("part", ["core", pytest.param("not core", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "lesson",
    [*NAMES[:-1], pytest.param(NAMES[-1], marks=pytest.mark.slow)],  # exports are slow
)
def test_on_the_pristine_stub_every_test_is_todo(lesson: str, part: str, tmp_path: Path):
    write(tmp_path)
    verdict = judge_folder(tmp_path, *suites(lesson), "-m", part)
    strangers = [report for report in verdict.reports if not getattr(report, "todo", False)]
    without_cuda = [report for report in strangers if "CUDA" in str(report.longrepr)]
    assert [report.nodeid for report in strangers] == [report.nodeid for report in without_cuda]
    assert verdict.count("todo") > 0


@pytest.mark.parametrize("body", ["pass", "return None", "return {first}"])
@pytest.mark.parametrize("lesson", NAMES)
def test_a_trivial_body_passes_no_lesson(lesson: str, body: str, tmp_path: Path):
    write(tmp_path)
    for module in modules_of(lesson):
        file = tmp_path / module.stub
        file.write_text(with_trivial_bodies(file.read_text(), body))
    verdict = judge_folder(tmp_path, *suites(lesson), "-m", "not slow", "-x")
    assert verdict.texts(), f"{lesson} is passed by `{body}`"


def with_trivial_bodies(stub: str, body: str) -> str:
    """The stub with every ``raise NotImplementedError`` replaced by a body that does nothing."""
    tree = ast.parse(stub)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and isinstance(function.body[-1], ast.Raise):
            function.body[-1:] = ast.parse(body.format(first=first_argument(function))).body
    return ast.unparse(tree)


def first_argument(function: ast.FunctionDef) -> str:
    names = [argument.arg for argument in function.args.args if argument.arg != "self"]
    return names[0] if names else "None"


def test_the_readme_lists_the_lessons_in_order():
    table = re.findall(r"^\| \d+ \| \[`(\w+)`\]", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert table == NAMES


@pytest.mark.parametrize("folder", ARROWS)
def test_imports_run_one_way(folder: str):
    packages = {"kata", "lessons", "solutions", "tests", "benchmarks"}
    for file in (ROOT / folder).rglob("*.py"):
        foreign = imported_packages(file) & packages - ARROWS[folder]
        assert not foreign, f"{file.relative_to(ROOT)} imports {sorted(foreign)}"


def imported_packages(file: Path) -> set[str]:
    """The first part of every absolute import in a file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.split(".")[0])
    return names
