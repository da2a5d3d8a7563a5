"""The command ``doctor``: what the lessons need, what is there, and what to do about the rest.

You want it when something is broken, so it needs no package, none of the runner's other modules,
and not even ``lessons/``. It tries imports that may fail, or take the process with them, in a
process of their own.
"""

from __future__ import annotations

import platform
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
OK, PROBLEM = "ok", "problem"
OUTSIDE = (ROOT / ".venv").is_dir() and Path(sys.prefix).resolve() != (ROOT / ".venv").resolve()
ACTIVATE = "activate the project's environment first: `source .venv/bin/activate`"
INSTALL = "pip install --constraint constraints.txt"
PLAIN_IMPORT = (
    "built for another torch, so a plain `import torchvision` fails in your own scripts: start "
    "them with `kata run`, or import it from `kata.torchvision_compat`"
)
# Imports to try: the code, which prints what it found, and the fix.
IMPORTS = {
    "import torch": (
        "import torch; torch.ones(2).sum().item(); "
        "print(torch.__version__, 'with CUDA' if torch.cuda.is_available() else 'without CUDA')",
        f"{INSTALL} --force-reinstall torch torchvision",
    ),
    "import torchvision": (
        "from kata.torchvision_compat import DECLARED, torchvision; torchvision.models.resnet18; "
        f"print(torchvision.__version__, {PLAIN_IMPORT!r} * bool(DECLARED))",
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
    """Print a line for each check; the exit code is 1 if there is a problem."""
    found = list(findings())
    for finding in found:
        print(f"{finding.state:<10}{finding.name}: {finding.words}")
        if finding.state == PROBLEM:
            print(f"{'':<10}remedy: {finding.remedy}")
    problems = sum(finding.state == PROBLEM for finding in found)
    several = f"{problems} problem{'s' * (problems > 1)}: start with the first one"
    print(f"\n{several if problems else 'everything that the lessons need is there'}")
    return int(problems > 0)


def findings() -> Iterator[Finding]:
    """Check everything; Python comes first, because nothing works on an old one."""
    yield python()
    yield from packages()
    for name, (code, remedy) in IMPORTS.items():
        yield imported(name, code, remedy)


def python() -> Finding:
    pattern = r'^requires-python = ">=([\d.]+),<([\d.]+)"'
    oldest, too_new = re.findall(pattern, project(), re.MULTILINE)[0]
    here = platform.python_version()
    if numbers(oldest) <= numbers(here) < numbers(too_new):
        return Finding("Python", OK, here)
    wanted = f"a Python from {oldest} on and below {too_new}"
    remedy = f"install {wanted}, remove .venv, and run `nox -s kata` with it"
    return Finding("Python", PROBLEM, f"{here} is here, >={oldest},<{too_new} is needed", remedy)


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
    """Return a version as numbers that can be compared."""
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[+a-z]", text)[0]))


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def imported(name: str, code: str, remedy: str) -> Finding:
    """Import something in a fresh Python, which prints what it found, or dies of it."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if not done.returncode:
        return Finding(name, OK, f"works ({done.stdout.strip()})")
    words = (done.stderr.strip().splitlines() or ["it failed silently"])[-1]
    if done.returncode < 0:
        words = f"it was killed by {signal.Signals(-done.returncode).name}"
    return Finding(name, PROBLEM, words, remedy)
