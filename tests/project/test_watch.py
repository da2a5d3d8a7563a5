"""``kata watch``, as a learner uses it: on a terminal, with an editor, until Ctrl-C."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kata.commands.watch import Saves
from kata.paths import ROOT
from tests.project.stage import python
from tests.project.submissions import LOOPS_FOREVER, STARRED, answer
from tests.project.terminal import Terminal, terminal

INTERRUPTED = 130
WATCH = [sys.executable, "-m", "kata", "watch"]
FORGETS_THE_ROOT = answer("""\
for path, module in self.root.named_modules():
    if module is mod:
        return path or "root"
raise NameError("module is not installed as a submodule")""")
RETURNS_ONE_NAME = answer('print("asked")\nreturn "somewhere"')


@pytest.fixture
def watch(lessons: Path) -> Iterator[Terminal]:
    with terminal([*WATCH, "path_of_module", "--lessons", str(lessons)], ROOT) as opened:
        yield opened


def save(file: Path, text: str) -> None:
    """Save as careful editors do: write another file, then rename it."""
    beside = file.with_name(f".{file.name}.swp")
    beside.write_text(text)
    beside.replace(file)


def test_a_lesson_from_todo_over_red_to_green(watch: Terminal, lessons: Path):
    file = lessons / "path_of_module.py"
    watch.until("todo", "path_of_module  not started", "Ctrl-C: quit")
    save(file, FORGETS_THE_ROOT)
    shown = watch.until("red       path_of_module", "Ctrl-C: quit")
    assert "── path_of_module: the root is the empty string ─" in shown
    assert "expected:     ''\ngot:          'root'" in shown
    save(file, FORGETS_THE_ROOT.replace(' or "root"', ""))
    watch.until("done      path_of_module  core ", "Ctrl-C: quit")
    save(file, STARRED)
    watch.until("starred   path_of_module  core ", "Ctrl-C: quit")
    watch.process.send_signal(signal.SIGINT)
    assert watch.end() == INTERRUPTED


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 12)])
def test_on_a_small_terminal_the_whole_verdict_stays_in_sight(
    columns: int, rows: int, lessons: Path
):
    save(lessons / "path_of_module.py", RETURNS_ONE_NAME)
    command = [*WATCH, "--lessons", str(lessons)]
    with terminal(command, ROOT, columns=columns, rows=rows) as watch:
        watch.until("red       path_of_module", "Ctrl-C: quit")
        watch.screen.reset()  # so that only new text is on it
        save(lessons / "path_of_module.py", RETURNS_ONE_NAME)
        shown = watch.until("red       path_of_module", "Ctrl-C: quit")
    assert shown.splitlines()[0].startswith("── path_of_module: the root is")
    assert "expected:     ''\ngot:          'somewhere'\n" in shown
    assert re.search(r"\d+ more tests are red", shown)


@pytest.mark.slow
def test_a_save_during_a_run_drops_the_run(watch: Terminal, lessons: Path):
    file = lessons / "path_of_module.py"
    watch.until("not started")
    save(file, LOOPS_FOREVER)
    watch.until("judging path_of_module")
    save(file, STARRED)
    assert "time limit" not in watch.until("starred   path_of_module", "Ctrl-C: quit")


@pytest.mark.slow
def test_the_end_of_the_terminal_ends_the_watch_and_its_worker(lessons: Path):
    with terminal([*WATCH, "--lessons", str(lessons)], ROOT) as watch:
        watch.until("not started")
    assert watch.process.returncode == 0


# --- Ctrl-C ends a command quietly

# Press it in a command, and once more while that tidies up.
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


def test_ctrl_c_once_more_while_it_tidies_up():
    done = python("-c", TWICE)
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["importing torch", "judging", "Ctrl-C: quit"])
def test_ctrl_c_while_the_watch_is_on(moment: str, lessons: Path):
    with terminal([*WATCH, "--lessons", str(lessons)], ROOT) as watch:
        watch.until(moment)
        watch.process.send_signal(signal.SIGINT)
        assert watch.end() == INTERRUPTED
        assert "Traceback" not in watch.text


# --- what counts as a save


@pytest.fixture
def saves(tmp_path: Path) -> Iterator[Saves]:
    """The saves in a folder that is watched, from when it is."""
    saves, file = Saves(tmp_path.resolve()), tmp_path / "tracer.py"
    # The listener takes a moment to begin: the first save that it hears of says that it has.
    while not saves.poll():
        file.write_text(f"one {time.monotonic()}")
        time.sleep(0.1)
    told(saves)
    yield saves
    saves.close()


def told(saves: Saves) -> list[str]:
    """Each lesson, as often as it is reported within a second."""
    found = []
    for _ in range(20):
        time.sleep(0.05)
        found += sorted(saves.poll())
    return found


def test_a_save_is_reported_once_even_without_a_change_or_by_rename(saves: Saves, tmp_path: Path):
    for _ in range(2):
        (tmp_path / "tracer.py").write_text("two")
        assert told(saves) == ["tracer"]
    aside = (tmp_path / "tracer.py").rename(tmp_path / "tracer.py~")
    (tmp_path / "tracer.py").write_text("two")
    aside.unlink()
    assert told(saves) == ["tracer"]
