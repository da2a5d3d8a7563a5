"""Race the reference against torch; what follows goes to ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from kata.naming import add_lesson
from kata.stubs import ROOT


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_lesson(parser, nargs="*", help="time these lessons only")
    parser.add_argument("--quick", action="store_true", help="a few small cases")
    parser.add_argument("--write", action="store_true", help="write benchmarks/figures.md")


def main(arguments: argparse.Namespace) -> int:
    flags = [f"--{name}" for name in ("quick", "write") if getattr(arguments, name)]
    command = [sys.executable, "-m", "benchmarks", *arguments.lesson, *flags]
    one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    # In a session of its own, Ctrl-C interrupts this process alone, which then ends the other.
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | one_thread, check=False, start_new_session=True
    ).returncode
