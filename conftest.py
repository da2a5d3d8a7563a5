"""Whose code the suite runs; pytest reads options from here, or from plugins named here."""

import pytest

pytest_plugins = ["tests.suite.plugin", "tests.suite.reporting"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--impl``, ``--lessons`` and ``--shuffle``."""
    group = parser.getgroup("fx-kata")
    group.addoption(
        "--impl",
        choices=("lessons", "core", "solutions", "torch"),
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
        "--shuffle",
        metavar="SEED",
        type=int,
        help="run the tests in a random order; the same seed gives the same order",
    )
