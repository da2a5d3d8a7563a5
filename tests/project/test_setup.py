"""Set-up: what doctor says of it, torchvision beside any torch, and the environment of nox."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

import noxfile
from kata.commands import doctor
from kata.commands.doctor import OK, PROBLEM, imported
from kata.paths import ROOT
from kata.progress import write
from tests.project.stage import python

TRACE_RESNET18 = """
import torch.fx
from kata.torchvision_compat import DECLARED, torchvision
assert len(torch.fx.Tracer().trace(torchvision.models.resnet18()).nodes) == 71
print(sorted(DECLARED))
"""
PLAIN_IMPORT = """
try:
    import torchvision
except RuntimeError as error:
    print(error)
"""


def run(code: str) -> str:
    """Return what a fresh interpreter prints."""
    done = python("-W", "error", "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_torchvision_imports_beside_this_torch_and_only_what_is_missing_is_declared():
    error = run(PLAIN_IMPORT)
    assert error in ("", "operator torchvision::nms does not exist")
    assert run(TRACE_RESNET18) == ("['nms', 'qnms']" if error else "[]")


def test_another_error_of_torchvisions_import_is_not_hidden():
    broken = "import sys; sys.modules['torchvision'] = None\n"
    expected = "except ImportError: print('ImportError')"
    assert run(f"{broken}try: import kata.torchvision_compat\n{expected}") == "ImportError"


def test_pytest_outside_of_the_environment_says_what_to_do():
    """Where torch isn't there, one sentence takes the place of a traceback."""
    code = """
import importlib.util, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "torch" else found(name, *more)
import pytest
sys.exit(pytest.main(["tests/test_path_of_module.py"]))
"""
    done = python("-c", code)
    assert done.returncode == 1
    assert "source .venv/bin/activate" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


# --- the shared environment of nox: built once, and rebuilt where it cannot work


@pytest.fixture
def venv(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setattr(noxfile, "VENV", tmp_path / ".venv")
    return tmp_path / ".venv"


def installed(python: Path) -> list[tuple[str, ...]]:
    """Return what nox would run to have the project in this environment."""
    session = mock.Mock(**{"error.side_effect": pytest.fail})
    noxfile.install(session, str(python), "project", "--editable", ".")
    return [call.args for call in session.run.call_args_list]


def test_an_environment_is_built_completed_by_pip_and_kept(venv: Path):
    venv.mkdir()
    python = venv / "bin" / "python"
    build, install = installed(python)
    assert build[1:3] == ("-m", "venv")
    assert install[-2:] == ("--editable", ".")
    assert installed(python) != []  # its Python isn't there, as where one was removed
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    assert installed(python) == []
    (venv / "project.sha256").unlink()
    completed, _ = installed(python)
    assert completed == (str(python), "-m", "ensurepip")


def test_a_python_that_is_too_old_for_the_lessons_is_named(venv: Path, monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    monkeypatch.setattr(noxfile.platform, "python_version", lambda: "3.10.13")
    words = r"Python 3\.11 or newer is needed, and nox runs on 3\.10\.13"
    with pytest.raises(pytest.fail.Exception, match=words):
        installed(venv / "bin" / "python")
    assert not venv.exists()


# --- doctor: each problem of the environment is named, with a fix


def run_in(folder: Path, *words: str) -> tuple[int, str]:
    done = python("-m", "kata", *words, cwd=folder)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def test_an_old_torch_that_kills_python_is_a_problem_and_the_rest_is_checked(
    tmp_path: Path, monkeypatch
):
    information = tmp_path / "torch-2.4.1.dist-info" / "METADATA"
    write(information, b"Metadata-Version: 2.1\nName: torch\nVersion: 2.4.1\n")
    write(tmp_path / "torch" / "__init__.py", b"import os; os.abort()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code, shown = run_in(ROOT, "doctor")
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


def test_a_python_that_is_too_old_or_too_new_is_a_problem(monkeypatch):
    for version in ("3.9.18", "3.15.0"):
        monkeypatch.setattr(doctor.platform, "python_version", lambda: version)
        assert doctor.python().state is PROBLEM
        assert f"{version} is here, >=3.11,<3.15 is needed" in doctor.python().words
        assert "install a Python from 3.11 on and below 3.15" in doctor.python().remedy


def test_a_child_that_fails_or_dies_is_described_by_its_last_line():
    assert imported("x", "raise ValueError('why')", "").words == "ValueError: why"
    assert imported("x", "import os; os._exit(3)", "").words == "it failed silently"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A repository in which something can be broken."""
    for name in ("given", "kata", "lessons", "solutions", "tests"):
        shutil.copytree(ROOT / name, tmp_path / "kata" / name)
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / "kata")
    return tmp_path / "kata"


def test_without_torch_a_check_says_so_and_what_helps(copied: Path, tmp_path: Path, monkeypatch):
    with (copied / "lessons" / "path_of_module.py").open("a") as lesson:
        lesson.write("begun = True\n")
    missing = "No module named 'torch'"
    write(tmp_path / "torch.py", f"raise ModuleNotFoundError({missing!r})".encode())
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code, shown = run_in(copied, "check", "path_of_module")
    assert code == 1
    assert missing in shown
    assert "`kata doctor` checks your setup" in shown
    assert "todo " not in shown


def test_it_works_where_the_other_commands_do_not(copied: Path):
    for file, text in (("lessons/__init__.py", "def ("), ("rich.py", "raise ImportError('no')")):
        write(copied / file, text.encode())
        code, shown = run_in(copied)
        assert code == 1
        assert "`kata doctor` checks your setup" in shown
    shown = run_in(copied, "doctor")[1]
    assert "import torch: works" in shown
    assert shown.count("remedy:") == 1
    assert "`git checkout -- lessons/__init__.py`" in shown


def test_an_old_python_can_read_it():
    ast.parse((ROOT / "kata" / "commands" / "doctor.py").read_text(), feature_version=(3, 8))
