"""Set-up: torchvision beside any torch, no torch at all, and the environment that nox builds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

import noxfile
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
