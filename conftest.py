"""Whose code the suite runs; pytest reads options from here, or from plugins named here."""

from importlib.util import find_spec

import pytest

# Outside of the environment, one sentence says more than the traceback of an import.
HAS_TORCH = find_spec("torch") is not None
OUTSIDE = "No module named 'torch': activate the environment first, `source .venv/bin/activate`"

PLUGINS = ["tests.suite.plugin", "tests.suite.reporting", "tests.suite.alone"]
pytest_plugins = PLUGINS if HAS_TORCH else []


def pytest_configure() -> None:
    """Refuse to run where nothing can be imported."""
    if not HAS_TORCH:
        raise pytest.UsageError(f"{OUTSIDE} (`kata doctor` checks your setup)")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--impl``, ``--lessons``, ``--yours``, ``--step`` and ``--shuffle``."""
    group = parser.getgroup("fx-kata")
    group.addoption(
        "--impl",
        choices=("lessons", "core", "full", "torch"),
        default="lessons",
        help="whose code runs: your lessons (the default), the reference (its cores, or whole), "
        "or torch itself",
    )
    group.addoption(
        "--lessons",
        metavar="DIR",
        help="where the lessons lie, if not in lessons/",
    )
    group.addoption(
        "--yours",
        metavar="NAMES",
        help="the lessons that others import from there, between commas (default: those whose core "
        "is green, or all that are written in another folder than lessons/)",
    )
    group.addoption(
        "--step",
        metavar="N",
        type=int,
        default=0,
        help="run the tests of this step alone",
    )
    group.addoption(
        "--shuffle",
        metavar="SEED",
        type=int,
        help="run the tests in a random order; the same seed gives the same order",
    )
