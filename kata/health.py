"""Look at the environment: one finding for each thing that the lessons need.

Imports that may fail, or take the process with them, are tried in a process of their own.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from kata import places
from kata.stubs import ROOT

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


class State(StrEnum):
    """What a finding comes to: fine, worth knowing, or in the way."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


class Finding(NamedTuple):
    """What was looked at, what was found, and what helps."""

    name: str
    state: State
    words: str
    remedy: str = ""


class Tried(NamedTuple):
    """What a piece of code printed as JSON in a process of its own, or why it didn't."""

    printed: Any = None
    error: str = ""


def findings() -> list[Finding]:
    """Look at everything; the imports are tried at the same time."""
    with ThreadPoolExecutor() as pool:
        torch, torchvision = pool.map(tried, (TORCH, TORCHVISION))
    return [
        python(),
        *packages(),
        imported_torch(torch),
        pair(),
        *([] if torch.error else [imported_torchvision(torchvision, beside=torch.printed[0])]),
        *(writable(folder) for folder in (places.HERE.lessons, places.HERE.memory)),
        disk(),
        fork(),
        git(),
        *([] if torch.error else [cuda(torch)]),
    ]


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


def project() -> dict[str, Any]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table: dict[str, Any] = tomllib.loads(text)["project"]
    return table


def python() -> Finding:
    wanted, here = project()["requires-python"], platform.python_version()
    if SpecifierSet(wanted).contains(here, prereleases=True):
        return Finding("Python", State.OK, here)
    remedy = f"install Python {wanted}, remove .venv and run `nox -s kata` with it"
    return Finding("Python", State.PROBLEM, f"{here} is here, {wanted} is needed", remedy)


def packages() -> Iterator[Finding]:
    """A finding for each package that the project needs, by its installed metadata."""
    for text in project()["dependencies"]:
        requirement = Requirement(text)
        here = installed(requirement.name)
        if here and requirement.specifier.contains(here, prereleases=True):
            yield Finding(requirement.name, State.OK, here)
        else:
            words = f"{here or 'none'} is here, {requirement.specifier} is needed"
            yield Finding(requirement.name, State.PROBLEM, words, f"{INSTALL} {requirement.name}")


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def imported_torch(torch: Tried) -> Finding:
    if not torch.error:
        return Finding("import torch", State.OK, f"works ({torch.printed[0]})")
    remedy = f"{INSTALL} --force-reinstall torch torchvision"
    return Finding("import torch", State.PROBLEM, torch.error, remedy)


def pair() -> Finding:
    """Whether torchvision was made for a torch of this version."""
    name = "torch and torchvision"
    torch, torchvision = installed("torch"), installed("torchvision")
    if not torch or not torchvision:
        return Finding(
            name, State.PROBLEM, "not both are installed", f"{INSTALL} torch torchvision"
        )
    wanted = torch_wanted_by_torchvision()
    if wanted is None or wanted.contains(torch, prereleases=True):
        return Finding(name, State.OK, f"{torch} and {torchvision} are a pair")
    words = f"torchvision {torchvision} is made for torch {wanted}, and {torch} is here"
    return Finding(name, State.PROBLEM, words, f"{INSTALL} torch torchvision")


def torch_wanted_by_torchvision() -> SpecifierSet | None:
    requirements = [Requirement(text) for text in requires("torchvision") or ()]
    wanted = [each.specifier for each in requirements if each.name == "torch"]
    return wanted[0] if wanted else None


def imported_torchvision(torchvision: Tried, *, beside: str) -> Finding:
    """Whether torchvision can be imported, by itself or with its operators declared."""
    name = "import torchvision"
    if torchvision.error:
        remedy = f"{INSTALL} --force-reinstall torchvision"
        return Finding(name, State.PROBLEM, torchvision.error, remedy)
    own_version, declared = torchvision.printed
    if not declared:
        return ok(name, f"works ({own_version})")
    missing = ", ".join(declared)
    words = f"{own_version} beside torch {beside}: its compiled {missing} don't load"
    return Finding(name, State.NOTE, words, "none is needed: the lessons declare them")


def writable(folder: Path) -> Finding:
    """Whether files can be made in the folder; the folder is made where it is missing."""
    name = f"write to {places.shown(folder)}/"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return Finding(name, State.OK, "works")
    except OSError as error:
        remedy = f"move away what stands there, or `chmod -R u+w {places.shown(folder)}`"
        return Finding(name, State.PROBLEM, f"{error.strerror}", remedy)


def disk() -> Finding:
    free = free_space()
    words, remedy = f"{free // MEGABYTE} MB are free", "make room: copies and results need a little"
    if free < TOO_LITTLE_SPACE:
        return Finding("disk", State.PROBLEM, words, remedy)
    return Finding("disk", State.NOTE, words, remedy) if free < LITTLE_SPACE else ok("disk", words)


def free_space() -> int:
    return shutil.disk_usage(ROOT).free


def ok(name: str, words: str) -> Finding:
    return Finding(name, State.OK, words)


def fork() -> Finding:
    if hasattr(os, "fork") and "fork" in multiprocessing.get_all_start_methods():
        return ok("fork", "works")
    words = "this system has none: every run starts a fresh Python, which takes seconds"
    return Finding("fork", State.NOTE, words, "none is needed; WSL has fork")


def git() -> Finding:
    if shutil.which("git"):
        return ok("git", "is there")
    words = "isn't there: `kata update` can't merge a changed stub"
    return Finding("git", State.NOTE, words, "install git")


def cuda(torch: Tried) -> Finding:
    words = "is there" if torch.printed[1] else "isn't there: the tests marked gpu are skipped"
    return ok("CUDA", words)
