"""The command ``doctor``: what the lessons need, what is there, and what to do about the rest.

It is wanted where something is broken, so it needs nothing but an old Python: no package, none of
the runner's other modules, not even ``lessons/``. Imports that may fail, or take the process with
them, are tried in a process of their own.
"""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
OK, PROBLEM = "ok", "problem"
SECONDS = 120
OUTSIDE = (ROOT / ".venv").is_dir() and Path(sys.prefix).resolve() != (ROOT / ".venv").resolve()
ACTIVATE = "activate the project's environment first: `source .venv/bin/activate`"
INSTALL = "pip install --constraint constraints.txt"
# Imports that are tried: the code, which prints what it found, and what helps where it fails.
IMPORTS = {
    "import torch": (
        """
import torch
torch.ones(2).sum().item()
there = "CUDA is there" if torch.cuda.is_available() else "no CUDA: tests marked gpu are skipped"
print(f"{torch.__version__}, {there}")
""",
        f"{INSTALL} --force-reinstall torch torchvision",
    ),
    "import torchvision": (
        """
from kata.torchvision_compat import DECLARED, torchvision
torchvision.models.resnet18
made_for = "; its own operators are for another torch, and no lesson needs them" * bool(DECLARED)
print(f"{torchvision.__version__}{made_for}")
""",
        f"{INSTALL} --force-reinstall torchvision",
    ),
    "import lessons": (
        "import lessons; print(len(lessons.LESSONS), 'lessons')",
        "`git checkout -- lessons/__init__.py`: nothing of yours belongs there",
    ),
}


class Finding(NamedTuple):
    """A check, its result (``ok`` or ``problem``), and the fix."""

    name: str
    state: str
    words: str
    remedy: str = ""


def main(argv: list[str]) -> int:
    """Print a line for each thing looked at; the exit code is 1 if there is a problem."""
    parser = argparse.ArgumentParser(prog="kata doctor", description="check your setup")
    parser.add_argument("--plain", action="store_true", help="the same: it uses no colours")
    parser.parse_args(argv)
    found = list(findings())
    for finding in found:
        remedy = [f"remedy: {finding.remedy}"] if finding.remedy else []
        for number, text in enumerate([f"{finding.name}: {finding.words}", *remedy]):
            print(beside("" if number else finding.state, text))
    problems = sum(finding.state == PROBLEM for finding in found)
    several = f"{problems} problem{'s' * (problems > 1)}: start with the first one"
    print(f"\n{several if problems else 'everything that the lessons need is there'}")
    return int(problems > 0)


def beside(label: str, text: str) -> str:
    """The text beside its label; further lines stand under the first one's words."""
    indent: dict[str, Any] = {"initial_indent": f"{label:<10}", "subsequent_indent": " " * 10}
    return textwrap.fill(text, shutil.get_terminal_size().columns, break_on_hyphens=False, **indent)


def findings() -> Iterator[Finding]:
    """Look at everything; an old Python comes first, as nothing works on it."""
    yield python()
    yield from packages()
    for name, (code, remedy) in IMPORTS.items():
        yield imported(name, code, remedy)
    yield writable("lessons")
    yield writable(".kata")


def python() -> Finding:
    wanted = re.findall(r'^requires-python = ">=([\d.]+)"', project(), re.MULTILINE)[0]
    here = platform.python_version()
    if numbers(here) >= numbers(wanted):
        return Finding("Python", OK, here)
    remedy = f"install Python {wanted} or newer, remove .venv, and run `nox -s kata` with it"
    return Finding("Python", PROBLEM, f"{here} is here, >={wanted} is needed", remedy)


def packages() -> Iterator[Finding]:
    """A finding for each package that the project needs, by its installed metadata."""
    listed = re.findall(r"^dependencies = \[(.*?)\]", project(), re.MULTILINE | re.DOTALL)[0]
    for name, wanted in re.findall(r'"([\w.-]+)>=([\d.]+)"', listed):
        here = installed(name)
        if here and numbers(here) >= numbers(wanted):
            yield Finding(name, OK, here)
        else:
            words = f"{here or 'none'} is here, >={wanted} is needed"
            yield Finding(name, PROBLEM, words, ACTIVATE if OUTSIDE else f"{INSTALL} {name}")


def project() -> str:
    """The project's own description; read without a parser, which an old Python lacks."""
    return (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def numbers(text: str) -> tuple[int, ...]:
    """A version as numbers: what can be compared of it."""
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[+a-z]", text)[0]))


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def imported(name: str, code: str, remedy: str) -> Finding:
    """Import something in a fresh Python, which says what it found, or dies of it."""
    command = [sys.executable, "-c", code]
    options: dict[str, Any] = {"capture_output": True, "text": True, "errors": "replace"}
    try:
        done = subprocess.run(command, cwd=ROOT, timeout=SECONDS, check=False, **options)
    except subprocess.TimeoutExpired:
        return Finding(name, PROBLEM, f"it hangs: nothing came in {SECONDS} seconds", remedy)
    if not done.returncode:
        return Finding(name, OK, f"works ({done.stdout.strip()})")
    words = (done.stderr.strip().splitlines() or ["it failed silently"])[-1]
    if done.returncode < 0:
        words = f"it was killed by {signal.Signals(-done.returncode).name}"
    return Finding(name, PROBLEM, words, remedy)


def writable(name: str) -> Finding:
    """Return whether files can be made in a folder of the repository; a missing one is made."""
    folder = ROOT / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return Finding(f"write to {name}/", OK, "works")
    except OSError as error:
        remedy = f"move away what is there, or `chmod -R u+w {name}`"
        return Finding(f"write to {name}/", PROBLEM, f"{error.strerror}", remedy)
