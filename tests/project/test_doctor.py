"""``doctor``: each problem of the environment is named, with a fix."""

from __future__ import annotations

import ast
import os
import shutil
import sys
from pathlib import Path

import pytest

from kata.commands import doctor
from kata.commands.doctor import OK, PROBLEM, imported
from kata.paths import ROOT
from tests.project.stage import python


def diagnose(packages: Path) -> tuple[int, str]:
    """Let the doctor look at an environment in which these packages come first."""
    environment = {**os.environ, "PYTHONPATH": str(packages), "COLUMNS": "300"}
    done = python("-m", "kata", "doctor", env=environment)
    assert done.stdout, done.stderr
    return done.returncode, done.stdout


def package(folder: Path, name: str, version: str, code: str) -> None:
    """Put a package into the folder, as pip would leave it."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(f"__version__ = {version!r}\n{code}")
    information = folder / f"{name}-{version}.dist-info"
    information.mkdir()
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (information / "METADATA").write_text(text)


def test_a_torch_whose_libraries_do_not_load_is_a_problem(tmp_path: Path):
    message = "libcudart.so.13: cannot open shared object file"
    package(tmp_path, "torch", "2.13.0", f"raise ImportError({message!r})")
    code, shown = diagnose(tmp_path)
    assert code == 1
    assert f"problem   import torch: ImportError: {message}" in shown
    assert "--force-reinstall torch torchvision" in shown


def test_an_old_torch_that_kills_python_is_a_problem_and_the_rest_is_checked(tmp_path: Path):
    package(tmp_path, "torch", "2.4.1", "import os; os.abort()")
    code, shown = diagnose(tmp_path)
    assert code == 1
    assert "problem   torch: 2.4.1 is here, >=2.11 is needed" in shown
    assert "problem   import torch: it was killed by SIGABRT" in shown
    assert "ok        import lessons: works" in shown


def test_a_missing_package_is_a_problem(monkeypatch):
    monkeypatch.setattr(doctor, "installed", lambda name: None if name == "rich" else "99")
    found = {finding.name: finding for finding in doctor.packages()}
    assert found["rich"].state is PROBLEM
    assert found["rich"].remedy.endswith(" rich")
    assert found["torch"].state is OK
    monkeypatch.setattr(doctor, "OUTSIDE", True)
    assert [each.remedy for each in doctor.packages() if each.state == PROBLEM] == [doctor.ACTIVATE]


def test_an_old_python_is_a_problem(monkeypatch):
    monkeypatch.setattr(doctor.platform, "python_version", lambda: "3.9.18")
    assert doctor.python().state is PROBLEM
    assert "3.9.18 is here, >=3.11,<3.15 is needed" in doctor.python().words
    monkeypatch.setattr(doctor.platform, "python_version", lambda: "3.15.0")
    assert doctor.python().state is PROBLEM


def test_a_child_that_fails_or_dies_is_described_by_its_last_line():
    assert imported("x", "raise ValueError('why')", "").words == "ValueError: why"
    assert imported("x", "import os; os._exit(3)", "").words == "it failed silently"


def copy_of_the_runner(folder: Path) -> Path:
    """A repository in which something can be broken."""
    for name in ("kata", "lessons"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def run_in(folder: Path, *words: str) -> tuple[int, str]:
    done = python("-m", "kata", *words, cwd=folder)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def test_without_torch_a_check_says_so_and_what_helps(tmp_path: Path, monkeypatch):
    folder = copy_of_the_runner(tmp_path / "kata")
    for name in ("given", "solutions", "tests"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "conftest.py", folder)
    with (folder / "lessons" / "path_of_module.py").open("a") as lesson:
        lesson.write("begun = True\n")
    hidden = tmp_path / "hidden" / "torch"
    hidden.mkdir(parents=True)
    missing = "No module named 'torch'"
    (hidden / "__init__.py").write_text(f"raise ModuleNotFoundError({missing!r})")
    monkeypatch.setenv("PYTHONPATH", str(hidden.parent))
    code, shown = run_in(folder, "check", "path_of_module")
    assert code == 1
    assert missing in shown
    assert "`kata doctor` checks your setup" in shown
    assert "todo " not in shown


@pytest.mark.parametrize("broken", ["no lessons", "no rich", "a syntax error"])
def test_it_works_where_the_other_commands_do_not(broken: str, tmp_path: Path):
    folder = copy_of_the_runner(tmp_path)
    if broken == "no lessons":
        gone = "raise ModuleNotFoundError(\"No module named 'lessons'\")"
        (folder / "lessons" / "__init__.py").write_text(gone)
    elif broken == "no rich":
        (folder / "rich").mkdir()
        (folder / "rich" / "__init__.py").write_text("raise ImportError('no rich is here')")
    else:
        (folder / "lessons" / "__init__.py").write_text("def (")
    code, shown = run_in(folder)
    assert code == 1
    assert "`kata doctor` checks your setup" in shown
    code, shown = run_in(folder, "doctor")
    assert "remedy:" in shown or broken == "no rich"
    assert "import torch: works" in " ".join(shown.split())


def test_an_old_python_can_read_it():
    """It imports nothing that came with 3.11, and nothing of the runner's."""
    tree = ast.parse((ROOT / "kata" / "commands" / "doctor.py").read_text(), feature_version=(3, 8))
    modules = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert modules <= set(sys.stdlib_module_names) - {"tomllib"}
    assert "StrEnum" not in ast.unparse(tree)
