"""Set-up: torchvision beside any torch, and what the first lessons may do without."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from kata.paths import ROOT

TRACE_RESNET18 = """
import torch.fx
from kata.torchvision_compat import DECLARED, torchvision
assert len(torch.fx.Tracer().trace(torchvision.models.resnet18()).nodes) == 71
print(sorted(DECLARED))
"""
PLAIN_IMPORT_WORKS = """
try:
    import torchvision
except RuntimeError as error:
    print("operator torchvision::nms does not exist" in str(error))
else:
    print("imported")
"""


def run(code: str) -> str:
    """Return what a fresh interpreter prints."""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_torchvision_imports_beside_this_torch_and_only_what_is_missing_is_declared():
    plain = run(PLAIN_IMPORT_WORKS)
    declared = run(TRACE_RESNET18)
    assert (plain, declared) in [("True", "['nms', 'qnms']"), ("imported", "[]")]


def test_another_error_of_torchvisions_import_is_not_hidden():
    broken = "import sys; sys.modules['torchvision'] = None\n"
    expected = "except ImportError: print('ImportError')"
    assert run(f"{broken}try: import kata.torchvision_compat\n{expected}") == "ImportError"


def test_two_lessons_need_no_torchvision():
    code = """
import sys; sys.modules["torchvision"] = None
import pytest
names = ["create_arg", "placeholders"]
tests = [f"tests/test_{name}.py" for name in names]
code = pytest.main(["-q", "--impl=full", "-p", "no:xdist", *tests])
assert code == 0, code
"""
    assert "passed" in run(code)


@pytest.mark.parametrize("name", ["torch", "torchvision"])
def test_the_workshop_version_is_pinned_inside_the_supported_range(name: str):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lowest = next(r for r in project["dependencies"] if r.startswith(f"{name}>=")).split(">=")[1]
    pins = dict(line.split("==") for line in constraints())
    assert numbers(pins[name]) >= numbers(lowest)


def constraints() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def test_pytest_outside_of_the_environment_says_what_to_do():
    """Where torch isn't there, one sentence takes the place of a traceback."""
    code = """
import importlib.util, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "torch" else found(name, *more)
import pytest
sys.exit(pytest.main(["tests/test_path_of_module.py"]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 4
    assert "source .venv/bin/activate" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
