"""Every check by name: ``nox -l`` lists them, ``nox -s tests`` runs the suite.

The sessions share one environment in ``.venv``, built from ``constraints.txt``. Each adds what it
needs, once, and again when the requirements change. ``nox --no-venv`` uses the environment that nox
runs in.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import nox

ROOT = Path(__file__).parent
PYPROJECT = ROOT / "pyproject.toml"
CONSTRAINTS = ROOT / "constraints.txt"
VENV = ROOT / ".venv"

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
OLDEST_PYTHON = tuple(map(int, PYTHONS[0].split(".")))

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["tests"]
VARIABLES = {
    # Small tensors: the threads of torch and its libraries cost more than they bring.
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # Containers set it: each process would then compile all tests again.
    "PYTHONDONTWRITEBYTECODE": "",
}
# The ends of the supported range, and the pinned version.
TORCHES = {
    "oldest": ("torch==2.11.*", "torchvision==0.26.*"),
    "pinned": ("torch==2.13.*", "torchvision==0.28.*"),
    "newest": ("torch", "torchvision"),
}

# In tests/project: what judges answers and stubs, and what else depends on the version of torch.
JUDGING = ["tests/project/test_answers.py", "tests/project/test_stubs.py"]
RULES = [
    f"tests/project/test_{rule}.py"
    for rule in ("given", "hints", "independence", "layers", "like_in_like_out", "models")
]

# nox gives each session an environment of its own; ours share one, so nox makes none.
shared = nox.session(venv_backend="none")


@shared
def tests(session: nox.Session) -> None:
    """Judge cores, solutions and torch; stubs are todo, and wrong answers rejected."""
    python = interpreter(session, "tests")
    # All in one run, whose workers start once, and export each model once. Answers first: the
    # worker that takes one answer judges all of its lesson, and both share what is left at the end.
    others = ("--and", "core", "--and", "torch")
    judge(session, python, "full", "not slow", *others, *JUDGING, *suites())


@shared
def project(session: nox.Session) -> None:
    """Check runner, site and repository."""
    python = interpreter(session, "tests", "docs")
    others = [f"--ignore={file}" for file in JUDGING]
    judge(session, python, "full", "not slow", "tests/project", *others)


@shared
def slow(session: nox.Session) -> None:
    """Run the sweeps that `tests` and `project` leave out: every model, processes, scale.

    The tests of a core are all quick.
    """
    python = interpreter(session, "tests", "docs")
    for implementation in ("full", "torch"):
        judge(session, python, implementation, "slow and not whole")


@shared
def diagnosis(session: nox.Session) -> None:
    """Let each wrong answer meet its lesson's whole suite: the screen still says why it's wrong."""
    options = ("--impl", "full", "-n", "2", "--dist", "worksteal", "-m", "whole")
    run(session, interpreter(session, "tests"), "pytest", *options, *session.posargs)


@nox.session(python=PYTHONS, venv_backend="venv")
@nox.parametrize("torch", list(TORCHES), ids=list(TORCHES))
def compat(session: nox.Session, torch: str) -> None:
    """Judge the reference and torch on other versions of torch and Python; gigabytes each."""
    others = [line for line in CONSTRAINTS.read_text().splitlines() if "torch" not in line]
    constraints = Path(session.create_tmp()) / "constraints.txt"
    constraints.write_text("\n".join(others))
    wanted = (*TORCHES[torch], "--editable", str(ROOT), *requirements("tests"))
    session.install("--constraint", str(constraints), *wanted)
    session.run("python", "-c", "import sys, torch; print(torch.__version__, sys.version)")
    for implementation, files in {"full": [*suites(), *JUDGING, *RULES], "torch": suites()}.items():
        options = ("--impl", implementation, "-n", "2", "-m", "not slow", *files)
        run(session, "python", "pytest", *options, *session.posargs)


@shared
def kata(session: nox.Session) -> None:
    """Say where you are, or run the command after `--`: `nox -s kata -- watch`."""
    run(session, interpreter(session), "kata", *session.posargs)


@shared
def lint(session: nox.Session) -> None:
    """Check format, style, spelling and types."""
    python = interpreter(session, "tests", "lint")
    run(session, python, "ruff", "format", "--check", ".")
    run(session, python, "ruff", "check", ".")
    run(session, python, "codespell_lib")
    run(session, python, "mypy", "given", "solutions", "kata", "drawing", "tools")


@shared
def stubs(session: nox.Session) -> None:
    """Write the stubs of all lessons from the reference; `-- --force` overwrites your work."""
    python = interpreter(session, "tests")
    run(session, python, "tools.stubs", *session.posargs)
    run(session, python, "tools.notebook")


@shared
def notebook(session: nox.Session) -> None:
    """Write the first lesson's notebook; it clones from REPO_URL, if that is set."""
    run(session, interpreter(session, "tests"), "tools.notebook")


@shared
def previews(session: nox.Session) -> None:
    """Draw what a link to the site shows, in a browser, and write it to docs/assets/."""
    run(session, interpreter(session, "site"), "tools.previews")


