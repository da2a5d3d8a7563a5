"""The command ``doctor``: what the lessons need, what is there, and what to do about the rest.

It is wanted where something is broken, so it needs nothing but an old Python: no package, none of
the runner's other modules, not even ``lessons/``. Imports that may fail, or take the process with
them, are tried in a process of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
OK, NOTE, PROBLEM = "ok", "note", "problem"
MEGABYTE = 2**20
LITTLE_SPACE, TOO_LITTLE_SPACE = 1000 * MEGABYTE, 100 * MEGABYTE
SECONDS = 120
INSTALL = "pip install --constraint constraints.txt"
TORCH = """
import json, torch
torch.ones(2).sum().item()
print(json.dumps([torch.__version__, torch.cuda.is_available()]))
"""
TORCHVISION = """
import json
from kata.torchvision_compat import DECLARED, torchvision
torchvision.models.resnet18
print(json.dumps([torchvision.__version__, DECLARED]))
"""
LESSONS = """
import json, lessons
print(json.dumps(len(lessons.LESSONS)))
"""


class Finding(NamedTuple):
    """What was looked at, what was found (``ok``, ``note`` or ``problem``), and what helps."""

    name: str
    state: str
    words: str
    remedy: str = ""


class Tried(NamedTuple):
    """What a piece of code printed as JSON in a process of its own, or why it didn't."""

    printed: Any = None
    error: str = ""


def main(argv: list[str]) -> int:
    """Print a line for each thing looked at; the exit code is 1 if there is a problem."""
    parser = argparse.ArgumentParser(prog="kata doctor", description="check your setup")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.add_argument("--plain", action="store_true", help="the same: it uses no colours")
    arguments = parser.parse_args(argv)
    found = list(findings())
    if arguments.json:
        print(json.dumps([finding._asdict() for finding in found], indent=2))
    else:
        show(found)
    return int(any(finding.state == PROBLEM for finding in found))


def show(found: list[Finding]) -> None:
    width = shutil.get_terminal_size().columns
    for finding in found:
        remedy = [f"remedy: {finding.remedy}"] if finding.remedy else []
        for number, text in enumerate([f"{finding.name}: {finding.words}", *remedy]):
            label = "" if number else finding.state
            print(textwrap.fill(text, width, initial_indent=f"{label:<10}", **BESIDE))
    problems = sum(finding.state == PROBLEM for finding in found)
    print()
    print(textwrap.fill(conclusion(problems), width))


BESIDE: dict[str, Any] = {"subsequent_indent": " " * 10, "break_on_hyphens": False}


def conclusion(problems: int) -> str:
    if not problems:
        return "everything that the lessons need is there"
    return f"{problems} problem{'s' * (problems > 1)}: start with the first one"


def findings() -> Iterator[Finding]:
    """Look at everything; an old Python comes first, as nothing works on it."""
    yield python()
    yield from packages()
    torch = tried(TORCH)
    yield imported("import torch", torch, f"{INSTALL} --force-reinstall torch torchvision")
    yield pair()
    if not torch.error:
        yield torchvision(tried(TORCHVISION), beside=torch.printed[0])
    yield lessons(tried(LESSONS))
    yield writable("lessons")
    yield writable(".kata")
    yield disk()
    yield fork()
    yield git()
    if not torch.error:
        yield cuda(torch)


def tried(code: str) -> Tried:
    """Run code in a fresh Python that prints one line of JSON."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Tried(error=f"it hangs: nothing came in {SECONDS} seconds")
    if done.returncode < 0:
        return Tried(error=f"it was killed by {signal.Signals(-done.returncode).name}")
    if done.returncode:
        return Tried(error=(done.stderr.strip().splitlines() or ["it failed silently"])[-1])
    return Tried(printed=json.loads(done.stdout.splitlines()[-1]))


def project() -> str:
    """The project's own description; read without a parser, which an old Python lacks."""
    return (ROOT / "pyproject.toml").read_text(encoding="utf-8")


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
            yield Finding(name, PROBLEM, words, f"{INSTALL} {name}")


def numbers(text: str) -> tuple[int, ...]:
    """A version as numbers: what can be compared of it."""
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[+a-z]", text)[0]))


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def imported(name: str, attempt: Tried, remedy: str) -> Finding:
    if attempt.error:
        return Finding(name, PROBLEM, attempt.error, remedy)
    return Finding(name, OK, f"works ({attempt.printed[0]})")


def pair() -> Finding:
    """Whether torchvision was made for a torch of this version."""
    name, remedy = "torch and torchvision", f"{INSTALL} torch torchvision"
    torch, torchvision = installed("torch"), installed("torchvision")
    if not torch or not torchvision:
        return Finding(name, PROBLEM, "not both are installed", remedy)
    wanted = torch_wanted_by_torchvision()
    if wanted is None or numbers(wanted) == numbers(torch):
        return Finding(name, OK, f"{torch} and {torchvision} are a pair")
    words = f"torchvision {torchvision} is made for torch =={wanted}, and {torch} is here"
    return Finding(name, PROBLEM, words, remedy)


def torch_wanted_by_torchvision() -> str | None:
    for requirement in requires("torchvision") or ():
        found = re.match(r"torch\s*\(?==\s*([\d.]+)", requirement)
        if found:
            return found[1]
    return None


def torchvision(attempt: Tried, *, beside: str) -> Finding:
    """Whether torchvision can be imported, by itself or with its operators declared."""
    name = "import torchvision"
    if attempt.error or not attempt.printed[1]:
        return imported(name, attempt, f"{INSTALL} --force-reinstall torchvision")
    own_version, declared = attempt.printed
    words = f"{own_version} beside torch {beside}: its compiled {', '.join(declared)} don't load"
    return Finding(name, NOTE, words, "none is needed: the lessons declare them")


def lessons(attempt: Tried) -> Finding:
    """Whether the table of lessons can be read: every other command begins with it."""
    if attempt.error:
        remedy = "`git checkout -- lessons/__init__.py`: nothing of yours belongs there"
        return Finding("import lessons", PROBLEM, attempt.error, remedy)
    return Finding("import lessons", OK, f"{attempt.printed} lessons")


def writable(name: str) -> Finding:
    """Whether files can be made in a folder of the repository; a missing one is made."""
    folder = ROOT / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return Finding(f"write to {name}/", OK, "works")
    except OSError as error:
        remedy = f"move away what stands there, or `chmod -R u+w {name}`"
        return Finding(f"write to {name}/", PROBLEM, f"{error.strerror}", remedy)


def disk() -> Finding:
    free = free_space()
    state = PROBLEM if free < TOO_LITTLE_SPACE else NOTE if free < LITTLE_SPACE else OK
    remedy = "" if state == OK else "free some space: copies and results need a little"
    return Finding("disk", state, f"{free // MEGABYTE} MB are free", remedy)


def free_space() -> int:
    return shutil.disk_usage(ROOT).free


def fork() -> Finding:
    if hasattr(os, "fork"):
        return Finding("fork", OK, "works")
    words = "this system has none: every run starts a fresh Python, which takes seconds"
    return Finding("fork", NOTE, words, "none is needed; WSL has fork")


def git() -> Finding:
    if shutil.which("git"):
        return Finding("git", OK, "is there")
    return Finding("git", NOTE, "isn't there: it brings new versions (`git pull`)", "install git")


def cuda(torch: Tried) -> Finding:
    words = "is there" if torch.printed[1] else "isn't there: the tests marked gpu are skipped"
    return Finding("CUDA", OK, words)
