"""Ctrl-C ends a command quietly with exit code 130."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kata.paths import ROOT
from tests.project.terminal import terminal
from tools.stubs import write

INTERRUPTED = 130
# Press Ctrl-C in a command, and once more while it tidies up.
TWICE = """
import os, signal, sys
from kata.__main__ import main
from kata.commands import overview

def command(arguments):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        os.kill(os.getpid(), signal.SIGINT)

overview.main = command
sys.argv = ["kata"]
sys.exit(main())
"""


def test_once_more_while_it_tidies_up():
    done = subprocess.run([sys.executable, "-c", TWICE], cwd=ROOT, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, b"", b"")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["importing torch", "judging", "Ctrl-C: quit"])
def test_while_the_watch_is_on(moment: str, tmp_path: Path):
    write(tmp_path / "lessons")
    command = [sys.executable, "-m", "kata", "watch", "--lessons", str(tmp_path / "lessons")]
    with terminal(command, ROOT) as watch:
        watch.until(moment)
        watch.process.send_signal(signal.SIGINT)
        assert watch.end() == INTERRUPTED
        assert "Traceback" not in watch.text
