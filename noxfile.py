"""Every check by name: ``nox -l`` lists them, ``nox -s tests`` runs the suite.

The sessions share one environment in ``.venv``, built once from ``constraints.txt``; it's built
again when the requirements change. ``nox --no-venv`` uses the environment that nox runs in.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import nox

ROOT = Path(__file__).parent
PYPROJECT = ROOT / "pyproject.toml"
CONSTRAINTS = ROOT / "constraints.txt"
STAMP = ROOT / ".venv" / "installed.sha256"

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["tests"]
nox.options.reuse_venv = "yes"
# Small tensors: the threads of torch and its libraries cost more than they bring.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

shared = nox.session(venv_backend="venv", venv_location=".venv", reuse_venv=True)


@shared
def tests(session: nox.Session) -> None:
    """Judge the reference, the house rules and the answers; then torch itself."""
    prepare(session)
    pytest = ("python", "-m", "pytest", *session.posargs)
    session.run(*pytest, "--impl", "solutions", env=ONE_THREAD)
    session.run(*pytest, "--impl", "torch", env=ONE_THREAD)


@shared
def kata(session: nox.Session) -> None:
    """Judge your lessons."""
    prepare(session)
    session.run("python", "-m", "pytest", *session.posargs, env=ONE_THREAD, success_codes=[0, 1])


@shared
def lint(session: nox.Session) -> None:
    """Check format, style and types."""
    prepare(session)
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy", "solutions", "kata")


@shared
def stubs(session: nox.Session) -> None:
    """Write the stubs of all lessons from the reference: it overwrites what is in lessons/."""
    prepare(session)
    session.run("python", "-m", "kata.stubs")


@shared
def docs(session: nox.Session) -> None:
    """Build the site into site/; a broken link or anchor is an error."""
    prepare(session)
    session.run("mkdocs", "build", "--strict", *session.posargs)


def prepare(session: nox.Session) -> None:
    """Install everything once; later starts install nothing and need no network."""
    if not session.virtualenv.is_sandboxed:
        return
    wanted = hashlib.sha256(PYPROJECT.read_bytes() + CONSTRAINTS.read_bytes()).hexdigest()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return
    pyproject = nox.project.load_toml(PYPROJECT)
    groups = nox.project.dependency_groups(pyproject, *pyproject["dependency-groups"])
    requirements = [*pyproject["project"]["dependencies"], *groups]
    session.install("--constraint", str(CONSTRAINTS), *requirements)
    STAMP.write_text(wanted)
