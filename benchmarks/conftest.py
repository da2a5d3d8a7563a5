"""The pytest side: `pytest benchmarks/test_tracer.py` times your lesson, and torch beside it."""

from __future__ import annotations

import pytest
import torch

from benchmarks.case import MANY

COLUMNS = ["median", "min", "max", "rounds"]


def pytest_configure(config: pytest.Config) -> None:
    """Show what fits on a terminal, and compare on one thread."""
    torch.set_num_threads(1)
    if not any("--benchmark-columns" in word for word in config.invocation_params.args):
        config.option.benchmark_columns = COLUMNS
    # A lesson that isn't written yet fails the comparison, before anything is timed.
    config.addinivalue_line("filterwarnings", "ignore:Benchmark fixture was not used")
    # What TorchInductor warns of says nothing about times.
    for warning in ("DeprecationWarning", "pytest.PytestUnraisableExceptionWarning"):
        config.addinivalue_line("filterwarnings", f"ignore::{warning}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a file's test on each of its cases, on this implementation and on torch."""
    if "case" in metafunc.fixturenames:
        cases = [
            pytest.param(case, id=case.name, marks=[pytest.mark.slow] * (case.size >= MANY))
            for case in metafunc.module.CASES
        ]
        metafunc.parametrize("side", ("this", "torch"))
        metafunc.parametrize("case", cases)