@shared
def docs(session: nox.Session) -> None:
    """Build the site into site/; a broken link or anchor is an error."""
    python = interpreter(session, "docs")
    run(session, python, "mkdocs", "build", "--strict", *session.posargs)


@shared
def publish(session: nox.Session) -> None:
    """Build the site for the address SITE_URL, with edit links to REPO_URL and, by npm, a box."""
    missing = [name for name in ("SITE_URL", "REPO_URL") if not os.environ.get(name)]
    if missing:
        session.error(f"set {' and '.join(missing)} first; `nox -s docs` needs neither")
    python = interpreter(session, "docs")
    session.env |= {"EDIT_URI": "edit/main/docs/", "BOX": "1"}
    run(session, python, "mkdocs", "build", "--strict")


@shared
def bench(session: nox.Session) -> None:
    """Time the reference beside torch; `-- --write` keeps the figures, `-- --quick` is short."""
    run(session, interpreter(session, "tests", "bench"), "benchmarks", *session.posargs)


@shared
def latency(session: nox.Session) -> None:
    """Time what a learner waits for after a save, lesson by lesson: ten saves of each kind."""
    run(session, interpreter(session, "tests"), "tools.latency", *session.posargs)


@shared
def examples(session: nox.Session) -> None:
    """Run the examples of all pages, and rewrite the outputs that are stale."""
    python = interpreter(session, "tests", "docs")
    run(session, python, "tools.pages.examples", "--write")


@shared
def site(session: nox.Session) -> None:
    """Open every page in a browser, wide and narrow, light and dark; skips where there is none."""
    python = interpreter(session, "tests", "docs", "site")
    session.env["BOX"] = "1"
    run(session, python, "mkdocs", "build", "--strict")
    options = ("--impl", "full", "-n", "2", "-rs", "browser")
    run(session, python, "pytest", *options, *session.posargs)


def suites() -> list[str]:
    """The tests of the lessons, core and stretch."""
    return [*sorted(str(path) for path in Path("tests").glob("test_*.py")), "tests/stretch"]


def judge(session: nox.Session, python: str, impl: str, marked: str, *files: str) -> None:
    """Run tests on one implementation, on two cores."""
    options = ("--impl", impl, "-n", "2", "--dist", "worksteal", "-m", marked)
    run(session, python, "pytest", *options, *files, *session.posargs)


def run(session: nox.Session, python: str, module: str, *arguments: str) -> None:
    """Run a Python module in the shared environment."""
    session.run(python, "-m", module, *arguments, env=VARIABLES, external=True)


def interpreter(session: nox.Session, *groups: str) -> str:
    """The Python of the shared environment: the project, torch with it, and these groups."""
    if "--no-venv" in sys.argv:
        needed = ["torch", "torchvision", "pytest"]
        needed += ["mkdocs", "mkdocstrings"] if "docs" in groups else []
        missing = [name for name in needed if not find_spec(name)]
        if missing:
            session.error(f"install {', '.join(missing)} beside nox first ({sys.executable})")
        return sys.executable
    python = str(VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    install(session, python, "project", "--editable", str(ROOT))
    for group in groups:
        install(session, python, group, *requirements(group))
    return python


def install(session: nox.Session, python: str, name: str, *wanted: str) -> None:
    """Install what is wanted under this name, unless the same was installed before."""
    stamp = VENV / f"{name}.sha256"
    state = hashlib.sha256(PYPROJECT.read_bytes() + CONSTRAINTS.read_bytes()).hexdigest()
    if Path(python).exists() and stamp.exists() and stamp.read_text() == state:
        return
    if not is_usable(python):
        build(session)
    elif not has_pip(python):
        session.run(python, "-m", "ensurepip", external=True)
    pip = (python, "-m", "pip", "install", "--disable-pip-version-check")
    session.run(*pip, "--constraint", str(CONSTRAINTS), *wanted, external=True)
    stamp.write_text(state)


def is_usable(python: str) -> bool:
    """Return whether the environment's Python runs and isn't too old: a removed one is a link."""
    return Path(python).exists() and runs(
        python, f"import sys; sys.exit(sys.version_info < {OLDEST_PYTHON})"
    )


def has_pip(python: str) -> bool:
    """Return whether pip is there: uv leaves it out, and so does Ctrl-C at the wrong moment."""
    return runs(python, "import pip")


def runs(python: str, code: str) -> bool:
    """Return whether this Python runs a line of code without an error."""
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


def build(session: nox.Session) -> None:
    """Build the shared environment anew, with the Python that nox runs on."""
    if sys.version_info < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        session.error(
            f"Python {wanted} or newer is needed, and nox runs on {platform.python_version()}: "
            "install nox with a newer Python"
        )
    # If nox itself is installed in .venv, add to it instead of clearing it.
    holds_nox = VENV.exists() and VENV.samefile(sys.prefix)
    anew = () if holds_nox else ("--clear",)
    session.run(sys.executable, "-m", "venv", *anew, str(VENV), external=True)


def requirements(group: str) -> tuple[str, ...]:
    """The requirements of a dependency group of the project."""
    return nox.project.dependency_groups(nox.project.load_toml(PYPROJECT), group)
