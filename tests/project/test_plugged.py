"""The proxies of the first lesson carry the tracer's whole core suite."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kata.stubs import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("impl", ["core", "solutions", "torch"])
def test_the_tracer_s_core_suite_passes_on_our_proxies(impl: str):
    options = ("-p", "tests.suite.plugged", "-p", "no:cacheprovider", "-q", "--impl", impl)
    command = (sys.executable, "-m", "pytest", *options, "tests/test_tracer.py")
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert " passed" in run.stdout
