"""Ctrl-C ends a command quietly with exit code 130, whatever it is doing at the moment."""

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
# Press Ctrl-C when Python looks for a module: that is a moment which can be named.
AT_AN_IMPORT = """
import os, signal, sys
from kata.__main__ import main

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
sys.argv = ["kata", "watch", "--lessons", {lessons!r}]
sys.exit(main())
"""
# Once more while it tidies up, and while Python itself ends.
AGAIN_AND_AGAIN = """
import atexit, os, signal, sys
from kata.__main__ import main
from kata.commands import overview

def press(*arguments):
    os.kill(os.getpid(), signal.SIGINT)

def command(arguments):
    try:
        press()
    finally:
        press()

atexit.register(press)
overview.main = command
sys.argv = ["kata"]
sys.exit(main())
"""


def said(script: str) -> tuple[int, str]:
    """The exit code of a script, and all that it wrote."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    "module",
    [
        "kata.command_line",
        "argparse",
        "lessons",
        "rich.console",
        "kata.commands.watch",
        "kata.judging",
    ],
)
def test_while_the_command_is_imported(module: str, tmp_path: Path):
    write(tmp_path / "lessons")
    script = AT_AN_IMPORT.format(module=module, lessons=str(tmp_path / "lessons"))
    assert said(script) == (INTERRUPTED, "")


def test_once_more_while_it_tidies_up_and_ends():
    assert said(AGAIN_AND_AGAIN) == (INTERRUPTED, "")


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
